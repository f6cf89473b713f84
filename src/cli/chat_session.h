// A conversation with one request's cache behind it: what the next turn shares with the last is not
// run again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/completion.h"
#include "chat/prompt.h"
#include "engine/generate.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

struct ChatSettings {
  GenerateOptions generate;
  PromptOptions prompt;
  std::string system;
};

// Takes an answer as it comes.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void Reasoning(std::string_view text) = 0;
  virtual void Content(std::string_view text) = 0;
  virtual void CallStart(std::string_view name) = 0;
  virtual void CallArguments(std::string_view text) = 0;
  virtual void CallEnd() = 0;
  virtual void Prefill(int64_t done, int64_t total) = 0;
  virtual bool Cancelled() = 0;
};

class ChatSession {
 public:
  // All arguments outlive the session.
  ChatSession(ModelRunner& runner, const Tokenizer& tokenizer, const PromptWording& wording,
              ChatSettings settings);
  ~ChatSession();
  ChatSession(const ChatSession&) = delete;
  ChatSession& operator=(const ChatSession&) = delete;

  // One turn. An answer that was cancelled stays in the history as far as it came; a turn that
  // failed leaves none.
  Status Answer(const std::string& user_text, AnswerWriter& writer);
  // `prompt` as it stands, special tokens included, without history; all of the completion is
  // content.
  Status Complete(const std::string& prompt, AnswerWriter& writer);

  void Forget();  // the history
  void set_thinking(bool thinking);
  const ChatSettings& settings() const { return settings_; }

 private:
  using TextSink = std::function<void(std::string_view text)>;

  // Makes the request's cache hold a prefix of `prompt` and answers what is left of it.
  Result<GenerateEnd> Generate(const std::vector<int32_t>& prompt, AnswerWriter& writer,
                               const TextSink& on_text);

  ModelRunner& runner_;
  const Tokenizer& tokenizer_;
  const PromptWording& wording_;
  ChatSettings settings_;
  std::vector<Message> history_;
  RequestSlot slot_;
  bool open_ = false;
  std::vector<int32_t> cached_;  // the tokens in the request's cache
};

}  // namespace cachalot
