#include "cli/generate_request.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "chat/python_json.h"
#include "io/file.h"
#include "io/utf8.h"
#include "sampling/seed.h"
#include "server/sampling_fields.h"

namespace cachalot {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

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

Result<ChatInput> ReadChat(const OrderedJson& json, const JsonFields& fields) {
  ChatInput chat;
  auto messages = ParseChatInput(json);
  if (!messages) {
    return fields.Fault(messages.error().message);
  }
  chat.messages = *std::move(messages);
  CACHALOT_ASSIGN_OR_RETURN(chat.thinking.enabled, fields.Flag("thinking"));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("reasoning_effort"), &chat.thinking.effort));
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
  CACHALOT_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                            ReadTokenIds(fields, "token_ids", vocab_size));
  if (ids.empty()) {
    return fields.Wrong("token_ids", *token_ids, "at least one");
  }
  request->input = std::move(ids);
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
  constexpr const char* kLengthNames[] = {"max_tokens", "max_completion_tokens", "max_new_tokens"};
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, kLengthNames, &request));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, "stop", &request.stop));
  CACHALOT_RETURN_IF_ERROR(ReadLogprobs(fields, &request.top_logprobs));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("echo"), &request.echo));
  CACHALOT_RETURN_IF_ERROR(ReadScheduling(fields, &request));
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
