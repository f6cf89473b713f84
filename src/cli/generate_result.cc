#include "cli/generate_result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "io/file.h"
#include "io/json.h"

namespace cachalot {
namespace {

constexpr double kImpossibleLogprob = -9999;  // JSON has no infinity
constexpr std::array<std::string_view, 5> kFinishReasons = {"stop", "length", "cancelled",
                                                            "deadline", "error"};
constexpr std::string_view kBeginOfLine = "{\"id\":";

OrderedJson ToJson(const LineId& id) {
  return std::visit([](const auto& value) { return OrderedJson(value); }, id);
}

OrderedJson ToJson(const NamedLogprob& token) {
  OrderedJson json = {{"token_id", token.id}};
  if (token.token) {
    json["token"] = *token.token;
  }
  json["logprob"] = std::isfinite(token.logprob) ? token.logprob : kImpossibleLogprob;
  return json;
}

OrderedJson ToJson(const std::vector<LogprobEntry>& entries) {
  OrderedJson content = OrderedJson::array();
  for (const LogprobEntry& entry : entries) {
    OrderedJson json = ToJson(entry.chosen);
    json["top_logprobs"] = OrderedJson::array();
    for (const NamedLogprob& token : entry.top) {
      json["top_logprobs"].push_back(ToJson(token));
    }
    content.push_back(std::move(json));
  }
  return {{"content", std::move(content)}};
}

OrderedJson ToJson(const GenerateUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

void AddTo(OrderedJson& json, const GenerateChoice& choice) {
  json["token_ids"] = choice.token_ids;
  if (choice.text) {
    json["text"] = *choice.text;
  }
  json["finish_reason"] = ResultEndText(choice.finish_reason);
  if (choice.finish_reason == ResultEnd::kError) {
    json["error"] = choice.error;
  }
  if (choice.logprobs) {
    json["logprobs"] = ToJson(*choice.logprobs);
  }
}

bool HasFinishReason(const OrderedJson& json) {
  const auto reason = json.find("finish_reason");
  return reason != json.end() && reason->is_string() &&
         std::find(kFinishReasons.begin(), kFinishReasons.end(),
                   reason->get_ref<const std::string&>()) != kFinishReasons.end();
}

bool IsWholeResult(const OrderedJson& json) {
  if (!json.is_object() || !json.contains("usage")) {
    return false;
  }
  const auto choices = json.find("choices");
  if (choices == json.end()) {
    return HasFinishReason(json);
  }
  return choices->is_array() && std::all_of(choices->begin(), choices->end(), HasFinishReason);
}

// Absent where the line is no result.
std::optional<LineId> IdOf(std::string_view line) {
  const auto json = ParseOrderedJson(line, "");
  if (!json || !IsWholeResult(*json) || !json->contains("id")) {
    return std::nullopt;
  }
  const OrderedJson& id = json->at("id");
  if (id.is_string()) {
    return id.get<std::string>();
  }
  return id.is_number_integer() ? std::optional<LineId>(id.get<int64_t>()) : std::nullopt;
}

}  // namespace

std::string_view ResultEndText(ResultEnd reason) {
  return kFinishReasons[static_cast<size_t>(reason)];
}

std::string ResultLine(const GenerateResult& result) {
  CACHALOT_CHECK(!result.choices.empty());
  OrderedJson json = {{"id", ToJson(result.id)}};
  if (result.choices.size() == 1) {
    AddTo(json, result.choices.front());
  } else {
    for (size_t i = 0; i < result.choices.size(); ++i) {
      OrderedJson choice = {{"index", i}};
      AddTo(choice, result.choices[i]);
      json["choices"].push_back(std::move(choice));
    }
  }
  json["usage"] = ToJson(result.usage);
  return DumpJson(json) + "\n";
}

Result<ResumeState> ParseResumeState(std::string_view text, const std::string& source) {
  ResumeState state;
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end - begin);
    const bool whole = end != text.npos;
    const std::optional<LineId> id = whole ? IdOf(line) : std::nullopt;
    const size_t common = std::min(line.size(), kBeginOfLine.size());
    if (whole ? !id : line.substr(0, common) != kBeginOfLine.substr(0, common)) {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}: line {} is not a result of cachalot generate, expected nothing else in "
                       "an output to go on with",
                       source, number);
    }
    if (!whole) {
      break;
    }
    state.done.insert(*id);
    begin = end + 1;
    state.whole_bytes = static_cast<int64_t>(begin);
  }
  return state;
}

Result<ResumeState> ReadResumeState(const std::string& path) {
  auto opened = MappedFile::Open(path);
  if (!opened && opened.error().code == StatusCode::kNotFound) {
    return ResumeState{};
  }
  CACHALOT_ASSIGN_OR_RETURN(const MappedFile file, std::move(opened));
  const auto bytes = file.bytes();
  return ParseResumeState({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace cachalot
