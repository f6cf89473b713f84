#include "server/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "sampling/logprobs.h"

namespace cachalot {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr double kMaxTimeoutSeconds = 1e9;

// OpenAI's object of ids as text.
Status ReadLogitBias(const JsonFields& fields, int64_t vocab_size, std::vector<LogitBias>* biases) {
  const OrderedJson* object = fields.Find("logit_bias");
  if (object == nullptr) {
    return {};
  }
  if (!object->is_object()) {
    return fields.Wrong("logit_bias", *object, "an object of token ids and biases");
  }
  biases->clear();
  for (const auto& [key, value] : object->items()) {
    int32_t id = -1;
    const char* end = key.data() + key.size();
    const auto [rest, fault] = std::from_chars(key.data(), end, id);
    constexpr size_t kMostDigits = 10;
    if (key.size() > kMostDigits || fault != std::errc() || rest != end || id < 0 ||
        id >= vocab_size) {
      return fields.Wrong("a key of logit_bias", key,
                          fmt::format("a token id from 0 to {}", vocab_size - 1));
    }
    CACHALOT_ASSIGN_OR_RETURN(const double bias, fields.NumberOf("logit_bias." + key, value));
    biases->push_back({id, bias});
  }
  return {};
}

Status ReadStopIds(const JsonFields& fields, int64_t vocab_size, SamplingParams* sampling) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<bool> ignore_eos, fields.Flag("ignore_eos"));
  if (ignore_eos.value_or(false)) {
    sampling->stop_ids.clear();
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                            ReadTokenIds(fields, "stop_token_ids", vocab_size));
  sampling->stop_ids.insert(sampling->stop_ids.end(), ids.begin(), ids.end());
  return {};
}

}  // namespace

Status ReadSampling(const JsonFields& fields, int64_t vocab_size, SamplingParams* sampling) {
  const std::pair<const char*, double*> numbers[] = {
      {"temperature", &sampling->temperature},
      {"top_p", &sampling->top_p},
      {"min_p", &sampling->min_p},
      {"frequency_penalty", &sampling->frequency_penalty},
      {"presence_penalty", &sampling->presence_penalty},
      {"repetition_penalty", &sampling->repetition_penalty}};
  for (const auto& [name, value] : numbers) {
    CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Number(name), value));
  }
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Integer("top_k", -1, kMost), &sampling->top_k));
  sampling->top_k = std::max<int64_t>(sampling->top_k, 0);
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Integer("seed", kLeast, kMost), &sampling->seed));
  CACHALOT_RETURN_IF_ERROR(ReadLogitBias(fields, vocab_size, &sampling->logit_bias));
  CACHALOT_RETURN_IF_ERROR(ReadStopIds(fields, vocab_size, sampling));
  if (const Status status = CheckSamplingParams(*sampling); !status) {
    return fields.Fault(status.error().message);
  }
  return {};
}

Status ReadLengths(const JsonFields& fields, std::span<const char* const> names,
                   GenerationRequest* request) {
  const char* name = nullptr;
  for (const char* spelling : names) {
    if (fields.Find(spelling) == nullptr) {
      continue;
    }
    if (name != nullptr) {
      return fields.Fault(fmt::format("{} stands beside {}, expected one of them", spelling, name),
                          spelling);
    }
    name = spelling;
    CACHALOT_ASSIGN_OR_RETURN(request->max_new_tokens, fields.Integer(name, 1, kMost));
  }
  int64_t& least = request->sampling.min_new_tokens;
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Integer("min_tokens", 0, kMost), &least));
  if (request->max_new_tokens && least > *request->max_new_tokens) {
    return fields.Fault(fmt::format("min_tokens is {}, expected at most the {} of {}", least,
                                    *request->max_new_tokens, name == nullptr ? names[0] : name),
                        "min_tokens");
  }
  return {};
}

Status ReadStop(const JsonFields& fields, const char* name, std::vector<std::string>* stops) {
  const OrderedJson* stop = fields.Find(name);
  if (stop == nullptr) {
    return {};
  }
  const OrderedJson list = stop->is_array() ? *stop : OrderedJson::array({*stop});
  if (list.size() > kMaxStopStrings) {
    return fields.Fault(
        fmt::format("{} has {} strings, expected at most {}", name, list.size(), kMaxStopStrings),
        name);
  }
  for (const OrderedJson& value : list) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return fields.Wrong(name, value, "a string that is not empty, or a list of such");
    }
    stops->push_back(value.get<std::string>());
  }
  return {};
}

Status ReadScheduling(const JsonFields& fields, GenerationRequest* request) {
  CACHALOT_RETURN_IF_ERROR(
      SetIfPresent(fields.Integer("n", 1, kMaxChoices), &request->num_choices));
  CACHALOT_RETURN_IF_ERROR(
      SetIfPresent(fields.Integer("priority", kLeast, kMost), &request->priority));
  std::optional<double>& seconds = request->timeout_seconds;
  CACHALOT_ASSIGN_OR_RETURN(seconds, fields.Number("timeout"));
  if (seconds && !(*seconds > 0 && *seconds <= kMaxTimeoutSeconds)) {
    return fields.Wrong("timeout", *fields.Find("timeout"), "seconds above 0, at most 1e9");
  }
  return {};
}

// Chat's true with a number beside it, or the number that completions have in its place.
Status ReadLogprobs(const JsonFields& fields, std::optional<int64_t>* top) {
  const OrderedJson* logprobs = fields.Find("logprobs");
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                            fields.Integer("top_logprobs", 0, kMaxTopLogprobs));
  const bool wanted = logprobs != nullptr && *logprobs == OrderedJson(true);
  if (wanted) {
    *top = count.value_or(0);
    return {};
  }
  if (count) {
    return fields.Wrong("top_logprobs", OrderedJson(*count), "\"logprobs\": true beside it");
  }
  if (logprobs == nullptr || logprobs->is_boolean()) {
    return {};
  }
  if (!logprobs->is_number_integer()) {
    return fields.Wrong("logprobs", *logprobs,
                        fmt::format("true, false or an integer from 0 to {}", kMaxTopLogprobs));
  }
  CACHALOT_ASSIGN_OR_RETURN(*top, fields.IntegerOf("logprobs", *logprobs, 0, kMaxTopLogprobs));
  return {};
}

Result<std::vector<int32_t>> ReadTokenIds(const JsonFields& fields, const char* name,
                                          int64_t vocab_size) {
  const OrderedJson* list = fields.Find(name);
  if (list == nullptr) {
    return std::vector<int32_t>();
  }
  return TokenIdsOf(fields, name, *list, vocab_size);
}

Result<std::vector<int32_t>> TokenIdsOf(const JsonFields& fields, std::string_view name,
                                        const OrderedJson& list, int64_t vocab_size) {
  if (!list.is_array()) {
    return fields.Wrong(name, list, "a list of token ids");
  }
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const OrderedJson& value : list) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id >= vocab_size) {
      return fields.Wrong(fmt::format("{}[{}]", name, ids.size()), value,
                          fmt::format("a token id from 0 to {}", vocab_size - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace cachalot
