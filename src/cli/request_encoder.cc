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

Result<RequestEncoder> RequestEncoder::Load(const std::string& folder, const ModelConfig& config,
                                            std::span<const GenerateRequest> requests) {
  RequestEncoder encoder;
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path) && std::ranges::none_of(requests, NeedsTokenizer)) {
    return encoder;
  }
  CACHALOT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(path));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{} has ids up to {}, but the model's vocabulary is {}", path,
                     tokenizer.vocab_size() - 1, config.vocab_size);
  }
  CACHALOT_ASSIGN_OR_RETURN(encoder.wording_, LoadPromptWording(folder));
  auto unused = std::make_shared<std::vector<int32_t>>();
  for (int32_t id = 0; id < config.vocab_size; ++id) {
    if (!tokenizer.HasToken(id)) {
      unused->push_back(id);
    }
  }
  encoder.unused_ids_ = std::move(unused);
  encoder.tokenizer_ = std::make_shared<const Tokenizer>(std::move(tokenizer));
  return encoder;
}

Result<std::vector<int32_t>> RequestEncoder::Encode(const GenerateRequest& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
    return *ids;
  }
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    return tokenizer_->Encode(*text);
  }
  const auto& chat = std::get<ChatInput>(request.input);
  PromptOptions options;
  const bool thinks = chat.thinking.enabled.value_or(!chat.thinking.effort.empty());
  options.thinking_mode = thinks ? ThinkingMode::kThinking : ThinkingMode::kChat;
  options.reasoning_effort = chat.thinking.effort;
  CACHALOT_ASSIGN_OR_RETURN(const Prompt prompt, EncodeMessages(chat.messages, options, *wording_));
  return EncodePrompt(*tokenizer_, prompt);
}

}  // namespace cachalot
