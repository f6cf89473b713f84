// From a line of a request file to the ids of its prompt, by the checkpoint's tokenizer and wording.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/wording.h"
#include "checkpoint/config.h"
#include "cli/generate_request.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

// What a checkpoint's folder says of text.
struct TextModel {
  std::shared_ptr<const Tokenizer> tokenizer;
  PromptWording wording;
  // Ids of the vocabulary that no token stands for.
  std::shared_ptr<const std::vector<int32_t>> unused_ids;
};
Result<TextModel> LoadTextModel(const std::string& folder, const ModelConfig& config);

class RequestEncoder {
 public:
  // Of a checkpoint folder. It may lack a tokenizer where all requests are token ids without stop
  // strings.
  static Result<RequestEncoder> Load(const std::string& folder, const ModelConfig& config,
                                     std::span<const GenerateRequest> requests);

  Result<std::vector<int32_t>> Encode(const GenerateRequest& request) const;
  // Null where there is none.
  std::shared_ptr<const Tokenizer> tokenizer() const { return text_ ? text_->tokenizer : nullptr; }
  // Ids of the vocabulary that no token stands for; null without a tokenizer.
  std::shared_ptr<const std::vector<int32_t>> unused_ids() const {
    return text_ ? text_->unused_ids : nullptr;
  }

 private:
  std::optional<TextModel> text_;
};

}  // namespace cachalot
