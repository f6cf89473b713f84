// Generator: from a request in no dialect to an answer in none: prompt, constraints, engine, text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/wording.h"
#include "engine/engine.h"
#include "http/http.h"
#include "server/answer.h"
#include "server/choice_listener.h"
#include "server/constraints.h"
#include "server/generation_request.h"
#include "server/json_fields.h"
#include "server/turn_memory.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

struct ServedModel {
  std::string name;      // as clients call it
  bool any_name = true;  // answer whatever they call it
  int64_t created = 0;   // seconds since 1970
  std::shared_ptr<const Tokenizer> tokenizer;
  PromptWording wording;
  RequestDefaults defaults;        // banned ids included
  bool thinks_by_default = false;  // where a client says nothing of it
};

class Generator {
 public:
  // Engine and metrics outlive the generator, and the generator whatever it has started. Fails where
  // the tokenizer lacks what answers need.
  static Result<std::unique_ptr<Generator>> New(Engine& engine, ServedModel model,
                                                ServerMetrics& metrics);

  const ServedModel& model() const { return model_; }
  // For a request that is about to be read: a seed of its own, should it bring none.
  RequestDefaults NewDefaults() const;
  Engine& engine() const { return engine_; }
  // The name that an answer shows: the member "model" of a request, the model's own where it has none.
  // 404 for a name that is not answered.
  ApiResult<std::string> ModelName(const JsonFields& fields) const;

  // Begins to answer; the sink hears the rest, and is kept until then. When the client goes the
  // answer is cancelled. `answer_id` is that of the answer in its dialect, of which ids of calls are
  // made (CallId). On an error the sink hears nothing.
  ApiStatus Start(GenerationRequest request, const std::string& answer_id,
                  std::shared_ptr<HttpExchange> exchange, std::shared_ptr<AnswerSink> sink);
  // The prompt that Start would run.
  ApiResult<std::vector<int32_t>> PromptOf(const GenerationRequest& request) const;
  ApiResult<int64_t> CountPromptTokens(const GenerationRequest& request) const;

 private:
  Generator(Engine& engine, ServedModel model, ServerMetrics& metrics, Constraints constraints);

  ThinkingMode ModeOf(const GenerationRequest& request) const;
  ChoiceSettings SettingsOf(const GenerationRequest& request, const std::string& answer_id,
                            const std::vector<int32_t>& prompt) const;

  Engine& engine_;
  const ServedModel model_;
  ServerMetrics& metrics_;
  Constraints constraints_;
  const std::shared_ptr<TurnMemory> turns_;
};

// A random id such as "chatcmpl-4f…": the prefix and 32 hexadecimal digits.
std::string NewId(std::string_view prefix);

}  // namespace cachalot
