// The output of `cachalot generate`: JSON lines, an answered request each, in the order in which
// they are done; and what a file of them says when a run is taken up again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/generate_request.h"

namespace cachalot {

enum class ResultEnd : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// "stop", "length", "cancelled", "deadline", "error".
std::string_view ResultEndText(ResultEnd reason);

struct NamedLogprob {
  int32_t id;
  float logprob;
  std::optional<std::string> token;  // its bytes; absent without a tokenizer
};

// Of one token of an answer.
struct LogprobEntry {
  NamedLogprob chosen;
  std::vector<NamedLogprob> top;
};

struct GenerateChoice {
  std::vector<int32_t> token_ids;
  std::optional<std::string> text;  // absent without a tokenizer
  ResultEnd finish_reason = ResultEnd::kStop;
  std::string error;                                  // of kError
  std::optional<std::vector<LogprobEntry>> logprobs;  // absent where not asked for
};

struct GenerateUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;  // of all choices
  int64_t cached_tokens = 0;      // of the prompt
};

struct GenerateResult {
  LineId id;
  std::vector<GenerateChoice> choices;  // as many as were asked for, at least one
  GenerateUsage usage;
};

// One line with its newline: {"id", "token_ids", "text", "finish_reason", "error", "logprobs",
// "usage"}, what is absent left out; several choices stand in a list "choices", with their "index".
// Logprobs have the shape of OpenAI's chat, "token_id" beside "token"; a probability of 0 has
// -9999, as there. Bytes that are no UTF-8 become U+FFFD.
std::string ResultLine(const GenerateResult& result);

struct ResumeState {
  std::set<LineId> done;    // every id that has a whole line
  int64_t whole_bytes = 0;  // where to go on: behind the last whole line
};

// Of an output that a run left behind. A last line without its newline is one that the run was
// killed in, and does not count. Refuses a file that holds anything but results, lest it be
// overwritten.
Result<ResumeState> ParseResumeState(std::string_view text, const std::string& source);
// Of nothing where there is no file.
Result<ResumeState> ReadResumeState(const std::string& path);

}  // namespace cachalot
