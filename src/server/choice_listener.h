// ChoiceListener: from the tokens of one choice to what its dialect hears: text, reasoning, calls,
// logprobs, the end. Lives on the engine's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/completion.h"
#include "engine/request.h"
#include "metrics/server_metrics.h"
#include "server/answer.h"
#include "server/request_clock.h"
#include "server/turn_memory.h"
#include "tokenizer/incremental_decoder.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

struct ChoiceSettings {
  std::string answer_id;
  int64_t choice = 0;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> stop;
  std::optional<ThinkingMode> chat;   // nullopt: a text completion, all of it content
  bool parallel_calls = true;         // false: a second call is not begun
  int32_t think_close = -1;           // its token, in a chat
  std::shared_ptr<TurnMemory> turns;  // in a chat
  std::vector<int32_t> echo;          // the prompt, where it stands before the answer
  bool echo_logprobs = false;
  ServerMetrics* metrics = nullptr;
};

// Where to: each may be called from the engine's thread, and does not wait.
struct ChoiceEvents {
  std::function<void(int64_t done, int64_t cached)> on_prompt;
  std::function<void(AnswerPiece piece)> on_piece;
  // Of this choice.
  std::function<void(const AnswerEnd& end, const AnswerUsage& usage, const RequestClock& clock)>
      on_end;
};

class ChoiceListener final : public RequestListener {
 public:
  ChoiceListener(ChoiceSettings settings, ChoiceEvents events, RequestClock clock);

  void OnPrompt(int64_t done, int64_t total, int64_t cached) override;
  void OnPromptToken(int64_t index, const TokenLogprobs& logprobs) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnEnd(EndReason reason, const RequestUsage& usage) override;

 private:
  std::vector<CompletionEvent> EventsOf(const std::string& text);
  std::vector<CompletionEvent> LastEvents(EndReason reason);
  void Keep(const CompletionEvent& event);
  bool CutSecondCall(std::vector<CompletionEvent>& events);
  void Tell(std::vector<CompletionEvent> events);
  AnswerEnd EndOf(EndReason reason) const;
  void RememberTurn() const;
  LogprobEntry Named(const TokenLogprobs& logprobs) const;
  NamedLogprob Named(const TokenLogprob& logprob) const;

  const ChoiceSettings settings_;
  const ChoiceEvents events_;
  RequestClock clock_;
  IncrementalDecoder decoder_;
  std::optional<CompletionParser> parser_;  // of a chat
  StopMatcher stops_;                       // of a text completion
  std::vector<int32_t> tokens_;
  std::optional<size_t> thinking_end_;  // index of </think> among the tokens
  std::vector<ToolCall> calls_;
  std::vector<LogprobEntry> logprobs_;  // not told yet, like the next
  int64_t new_tokens_ = 0;
  bool is_over_ = false;
  bool was_cut_ = false;  // at a second call
};

}  // namespace cachalot
