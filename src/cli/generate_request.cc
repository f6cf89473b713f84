#include "cli/generate_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "chat/python_json.h"
#include "cli/json_fields.h"
#include "io/file.h"
#include "io/utf8.h"
#include "sampling/logprobs.h"
#include "sampling/seed.h"

namespace cachalot {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr double kMaxTimeoutSeconds = 1e9;

Result<LineId> ReadId(const JsonFields& fields) {
  const OrderedJson* id = fields.Find("id");
  if (id == nullptr) {
    return fields.Fault("id is missing, expected a string or an integer");
  }
  if (id->is_string()) {
    return id->get<std::string>();
  }
  if (!id->is_number_integer()) {
    return fields.Wrong("id", *id, "a string or an integer");
  }
  return fields.IntegerOf("id", *id, kLeast, kMost);
}

Result<std::vector<int32_t>> ReadIds(const JsonFields& fields, const char* name,
                                     int64_t vocab_size) {
  std::vector<int32_t> ids;
  const OrderedJson* list = fields.Find(name);
  if (list == nullptr) {
    return ids;
  }
  if (!list->is_array()) {
    return fields.Wrong(name, *list, "a list of token ids");
  }
  ids.reserve(list->size());
  for (const OrderedJson& value : *list) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id >= vocab_size) {
      return fields.Wrong(fmt::format("{}[{}]", name, ids.size()), value,
                          fmt::format("a token id from 0 to {}", vocab_size - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Result<ChatInput> ReadChat(const OrderedJson& json, const JsonFields& fields) {
  ChatInput chat;
  auto messages = ParseChatInput(json);
  if (!messages) {
    return fields.Fault(messages.error().message);
  }
  chat.messages = *std::move(messages);
  CACHALOT_ASSIGN_OR_RETURN(chat.thinking, fields.Flag("thinking"));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("reasoning_effort"), &chat.reasoning_effort));
  return chat;
}

// The one of the three ways to say what is to be continued.
Status ReadInput(const OrderedJson& json, const JsonFields& fields, int64_t vocab_size,
                 GenerateRequest* request) {
  const OrderedJson* prompt = fields.Find("prompt");
  const OrderedJson* token_ids = fields.Find("token_ids");
  const OrderedJson* messages = fields.Find("messages");
  const int given = (prompt != nullptr) + (token_ids != nullptr) + (messages != nullptr);
  if (given != 1) {
    return fields.Fault(fmt::format("{} of prompt, token_ids, messages, expected exactly one",
                                    given == 0 ? "none" : "more than one"));
  }
  if (messages != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(request->input, ReadChat(json, fields));
    return {};
  }
  for (const char* name :
       {"tools", "tool_choice", "response_format", "thinking", "reasoning_effort"}) {
    if (const OrderedJson* value = fields.Find(name); value != nullptr) {
      return fields.Wrong(name, *value, "it beside messages alone");
    }
  }
  if (prompt != nullptr) {
    return SetIfPresent(fields.Text("prompt"), &request->input);
  }
  CACHALOT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadIds(fields, "token_ids", vocab_size));
  if (ids.empty()) {
    return fields.Wrong("token_ids", *token_ids, "at least one");
  }
  request->input = std::move(ids);
  return {};
}

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
    if (fault != std::errc() || rest != end || id < 0 || id >= vocab_size) {
      return fields.Wrong("a key of logit_bias", key,
                          fmt::format("a token id from 0 to {}", vocab_size - 1));
    }
    CACHALOT_ASSIGN_OR_RETURN(const double bias, fields.NumberOf("logit_bias." + key, value));
    biases->push_back({id, bias});
  }
  return {};
}

Status ReadStop(const JsonFields& fields, std::vector<std::string>* stops) {
  const OrderedJson* stop = fields.Find("stop");
  if (stop == nullptr) {
    return {};
  }
  const OrderedJson list = stop->is_array() ? *stop : OrderedJson::array({*stop});
  if (list.size() > kMaxStopStrings) {
    return fields.Fault(
        fmt::format("stop has {} strings, expected at most {}", list.size(), kMaxStopStrings));
  }
  for (const OrderedJson& value : list) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return fields.Wrong("stop", value, "a string that is not empty, or a list of such");
    }
    stops->push_back(value.get<std::string>());
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

Status ReadLengths(const JsonFields& fields, GenerateRequest* request) {
  const char* name = nullptr;
  for (const char* spelling : {"max_tokens", "max_completion_tokens", "max_new_tokens"}) {
    if (fields.Find(spelling) == nullptr) {
      continue;
    }
    if (name != nullptr) {
      return fields.Fault(fmt::format("{} stands beside {}, expected one of them", spelling, name));
    }
    name = spelling;
    CACHALOT_ASSIGN_OR_RETURN(request->max_new_tokens, fields.Integer(name, 1, kMost));
  }
  int64_t& least = request->sampling.min_new_tokens;
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Integer("min_tokens", 0, kMost), &least));
  if (request->max_new_tokens && least > *request->max_new_tokens) {
    return fields.Fault(fmt::format("min_tokens is {}, expected at most the {} of {}", least,
                                    *request->max_new_tokens, name));
  }
  return {};
}

Status ReadStopIds(const JsonFields& fields, int64_t vocab_size, SamplingParams* sampling) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<bool> ignore_eos, fields.Flag("ignore_eos"));
  if (ignore_eos.value_or(false)) {
    sampling->stop_ids.clear();
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                            ReadIds(fields, "stop_token_ids", vocab_size));
  sampling->stop_ids.insert(sampling->stop_ids.end(), ids.begin(), ids.end());
  return {};
}

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

Status ReadTimeout(const JsonFields& fields, std::optional<double>* seconds) {
  CACHALOT_ASSIGN_OR_RETURN(*seconds, fields.Number("timeout"));
  if (*seconds && !(**seconds > 0 && **seconds <= kMaxTimeoutSeconds)) {
    return fields.Wrong("timeout", *fields.Find("timeout"), "seconds above 0, at most 1e9");
  }
  return {};
}

std::string TextOf(const LineId& id) {
  return std::visit([](const auto& value) { return DumpPythonJson(OrderedJson(value)); }, id);
}

}  // namespace

Result<GenerateRequest> ParseGenerateRequest(std::string_view line, const std::string& place,
                                             int64_t line_number, const RequestDefaults& defaults) {
  if (static_cast<int64_t>(line.size()) > kMaxRequestBytes) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} bytes, expected at most {}", place,
                     line.size(), kMaxRequestBytes);
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson json, ParsePythonJson(line, place));
  if (!json.is_object()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {}, expected an object", place,
                     json.type_name());
  }
  const JsonFields fields(json, place);
  GenerateRequest request;
  request.sampling = defaults.sampling;
  request.sampling.seed = ChoiceSeed(defaults.sampling.seed, line_number);
  CACHALOT_ASSIGN_OR_RETURN(request.id, ReadId(fields));
  CACHALOT_RETURN_IF_ERROR(ReadInput(json, fields, defaults.vocab_size, &request));
  CACHALOT_RETURN_IF_ERROR(ReadSampling(fields, defaults.vocab_size, &request.sampling));
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, &request));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, &request.stop));
  CACHALOT_RETURN_IF_ERROR(ReadLogprobs(fields, &request.top_logprobs));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Integer("n", 1, kMaxChoices), &request.num_choices));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("echo"), &request.echo));
  CACHALOT_RETURN_IF_ERROR(
      SetIfPresent(fields.Integer("priority", kLeast, kMost), &request.priority));
  CACHALOT_RETURN_IF_ERROR(ReadTimeout(fields, &request.timeout_seconds));
  return request;
}

Result<std::vector<GenerateRequest>> ParseGenerateRequests(std::string_view text,
                                                           const std::string& source,
                                                           const RequestDefaults& defaults) {
  std::vector<GenerateRequest> requests;
  std::map<LineId, int64_t> lines;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) {
      continue;
    }
    const std::string place = fmt::format("{}: line {}", source, number);
    CACHALOT_ASSIGN_OR_RETURN(GenerateRequest request,
                              ParseGenerateRequest(line, place, number, defaults));
    const auto [first, is_new] = lines.emplace(request.id, number);
    if (!is_new) {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}: id is {}, which line {} has, expected one of its own", place,
                       Utf8Prefix(TextOf(request.id), JsonFields::kMaxShownBytes), first->second);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<std::vector<GenerateRequest>> ReadGenerateRequests(const std::string& path,
                                                          const RequestDefaults& defaults) {
  CACHALOT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const auto bytes = file.bytes();
  return ParseGenerateRequests({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path,
                               defaults);
}

}  // namespace cachalot
