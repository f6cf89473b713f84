#include "cli/request_encoder.h"

#include <algorithm>
#include <filesystem>

#include "chat/prompt.h"
#include "server/encode_prompt.h"

namespace cachalot {
namespace {

bool NeedsTokenizer(const GenerateRequest& request) {
  return !std::holds_alternative<std::vector<int32_t>>(request.input) || !request.stop.empty();
}

}  // namespace

Result<TextModel> LoadTextModel(const std::string& folder, const ModelConfig& config) {
  const std::string path = folder + "/tokenizer.json";
  CACHALOT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(path));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{} has ids up to {}, but the model's vocabulary is {}", path,
                     tokenizer.vocab_size() - 1, config.vocab_size);
  }
  TextModel text;
  CACHALOT_ASSIGN_OR_RETURN(text.wording, LoadPromptWording(folder));
  std::vector<int32_t> unused;
  for (int32_t id = 0; id < config.vocab_size; ++id) {
    if (!tokenizer.HasToken(id)) {
      unused.push_back(id);
    }
  }
  text.unused_ids = std::make_shared<const std::vector<int32_t>>(std::move(unused));
  text.tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer));
  return text;
}

Result<RequestEncoder> RequestEncoder::Load(const std::string& folder, const ModelConfig& config,
                                            std::span<const GenerateRequest> requests) {
  RequestEncoder encoder;
  if (std::filesystem::exists(folder + "/tokenizer.json") ||
      std::ranges::any_of(requests, NeedsTokenizer)) {
    CACHALOT_ASSIGN_OR_RETURN(encoder.text_, LoadTextModel(folder, config));
  }
  return encoder;
}

Result<std::vector<int32_t>> RequestEncoder::Encode(const GenerateRequest& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
    return *ids;
  }
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    return text_->tokenizer->Encode(*text);
  }
  const auto& chat = std::get<ChatInput>(request.input);
  PromptOptions options;
  const bool thinks = chat.thinking.enabled.value_or(!chat.thinking.effort.empty());
  options.thinking_mode = thinks ? ThinkingMode::kThinking : ThinkingMode::kChat;
  options.reasoning_effort = chat.thinking.effort;
  CACHALOT_ASSIGN_OR_RETURN(const Prompt prompt,
                            EncodeMessages(chat.messages, options, text_->wording));
  return EncodePrompt(*text_->tokenizer, prompt);
}

}  // namespace cachalot
