// What the model wrote, back into reasoning, content and tool calls, while it is being written.
// Tolerant: models forget closing tags, call without the wrapper or before they stopped thinking,
// and none of that may reach a client as markup. One parser per answer, used from one thread.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chat/completion_lexer.h"
#include "chat/message.h"
#include "chat/stop_strings.h"
#include "io/json.h"

namespace cachalot {

struct CompletionEvent {
  enum class Kind { kReasoning, kContent, kCallStart, kCallArguments, kCallEnd };
  Kind kind;
  int call = 0;      // of a call event: 0 for the first call
  std::string text;  // a piece of reasoning, content or arguments; the name at a call's start;
                     // empty at its end

  bool operator==(const CompletionEvent&) const = default;
};

// Adds an event, joining it to the last one if both are pieces of the same text.
void AppendEvent(std::vector<CompletionEvent>& events, CompletionEvent event);

enum class FinishReason { kEndOfSentence, kLength, kStop };

struct CompletionOptions {
  std::vector<std::string> stop;  // looked for in content alone
};

// Promises, for any input:
// - the same bytes give the same events, joined by AppendEvent, however they were split;
// - texts are valid UTF-8, whole characters each, and never contain ｜DSML｜;
// - arguments are a JSON object's text as soon as the call has ended, and when the answer finished
//   by itself every call has ended; one cut by length has no end event;
// - after the closing tag of the tool calls nothing follows.
class CompletionParser {
 public:
  explicit CompletionParser(ThinkingMode mode, CompletionOptions options = {});

  std::vector<CompletionEvent> Push(std::string_view bytes);
  // Once, at the end; the end-of-sentence mark may be the last text or not.
  std::vector<CompletionEvent> Finish(FinishReason reason);

  // A stop string came: what follows is ignored, generation may end.
  bool has_stopped() const { return stop_.has_stopped(); }
  const std::string& stopped_by() const { return stop_.stopped_by(); }
  int num_calls() const { return num_calls_; }

 private:
  using Token = CompletionToken;
  enum class State {
    kReasoning,
    kContent,
    kCalls,         // between invokes
    kInvokeTag,     // in <｜DSML｜invoke …>
    kInvoke,        // between parameters
    kParameterTag,  // in <｜DSML｜parameter …>
    kValue,
    kSkipTag,  // in a tag that means nothing
    kDone,
  };
  enum class ValueType { kString, kJson, kRepeated };

  void OnToken(const Token& token);
  void OnProse(const Token& token);
  void OnCalls(const Token& token);
  void OnTag(const Token& token);
  void OnInvoke(const Token& token);
  void OnValue(const Token& token);
  void OnSkipTag(const Token& token);

  void SkipTag();
  void FinishTag();
  void BeginCall();
  void BeginParameter();
  void AddValue(std::string_view text);
  void EndValue();
  void EndCall();
  void EmitProse(std::string_view text);
  void EmitHeldProse();
  void EmitArguments(std::string_view text);
  void Emit(CompletionEvent::Kind kind, std::string text);
  std::string TakePending(bool drop_newlines);

  CompletionLexer lexer_;
  StopMatcher stop_;
  State state_;
  State after_skip_ = State::kDone;
  std::vector<CompletionEvent> events_;
  bool is_finished_ = false;

  std::string pending_;  // newlines that a mark may swallow, and end marks that may not be the end
  bool has_prose_ = false;  // of the present state, whose leading newlines are skipped
  std::string prose_tail_;  // the last bytes emitted, lest pieces meet and make a mark
  std::string arguments_tail_;

  int num_calls_ = 0;
  std::string tag_;             // attributes so far
  bool in_quotes_ = false;      // of tag_
  std::string body_;            // what an invoke holds instead of parameters
  std::set<std::string> keys_;  // of the present call
  ValueType value_type_ = ValueType::kString;
  std::string value_;  // a JSON value so far, kept until it is known to be one
};

// A whole completion: {"role", "reasoning_content", "content", "tool_calls"}, the last a list of
// {"type": "function", "function": {"name", "arguments"}}.
OrderedJson ParseCompletion(std::string_view text, ThinkingMode mode);

}  // namespace cachalot
