// What a client asks the model for, whatever dialect it spoke: the door of each dialect makes one, the
// generator runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/message.h"
#include "io/json.h"
#include "sampling/params.h"

namespace cachalot {

// Whether and how hard the model is to think; what a client leaves open is the server's to decide.
struct ThinkingSetting {
  std::optional<bool> enabled;
  std::string effort;             // as clients spell it: "low", "high", "max"; empty: not said
  std::optional<int64_t> budget;  // tokens of thinking at most
};

struct ToolPolicy {
  enum class Choice : uint8_t { kAuto, kNone, kRequired };
  Choice choice = Choice::kAuto;
  std::vector<std::string> names;  // of kRequired: one of these; empty: any declared
  bool parallel = true;            // false: at most one call
};

// What the answer's content has to be; enforced (docs/structured-output.md).
struct AnswerFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  OrderedJson schema;  // of kJsonSchema
};

struct ChatInput {
  std::vector<Message> messages;  // with tools and response format in their place
  ThinkingSetting thinking;
  ToolPolicy tools;
};

struct GenerationRequest {
  std::variant<std::string, std::vector<int32_t>, ChatInput> input;
  SamplingParams sampling;                // the request's fields over the defaults
  std::optional<int64_t> max_new_tokens;  // absent: as the context allows
  std::vector<std::string> stop;          // these end the answer; at most kMaxStopStrings
  int64_t num_choices = 1;                // of choice c the seed is ChoiceSeed(sampling.seed, c)
  std::optional<int64_t> top_logprobs;    // absent: no logprobs; 0: of the chosen token alone
  bool echo = false;                      // the prompt before the answer
  int64_t priority = 0;                   // higher runs first
  std::optional<double> timeout_seconds;
  AnswerFormat format;
};

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr int64_t kMaxChoices = 128;

struct RequestDefaults {
  SamplingParams sampling;  // its stop_ids are those of the checkpoint, which ignore_eos drops
  int64_t vocab_size = 0;
};

}  // namespace cachalot
