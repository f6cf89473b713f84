#include "chat/wording.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "chat/markers.h"
#include "chat/python_constants.h"
#include "io/file.h"
#include "io/json.h"

namespace cachalot {
namespace {

constexpr std::int64_t kMaxFileBytes = std::int64_t{4} << 20;

constexpr std::string_view kToolSchemas = "tool_schemas";
constexpr std::string_view kSchema = "schema";

struct Placeholder {
  std::string_view name;
  std::string_view text;
};
constexpr Placeholder kPlaceholders[] = {{"dsml_token", kDsml},
                                         {"thinking_start_token", kThinkOpen},
                                         {"thinking_end_token", kThinkClose}};

// Follows str.format; `insert` is the placeholder that rendering fills in.
Result<WordingTemplate> CutTemplate(std::string_view text, std::string_view insert,
                                    const std::string& place) {
  WordingTemplate cut;
  cut.pieces.emplace_back();
  bool has_insert = false;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = text.find_first_of("{}", at);
    cut.pieces.back().text += text.substr(at, brace == text.npos ? brace : brace - at);
    if (brace == text.npos) {
      break;
    }
    if (text.substr(brace, 2) == "{{" || text.substr(brace, 2) == "}}") {
      cut.pieces.back().text += text[brace];
      at = brace + 2;
      continue;
    }
    const size_t close = text.find('}', brace);
    if (text[brace] == '}' || close == text.npos) {
      return MakeError(StatusCode::kInvalidArgument, "{}: lone brace at byte {}, expected two",
                       place, brace);
    }
    const std::string_view name = text.substr(brace + 1, close - brace - 1);
    at = close + 1;
    if (name == insert) {
      cut.pieces.back().insert_after = true;
      cut.pieces.emplace_back();
      has_insert = true;
      continue;
    }
    const auto* known = std::find_if(std::begin(kPlaceholders), std::end(kPlaceholders),
                                     [&](const Placeholder& p) { return p.name == name; });
    if (known == std::end(kPlaceholders)) {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}: placeholder {{{}}} at byte {}, expected {{{}}}, {{dsml_token}}, "
                       "{{thinking_start_token}} or {{thinking_end_token}}",
                       place, name.substr(0, 40), brace, insert);
    }
    cut.pieces.back().text += known->text;
  }
  if (!has_insert) {
    return MakeError(StatusCode::kInvalidArgument, "{}: placeholder {{{}}} is missing", place,
                     insert);
  }
  return cut;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

Status CheckDefaultEffort(const PromptWording& wording) {
  if (wording.default_effort.empty() || wording.effort_prefixes.contains(wording.default_effort)) {
    return {};
  }
  return MakeError(StatusCode::kInvalidArgument, "{}: default effort \"{}\" is none of the levels",
                   wording.source, wording.default_effort);
}

Result<std::string> JsonString(const Json& object, const char* key, const std::string& source) {
  const auto member = object.find(key);
  if (member == object.end() || !member->is_string()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} is {}, expected a string", source, key,
                     member == object.end() ? "missing" : member->type_name());
  }
  return member->get<std::string>();
}

// The one string constant that holds {placeholder}.
Result<WordingTemplate> FindTemplate(const PythonConstants& constants, std::string_view placeholder,
                                     const std::string& source) {
  const std::string braced = fmt::format("{{{}}}", placeholder);
  const std::pair<const std::string, std::string>* found = nullptr;
  for (const auto& constant : constants.strings) {
    if (constant.second.find(braced) == std::string::npos) {
      continue;
    }
    if (found != nullptr) {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}: both {} and {} hold {}, expected one string constant", source,
                       found->first, constant.first, braced);
    }
    found = &constant;
  }
  if (found == nullptr) {
    return MakeError(
        StatusCode::kInvalidArgument,
        "{}: no module-level string constant holds {}, expected the published encoder's "
        "{} template",
        source, braced, placeholder == kToolSchemas ? "tools" : "response format");
  }
  return CutTemplate(found->second, placeholder, source + ": " + found->first);
}

void FindEfforts(const PythonConstants& constants, PromptWording& wording) {
  constexpr std::string_view kEffort = "effort";
  for (const auto& [name, levels] : constants.dictionaries) {
    if (LowerCase(name).find(kEffort) != std::string::npos) {
      wording.effort_prefixes.insert(levels.begin(), levels.end());
    }
  }
  const bool by_dictionary = !wording.effort_prefixes.empty();
  for (const auto& [name, text] : constants.strings) {
    const std::string lower = LowerCase(name);
    const size_t effort = lower.find(kEffort);
    if (effort == std::string::npos) {
      continue;
    }
    const std::string level = lower.substr(std::min(lower.size(), effort + kEffort.size() + 1));
    if (lower.find("default") != std::string::npos) {
      wording.default_effort = text;
    } else if (!by_dictionary && !level.empty()) {
      wording.effort_prefixes.emplace(level, text);
    }
  }
  if (!by_dictionary && !wording.effort_prefixes.empty()) {
    wording.effort_prefixes.emplace("high", "");  // the first release takes "high" for its default
  }
}

}  // namespace

Result<std::string> PromptWording::EffortPrefix(std::string_view level) const {
  const std::string_view wanted = level.empty() ? std::string_view(default_effort) : level;
  if (wanted.empty()) {
    return std::string();
  }
  if (const auto found = effort_prefixes.find(wanted); found != effort_prefixes.end()) {
    return found->second;
  }
  std::string known;
  for (const auto& [name, prefix] : effort_prefixes) {
    known += known.empty() ? "" : ", ";
    known += name;
  }
  return MakeError(StatusCode::kInvalidArgument, "reasoning effort \"{}\" is unknown: {} has {}",
                   wanted, source, known.empty() ? "no levels" : "the levels " + known);
}

Result<PromptWording> WordingFromJson(std::string_view text, const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, source));
  if (!json.is_object()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {}, expected an object", source,
                     json.type_name());
  }
  PromptWording wording;
  wording.source = source;
  CACHALOT_ASSIGN_OR_RETURN(const std::string tools, JsonString(json, "tools_template", source));
  CACHALOT_ASSIGN_OR_RETURN(const std::string format,
                            JsonString(json, "response_format_template", source));
  CACHALOT_ASSIGN_OR_RETURN(wording.tools_template,
                            CutTemplate(tools, kToolSchemas, source + ": tools_template"));
  CACHALOT_ASSIGN_OR_RETURN(wording.response_format_template,
                            CutTemplate(format, kSchema, source + ": response_format_template"));
  for (const auto& [key, value] : json.items()) {
    if (key == "reasoning_effort") {
      if (!value.is_object()) {
        return MakeError(StatusCode::kInvalidArgument, "{}: {} is {}, expected an object", source,
                         key, value.type_name());
      }
      for (const auto& [level, prefix] : value.items()) {
        CACHALOT_ASSIGN_OR_RETURN(wording.effort_prefixes[level],
                                  JsonString(value, level.c_str(), source + ": " + key));
      }
    } else if (key == "default_reasoning_effort") {
      CACHALOT_ASSIGN_OR_RETURN(wording.default_effort, JsonString(json, key.c_str(), source));
    } else if (key != "tools_template" && key != "response_format_template") {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}: unknown key \"{}\", expected tools_template, response_format_template, "
                       "reasoning_effort, default_reasoning_effort",
                       source, key);
    }
  }
  CACHALOT_RETURN_IF_ERROR(CheckDefaultEffort(wording));
  return wording;
}

Result<PromptWording> WordingFromPython(std::string_view text, const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(const PythonConstants constants, ReadPythonConstants(text, source));
  const auto dsml = constants.strings.find("dsml_token");
  if (dsml != constants.strings.end() && dsml->second != kDsml) {
    return MakeError(StatusCode::kInvalidArgument, "{}: dsml_token is \"{}\", expected \"{}\"",
                     source, dsml->second, kDsml);
  }
  PromptWording wording;
  wording.source = source;
  CACHALOT_ASSIGN_OR_RETURN(wording.tools_template, FindTemplate(constants, kToolSchemas, source));
  CACHALOT_ASSIGN_OR_RETURN(wording.response_format_template,
                            FindTemplate(constants, kSchema, source));
  FindEfforts(constants, wording);
  CACHALOT_RETURN_IF_ERROR(CheckDefaultEffort(wording));
  return wording;
}

PromptWording PlainWording() {
  constexpr std::string_view kTools =
      "## Tools\n\n"
      "These tools can be called. To call some, end the answer with a block of this form, one "
      "invoke "
      "for each call:\n\n"
      "<{dsml_token}tool_calls>\n"
      "<{dsml_token}invoke name=\"TOOL\">\n"
      "<{dsml_token}parameter name=\"PARAMETER\" "
      "string=\"true|false\">VALUE</{dsml_token}parameter>\n"
      "</{dsml_token}invoke>\n"
      "</{dsml_token}tool_calls>\n\n"
      "A text is written as it is, with string=\"true\"; any other value as JSON, with "
      "string=\"false\".\n\n"
      "{tool_schemas}\n";
  constexpr std::string_view kFormat =
      "## Response Format\n\nAnswer with JSON that follows this schema:\n{schema}";
  PromptWording wording;
  wording.source = "the plain wording";
  // Our own templates are well-formed, which the tests hold.
  wording.tools_template = CutTemplate(kTools, kToolSchemas, wording.source).value();
  wording.response_format_template = CutTemplate(kFormat, kSchema, wording.source).value();
  return wording;
}

Result<PromptWording> LoadPromptWording(const std::string& folder) {
  const std::string own = folder + "/prompt_format.json";
  auto text = ReadFile(own, kMaxFileBytes);
  if (text) {
    return WordingFromJson(*text, own);
  }
  if (text.error().code != StatusCode::kNotFound) {
    return tl::unexpected(text.error());
  }
  const std::string published = folder + "/encoding/encoding_dsv4.py";
  text = ReadFile(published, kMaxFileBytes);
  if (text) {
    return WordingFromPython(*text, published);
  }
  if (text.error().code != StatusCode::kNotFound) {
    return tl::unexpected(text.error());
  }
  spdlog::warn(
      "{} has neither prompt_format.json nor encoding/encoding_dsv4.py: prompts use a plain "
      "wording",
      folder);
  return PlainWording();
}

}  // namespace cachalot
