// The mixed requests of the same-tokens matrix, and their answers to the bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cachalot {

struct MatrixRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t max_new_tokens = 1;
  int64_t abort_after = -1;  // tokens; -1: runs to its end
};

struct MatrixLoad {
  int64_t count = 200;
  int64_t longest = 3000;  // tokens of a prompt; lengths are spread evenly over their logarithm
  int64_t vocab_size = 0;
  uint32_t seed = 1;
};
// Prompts of their own, prompts with one of three beginnings, forks of earlier prompts at any place;
// greedy, sampled and penalised; a tenth is aborted.
std::vector<MatrixRequest> MakeMatrixRequests(const MatrixLoad& load);

// Everything that an answer says, floats by their bits.
struct MatrixAnswer {
  std::vector<int32_t> ids;
  std::vector<uint32_t> logprob_bits;  // of each token: its own, then the three likeliest
  bool ended = false;                  // by itself

  bool operator==(const MatrixAnswer&) const = default;
};

// Runs them through an engine, all submitted at once.
std::vector<MatrixAnswer> Answer(Engine& engine, const std::vector<MatrixRequest>& requests);

// "" where `found` is `expected`; an aborted answer may be cut anywhere after its abort.
std::string Difference(const std::vector<MatrixRequest>& requests,
                       const std::vector<MatrixAnswer>& expected,
                       const std::vector<MatrixAnswer>& found);

}  // namespace cachalot
