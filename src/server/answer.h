// An answer on its way to a client: what the generator tells and a dialect puts into its own words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/completion.h"
#include "server/api_error.h"

namespace cachalot {

struct NamedLogprob {
  int32_t id = 0;
  float logprob = 0;  // -infinity where the probability is 0
  std::string token;  // its bytes, be they UTF-8 or not
};

// Of one token of an answer, or of a prompt that is echoed.
struct LogprobEntry {
  NamedLogprob chosen;
  std::vector<NamedLogprob> top;
};

// What one or more tokens of a choice brought. Of a text completion all is kContent.
struct AnswerPiece {
  int64_t choice = 0;
  std::vector<CompletionEvent> events;  // may be empty: text is held back until it is certain
  std::vector<LogprobEntry> logprobs;   // of all tokens since the last piece, where asked for
  int64_t tokens = 0;                   // how many since the last piece
};

enum class AnswerFinish : uint8_t {
  kStop,        // by itself, or because nothing could follow
  kStopString,  // at one of the request's stop strings
  kToolCalls,   // by itself, with calls in it
  kLength,
  kCancelled,  // the client went, or the server ends
  kDeadline,   // the request's timeout
  kFailed,     // the device failed in one of its steps
};

struct AnswerEnd {
  AnswerFinish finish = AnswerFinish::kStop;
  std::string stop;  // of kStopString: which
};

struct AnswerUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt
  int64_t completion_tokens = 0;  // of all choices; tokens behind a stop string are not counted
  int64_t reasoning_tokens = 0;   // of these
};

// Who writes the answer. Called on the thread of the exchange, in this order: OnStart; then pieces and
// progress as they come, and one OnChoiceEnd for each choice behind its last piece; then OnEnd, the
// last call. If the client goes there may be no more calls at any moment.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // The request has been taken. A stream may begin: prompts take a while.
  virtual void OnStart(int64_t prompt_tokens) = 0;
  // Tokens of the first choice's prompt that have been run or found in the cache.
  virtual void OnPrompt(int64_t /*done*/, int64_t /*cached*/) {}
  virtual void OnPiece(const AnswerPiece& piece) = 0;
  virtual void OnChoiceEnd(int64_t choice, const AnswerEnd& end) = 0;
  virtual void OnEnd(const AnswerUsage& usage) = 0;
};

}  // namespace cachalot
