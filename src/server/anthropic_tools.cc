#include "server/anthropic_tools.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace cachalot {
namespace {

// Declared by their type alone: the client runs them, and takes the parameters as read.
struct ClientTool {
  std::string_view types;  // how they begin: a date follows
  const char* description;
  const char* parameters;
};

constexpr ClientTool kClientTools[] = {
    {"bash_", "Runs commands in a bash session that stays open from call to call.",
     R"({"type": "object", "properties": {
       "command": {"type": "string", "description": "The command to run; needed unless restart is true."},
       "restart": {"type": "boolean", "description": "true starts the session anew."}}})"},
    {"text_editor_", "Shows, creates and edits text files.",
     R"({"type": "object", "properties": {
       "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
       "path": {"type": "string", "description": "The file; for view, a folder too."},
       "view_range": {"type": "array", "items": {"type": "integer"},
         "description": "view: first and last line, from 1; -1 as the last for the end of the file."},
       "file_text": {"type": "string", "description": "create: all that the file is to hold."},
       "old_str": {"type": "string", "description": "str_replace: what to replace; stands once in the file."},
       "new_str": {"type": "string", "description": "str_replace: what comes in its place."},
       "insert_line": {"type": "integer", "description": "insert: the line to insert after; 0 for the start."},
       "insert_text": {"type": "string", "description": "insert: what to insert."}},
       "required": ["command", "path"]})"},
    {"memory_", "Keeps notes in files below /memories that outlast the conversation.",
     R"({"type": "object", "properties": {
       "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
       "path": {"type": "string", "description": "The file or folder; of all commands but rename."},
       "view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: first and last line."},
       "file_text": {"type": "string", "description": "create: all that the file is to hold."},
       "old_str": {"type": "string", "description": "str_replace: what to replace."},
       "new_str": {"type": "string", "description": "str_replace: what comes in its place."},
       "insert_line": {"type": "integer", "description": "insert: the line to insert after; 0 for the start."},
       "insert_text": {"type": "string", "description": "insert: what to insert."},
       "old_path": {"type": "string", "description": "rename: the name as it is."},
       "new_path": {"type": "string", "description": "rename: the name to be."}},
       "required": ["command"]})"}};

// Before text_editor_20250728 the text to insert went by another name, and edits could be undone.
constexpr std::string_view kOldTextEditors[] = {"text_editor_20241022", "text_editor_20250124",
                                                "text_editor_20250429"};

// They answer with pictures.
constexpr std::string_view kToolsThatShow[] = {"computer_", "browser_"};

struct Declared {
  std::vector<OrderedJson> functions;
  std::vector<std::string> hosted;  // names of tools that run at Anthropic

  bool HasFunction(std::string_view name) const {
    return std::any_of(functions.begin(), functions.end(),
                       [&](const OrderedJson& function) { return function["name"] == name; });
  }
};

OrderedJson ParametersOf(const ClientTool& tool, std::string_view type) {
  OrderedJson parameters = ParseOrderedJson(tool.parameters, "parameters").value();
  if (std::count(std::begin(kOldTextEditors), std::end(kOldTextEditors), type) > 0) {
    parameters["properties"].erase("insert_text");
    parameters["properties"]["new_str"]["description"] =
        "str_replace: what comes in its place; insert: what to insert.";
  }
  if (type == "text_editor_20241022" || type == "text_editor_20250124") {
    parameters["properties"]["command"]["enum"].push_back("undo_edit");
  }
  return parameters;
}

Status ReadFunction(const JsonFields& tool, std::vector<OrderedJson>* functions) {
  OrderedJson function = OrderedJson::object();
  CACHALOT_ASSIGN_OR_RETURN(function["name"], tool.RequiredText("name"));
  CACHALOT_ASSIGN_OR_RETURN(const auto description, tool.Text("description"));
  if (description) {
    function["description"] = *description;
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* schema, tool.Object("input_schema"));
  if (schema == nullptr) {
    const std::string path = tool.PathOf("input_schema");
    return tool.Fault(fmt::format("{} is missing, expected an object", path), path);
  }
  function["parameters"] = *schema;
  CACHALOT_ASSIGN_OR_RETURN(const auto strict, tool.Flag("strict"));
  if (strict.value_or(false)) {
    function["strict"] = true;
  }
  functions->push_back(std::move(function));
  return {};
}

Status ReadTool(const JsonFields& tool, Declared* declared) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> type, tool.Text("type"));
  if (!type || type == "custom" || tool.Find("input_schema") != nullptr) {
    return ReadFunction(tool, &declared->functions);
  }
  for (const std::string_view types : kToolsThatShow) {
    if (type->starts_with(types)) {
      return tool.Wrong("type", *type,
                        "a tool that works without images, which this model cannot see");
    }
  }
  for (const ClientTool& known : kClientTools) {
    if (!type->starts_with(known.types)) {
      continue;
    }
    CACHALOT_ASSIGN_OR_RETURN(std::string name, tool.RequiredText("name"));
    declared->functions.push_back({{"name", std::move(name)},
                                   {"description", known.description},
                                   {"parameters", ParametersOf(known, *type)}});
    return {};
  }
  CACHALOT_ASSIGN_OR_RETURN(std::optional<std::string> name, tool.Text("name"));
  if (name) {
    declared->hosted.push_back(*std::move(name));
  }
  return {};
}

Status ReadForcedTool(const JsonFields& choice, const Declared& declared, ToolPolicy* policy) {
  CACHALOT_ASSIGN_OR_RETURN(std::string name, choice.RequiredText("name"));
  if (std::count(declared.hosted.begin(), declared.hosted.end(), name) > 0) {
    return choice.Wrong("name", name,
                        "a tool that the client runs: this server has no hosted tools");
  }
  if (!declared.HasFunction(name)) {
    return choice.Wrong("name", name, "the name of one of the tools");
  }
  policy->choice = ToolPolicy::Choice::kRequired;
  policy->names = {std::move(name)};
  return {};
}

Status ReadChoice(const JsonFields& choice, const Declared& declared, ToolPolicy* policy) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string type, choice.RequiredText("type"));
  CACHALOT_ASSIGN_OR_RETURN(const auto single, choice.Flag("disable_parallel_tool_use"));
  policy->parallel = !single.value_or(false);
  if (type == "auto") {
    return {};
  }
  if (type == "none") {
    policy->choice = ToolPolicy::Choice::kNone;
    return {};
  }
  if (type == "tool") {
    return ReadForcedTool(choice, declared, policy);
  }
  if (type != "any") {
    return choice.Wrong("type", type, "auto, any, tool or none");
  }
  if (declared.functions.empty()) {
    return choice.Wrong("type", type, "tools beside it that the client runs");
  }
  policy->choice = ToolPolicy::Choice::kRequired;
  return {};
}

}  // namespace

Result<AnthropicTools> ReadAnthropicTools(const JsonFields& fields) {
  Declared declared;
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List("tools"));
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string name = fmt::format("tools[{}]", i);
    if (!(*list)[i].is_object()) {
      return fields.Wrong(name, (*list)[i], "an object");
    }
    CACHALOT_RETURN_IF_ERROR(ReadTool(fields.Within(name, (*list)[i]), &declared));
  }
  AnthropicTools tools;
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* choice, fields.Object("tool_choice"));
  if (choice != nullptr) {
    CACHALOT_RETURN_IF_ERROR(
        ReadChoice(fields.Within("tool_choice", *choice), declared, &tools.policy));
  }
  if (tools.policy.choice != ToolPolicy::Choice::kNone) {
    tools.functions = std::move(declared.functions);
  }
  return tools;
}

}  // namespace cachalot
