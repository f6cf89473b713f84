// Messages to prompt text. There is no template language: these rules are the whole of
// DeepSeek-V4's published encoder (its encode_messages), with the wording of tools block, response
// format and effort taken from the checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/wording.h"

namespace cachalot {

// A run of special tokens (trusted), or text in which no special token may be recognised: what
// users, tools and models wrote, and the plain part of templates. A special token ends a word for
// the tokenizer anyway, so encoding segment by segment gives the ids of the whole text; what looks
// like a special token in a user's text stays text. Or tokens, which stand for themselves.
struct PromptSegment {
  std::string text;
  bool trusted = false;
  std::vector<int32_t> tokens = {};  // then there is no text

  bool operator==(const PromptSegment&) const = default;
};

// Never two neighbouring texts of one kind, never an empty segment.
class Prompt {
 public:
  void AddSpecial(std::string_view markers) { Add(markers, true); }
  void AddText(std::string_view text) { Add(text, false); }
  void AddTokens(const std::vector<int32_t>& tokens);
  // Text of a template: the special tokens in it are meant.
  void AddTemplateText(std::string_view text);

  const std::vector<PromptSegment>& segments() const { return segments_; }
  // Without the tokens.
  std::string Text() const;

 private:
  void Add(std::string_view text, bool trusted);

  std::vector<PromptSegment> segments_;
};

struct PromptOptions {
  ThinkingMode thinking_mode = ThinkingMode::kThinking;
  // Messages whose prompt is already there; they decide ordering and dropping, and are not rendered
  // again.
  std::vector<Message> context;
  // Leave out the reasoning (and developer messages) before the last user message; off where tools
  // are declared.
  bool drop_thinking = true;
  bool add_begin_of_sentence = true;  // only without context
  std::string reasoning_effort;       // empty: the wording's own default
};

// Fails for an effort that the wording does not know.
Result<Prompt> EncodeMessages(const std::vector<Message>& messages, const PromptOptions& options,
                              const PromptWording& wording);

}  // namespace cachalot
