#include "server/constraints.h"

#include <algorithm>
#include <vector>

#include "chat/markers.h"
#include "chat/python_json.h"
#include "grammar/json_schema.h"
#include "grammar/tool_calls.h"

namespace cachalot {
namespace {

constexpr size_t kMaxGrammars = 8;  // each may grow to tens of megabytes

Result<int32_t> TokenOf(const Tokenizer& tokenizer, std::string_view marker) {
  const std::optional<int32_t> id = tokenizer.TokenId(marker);
  if (!id) {
    return MakeError(StatusCode::kInvalidArgument,
                     "the tokenizer has no token {}, which answers are told apart by", marker);
  }
  return *id;
}

// What a grammar is made of, and so its key.
struct Source {
  std::vector<std::string> tools;  // one of which is called, or else
  OrderedJson schema;              // the content is JSON by it; null: a call it must be

  bool is_none() const { return tools.empty() && schema.is_null(); }
  std::string Key() const {
    std::string key = DumpPythonJson(schema);
    for (const std::string& tool : tools) {
      key += "\n" + tool;
    }
    return key;
  }
};

std::vector<std::string> DeclaredTools(const ChatInput& chat) {
  std::vector<std::string> names;
  for (const Message& message : chat.messages) {
    for (const OrderedJson& tool : message.tools) {
      // A message's own tools are what a client wrote.
      const auto name = tool.find("name");
      names.push_back(name != tool.end() && name->is_string() ? name->get<std::string>() : "");
    }
  }
  return names;
}

Source SourceOf(const GenerationRequest& request) {
  Source source;
  const auto* chat = std::get_if<ChatInput>(&request.input);
  if (chat != nullptr && chat->tools.choice == ToolPolicy::Choice::kRequired) {
    source.tools = chat->tools.names.empty() ? DeclaredTools(*chat) : chat->tools.names;
    return source;
  }
  switch (request.format.kind) {
    case AnswerFormat::Kind::kText:
      return source;
    case AnswerFormat::Kind::kJsonObject:
      source.schema = {{"type", "object"}};
      break;
    case AnswerFormat::Kind::kJsonSchema:
      source.schema = request.format.schema;
  }
  if (chat != nullptr && chat->tools.choice == ToolPolicy::Choice::kAuto) {
    source.tools = DeclaredTools(*chat);
  }
  return source;
}

}  // namespace

Result<Constraints> Constraints::New(const Tokenizer& tokenizer, const SamplingParams& defaults,
                                     int64_t vocab_size) {
  Constraints constraints;
  CACHALOT_ASSIGN_OR_RETURN(constraints.think_close_, TokenOf(tokenizer, kThinkClose));
  CACHALOT_ASSIGN_OR_RETURN(constraints.dsml_, TokenOf(tokenizer, kDsml));
  std::vector<std::string> bytes(static_cast<size_t>(vocab_size));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool is_mark = tokenizer.IsSpecial(id) || id == constraints.think_close_ ||
                         id == constraints.dsml_ || tokenizer.TokenId(kThinkOpen) == id;
    if (tokenizer.HasToken(id) && !is_mark) {
      CACHALOT_ASSIGN_OR_RETURN(bytes[static_cast<size_t>(id)], tokenizer.TokenBytes(id));
    }
  }
  CACHALOT_ASSIGN_OR_RETURN(constraints.vocabulary_,
                            GrammarVocabulary::Make(bytes, defaults.stop_ids));
  return constraints;
}

Result<std::optional<AnswerRules>> Constraints::RulesOf(const GenerationRequest& request,
                                                        ThinkingMode mode) {
  const auto* chat = std::get_if<ChatInput>(&request.input);
  AnswerRules rules;
  CACHALOT_ASSIGN_OR_RETURN(rules.grammar, GrammarOf(request));
  rules.think_close = think_close_;
  rules.begins_with_thinking = chat != nullptr && mode == ThinkingMode::kThinking;
  if (rules.begins_with_thinking) {
    rules.thinking_budget = chat->thinking.budget;
  }
  if (rules.grammar == nullptr && !rules.thinking_budget) {
    return std::nullopt;
  }
  return rules;
}

std::unique_ptr<TokenConstraint> Constraints::NewConstraint(const AnswerRules& rules) const {
  return std::make_unique<AnswerConstraint>(vocabulary_, rules);
}

Result<std::shared_ptr<CompiledGrammar>> Constraints::GrammarOf(const GenerationRequest& request) {
  const Source source = SourceOf(request);
  if (source.is_none()) {
    return nullptr;
  }
  const std::string key = source.Key();
  {
    const std::lock_guard lock(*mutex_);
    const auto found =
        std::ranges::find(grammars_, key, [](const auto& kept) { return kept.first; });
    if (found != grammars_.end()) {
      grammars_.splice(grammars_.begin(), grammars_, found);
      return found->second;
    }
  }
  Grammar grammar;
  if (source.schema.is_null()) {
    CACHALOT_ASSIGN_OR_RETURN(grammar, ForcedToolCall(source.tools, dsml_));
  } else if (source.tools.empty()) {
    CACHALOT_ASSIGN_OR_RETURN(grammar, GrammarOfJsonSchema(source.schema));
  } else {
    CACHALOT_ASSIGN_OR_RETURN(grammar,
                              GrammarOfJsonSchemaOr(source.schema, [&](GrammarBuilder& builder) {
                                return AddToolCall(builder, source.tools, dsml_);
                              }));
  }
  CACHALOT_ASSIGN_OR_RETURN(std::shared_ptr<CompiledGrammar> compiled,
                            CompiledGrammar::Make(std::move(grammar), vocabulary_));
  const std::lock_guard lock(*mutex_);
  grammars_.emplace_front(key, compiled);
  grammars_.resize(std::min(grammars_.size(), kMaxGrammars));
  return compiled;
}

}  // namespace cachalot
