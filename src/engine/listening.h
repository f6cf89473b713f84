// Requests and what their listeners hear, for this room's tests.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace cachalot {

using Tokens = std::vector<int32_t>;

inline std::string Golden(const std::string& name) {
  return CACHALOT_SOURCE_DIR "/tests/golden/" + name;
}

// Ids of the small checkpoints, whose vocabulary has 256; never 0 to 2.
inline Tokens RandomText(uint32_t seed, int64_t count) {
  std::mt19937 random(seed);
  Tokens ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(random() % 253 + 3));
  }
  return ids;
}

inline Tokens First(const Tokens& ids, int64_t count) {
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)};
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Everything that one listener heard.
struct Heard {
  Tokens ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<std::pair<int64_t, TokenLogprobs>> prompt_logprobs;
  std::vector<int64_t> progress;
  std::optional<EndReason> end;
  RequestUsage usage;
  bool orderly = true;  // indices without gaps, one end, nothing after it

  bool ok() const { return orderly && (end == EndReason::kStopped || end == EndReason::kLength); }
};

// Floats by their bits.
inline std::vector<uint32_t> BitsOf(const TokenLogprobs& logprobs) {
  std::vector<uint32_t> bits = {static_cast<uint32_t>(logprobs.chosen.id),
                                std::bit_cast<uint32_t>(logprobs.chosen.logprob)};
  for (const TokenLogprob& top : logprobs.top) {
    bits.push_back(static_cast<uint32_t>(top.id));
    bits.push_back(std::bit_cast<uint32_t>(top.logprob));
  }
  return bits;
}

// The answer to the bit: what engine.E2 says is a function of the request alone.
inline std::vector<std::vector<uint32_t>> AnswerBits(const Heard& heard) {
  std::vector<std::vector<uint32_t>> bits;
  for (const int32_t id : heard.ids) {
    bits.push_back({static_cast<uint32_t>(id)});
  }
  for (const TokenLogprobs& logprobs : heard.logprobs) {
    bits.push_back(BitsOf(logprobs));
  }
  return bits;
}

class Recorder final : public RequestListener {
 public:
  using OnTokenHook = std::function<bool(const GeneratedToken&)>;
  Recorder(std::shared_ptr<Heard> heard, OnTokenHook on_token, std::function<void()> on_end)
      : heard_(std::move(heard)), on_token_(std::move(on_token)), on_end_(std::move(on_end)) {}

  void OnPrompt(int64_t done, int64_t total, int64_t /*cached*/) override {
    heard_->orderly = heard_->orderly && !heard_->end && done <= total;
    heard_->progress.push_back(done);
  }
  void OnPromptToken(int64_t index, const TokenLogprobs& logprobs) override {
    heard_->orderly = heard_->orderly && !heard_->end;
    heard_->prompt_logprobs.emplace_back(index, logprobs);
  }
  bool OnToken(const GeneratedToken& token) override {
    heard_->orderly =
        heard_->orderly && !heard_->end && token.index == static_cast<int64_t>(heard_->ids.size());
    heard_->ids.push_back(token.id);
    if (token.logprobs) {
      heard_->logprobs.push_back(*token.logprobs);
    }
    return !on_token_ || on_token_(token);
  }
  void OnEnd(EndReason reason, const RequestUsage& usage) override {
    heard_->orderly = heard_->orderly && !heard_->end;
    heard_->end = reason;
    heard_->usage = usage;
    if (on_end_) {
      on_end_();
    }
  }

 private:
  const std::shared_ptr<Heard> heard_;
  const OnTokenHook on_token_;
  const std::function<void()> on_end_;
};

// A greedy request with the logprobs of three.
inline EngineRequest Ask(Tokens prompt, int64_t max_new_tokens = 4) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_new_tokens = max_new_tokens;
  request.top_logprobs = 3;
  return request;
}

// Gives the request a listener; what it hears may be read when the request has ended.
inline std::shared_ptr<const Heard> Listen(EngineRequest& request,
                                           Recorder::OnTokenHook on_token = {},
                                           std::function<void()> on_end = {}) {
  auto heard = std::make_shared<Heard>();
  request.listener = std::make_unique<Recorder>(heard, std::move(on_token), std::move(on_end));
  return heard;
}

}  // namespace cachalot
