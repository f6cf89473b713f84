#include "cli/chat_session.h"

#include <algorithm>
#include <utility>

#include "server/encode_prompt.h"
#include "tokenizer/incremental_decoder.h"

namespace cachalot {
namespace {

void Write(const CompletionEvent& event, AnswerWriter& writer, Message& message) {
  switch (event.kind) {
    case CompletionEvent::Kind::kReasoning:
      message.reasoning_content += event.text;
      return writer.Reasoning(event.text);
    case CompletionEvent::Kind::kContent:
      message.content += event.text;
      return writer.Content(event.text);
    case CompletionEvent::Kind::kCallStart:
      message.tool_calls.push_back({.id = {}, .name = event.text, .arguments = {}});
      return writer.CallStart(event.text);
    case CompletionEvent::Kind::kCallArguments:
      message.tool_calls.back().arguments += event.text;
      return writer.CallArguments(event.text);
    case CompletionEvent::Kind::kCallEnd:
      return writer.CallEnd();
  }
}

FinishReason FinishOf(AnswerEnd end) {
  return end == AnswerEnd::kStopToken ? FinishReason::kEndOfSentence : FinishReason::kLength;
}

}  // namespace

ChatSession::ChatSession(ModelRunner& runner, const Tokenizer& tokenizer,
                         const PromptWording& wording, ChatSettings settings)
    : runner_(runner), tokenizer_(tokenizer), wording_(wording), settings_(std::move(settings)) {}

ChatSession::~ChatSession() {
  if (open_) {
    runner_.Close(slot_);
  }
}

void ChatSession::Forget() { history_.clear(); }

void ChatSession::set_thinking(bool thinking) {
  settings_.prompt.thinking_mode = thinking ? ThinkingMode::kThinking : ThinkingMode::kChat;
}

Result<AnswerEnd> ChatSession::Generate(const std::vector<int32_t>& prompt, AnswerWriter& writer,
                                        const TextSink& on_text) {
  // At least the last token runs again: its logits begin the answer.
  const bool extends = open_ && cached_.size() < prompt.size() &&
                       std::equal(cached_.begin(), cached_.end(), prompt.begin());
  if (!extends) {
    if (std::exchange(open_, false)) {
      runner_.Close(slot_);
    }
    cached_.clear();
    CACHALOT_ASSIGN_OR_RETURN(slot_, runner_.Open());
    open_ = true;
  }
  IncrementalDecoder decoder(tokenizer_);
  Status decoded;
  std::vector<int32_t> answer;
  GenerateHooks hooks;
  hooks.on_prefill = [&](int64_t done, int64_t total) { writer.Prefill(done, total); };
  hooks.cancelled = [&] { return writer.Cancelled(); };
  hooks.on_token = [&](int32_t id) {
    answer.push_back(id);
    auto text = decoder.Push(id);
    if (text) {
      on_text(*text);
    } else if (decoded) {
      decoded = tl::unexpected(std::move(text).error());
    }
  };
  const auto end = cachalot::Generate(runner_, slot_, std::span(prompt).subspan(cached_.size()),
                                      settings_.generate, hooks);
  cached_ = prompt;
  cached_.insert(cached_.end(), answer.begin(), answer.end());
  cached_.resize(static_cast<size_t>(runner_.length(slot_)));
  CACHALOT_RETURN_IF_ERROR(std::move(decoded));
  on_text(decoder.Finish());
  return end;
}

Status ChatSession::Answer(const std::string& user_text, AnswerWriter& writer) {
  std::vector<Message> messages = history_;
  if (messages.empty() && !settings_.system.empty()) {
    messages.push_back({.role = Role::kSystem, .content = settings_.system});
  }
  messages.push_back({.role = Role::kUser, .content = user_text});
  CACHALOT_ASSIGN_OR_RETURN(const Prompt prompt,
                            EncodeMessages(messages, settings_.prompt, wording_));
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, EncodePrompt(tokenizer_, prompt));

  Message reply;
  reply.role = Role::kAssistant;
  CompletionParser parser(settings_.prompt.thinking_mode);
  const auto write_all = [&](const std::vector<CompletionEvent>& events) {
    for (const CompletionEvent& event : events) {
      Write(event, writer, reply);
    }
  };
  CACHALOT_ASSIGN_OR_RETURN(const AnswerEnd end, Generate(ids, writer, [&](std::string_view text) {
                              write_all(parser.Push(text));
                            }));
  write_all(parser.Finish(FinishOf(end)));
  messages.push_back(std::move(reply));
  history_ = std::move(messages);
  return {};
}

Status ChatSession::Complete(const std::string& prompt, AnswerWriter& writer) {
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer_.Encode(prompt));
  CACHALOT_RETURN_IF_ERROR(
      Generate(ids, writer, [&](std::string_view text) { writer.Content(text); }));
  return {};
}

}  // namespace cachalot
