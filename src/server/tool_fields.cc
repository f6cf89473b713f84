#include "server/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace cachalot {
namespace {

bool IsWritable(const std::string& name) {
  return std::ranges::none_of(name, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '"' || c == '<' || c == '>' || byte < 0x20 || byte == 0x7F;
  });
}

// The names of what is declared, in order, beside the objects.
class Declarations {
 public:
  Status Add(const JsonFields& function, OrderedJson object) {
    CACHALOT_ASSIGN_OR_RETURN(std::string name, ReadToolName(function));
    CACHALOT_RETURN_IF_ERROR(function.Text("description"));
    CACHALOT_RETURN_IF_ERROR(function.Object("parameters"));
    CACHALOT_RETURN_IF_ERROR(function.Flag("strict"));
    if (!known_.insert(name).second) {
      return function.Wrong("name", OrderedJson(name), "a name that no other tool has");
    }
    names_.push_back(std::move(name));
    objects_.push_back(std::move(object));
    return {};
  }
  bool empty() const { return names_.empty(); }
  bool Has(const std::string& name) const { return known_.contains(name); }
  void KeepOnly(const std::vector<std::string>& names) {
    std::vector<OrderedJson> kept;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (std::ranges::find(names, names_[i]) != names.end()) {
        kept.push_back(std::move(objects_[i]));
      }
    }
    objects_ = std::move(kept);
  }
  std::vector<OrderedJson> Take() && { return std::move(objects_); }

 private:
  std::vector<std::string> names_;
  std::set<std::string, std::less<>> known_;
  std::vector<OrderedJson> objects_;
};

Result<JsonFields> ElementOf(const JsonFields& fields, const std::string& name,
                             const OrderedJson& value) {
  if (!value.is_object()) {
    return fields.Wrong(name, value, "an object");
  }
  return fields.Within(name, value);
}

// Of a tool or a choice: the object that has the function's name, itself in the flat form.
Result<JsonFields> FunctionOf(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* function, fields.Object("function"));
  return function == nullptr ? fields : fields.Within("function", *function);
}

Status CheckType(const JsonFields& tool) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> type, tool.Text("type"));
  if (type && type != "function") {
    return tool.Wrong("type", OrderedJson(*type), "\"function\"");
  }
  return {};
}

Status ReadTool(const JsonFields& tool, Declarations* declared) {
  CACHALOT_RETURN_IF_ERROR(CheckType(tool));
  CACHALOT_ASSIGN_OR_RETURN(const JsonFields function, FunctionOf(tool));
  OrderedJson object = function.object();
  if (&function.object() == &tool.object()) {
    object.erase("type");
  }
  return declared->Add(function, std::move(object));
}

Result<Declarations> ReadDeclarations(const JsonFields& fields, bool of_old) {
  const std::string list_name = of_old ? "functions" : "tools";
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List(list_name));
  Declarations declared;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    CACHALOT_ASSIGN_OR_RETURN(const JsonFields tool,
                              ElementOf(fields, fmt::format("{}[{}]", list_name, i), (*list)[i]));
    CACHALOT_RETURN_IF_ERROR(of_old ? declared.Add(tool, tool.object())
                                    : ReadTool(tool, &declared));
  }
  return declared;
}

// The name of a tool that is declared.
Result<std::string> ReadChosenName(const JsonFields& function, const Declarations& declared) {
  CACHALOT_ASSIGN_OR_RETURN(std::string name, function.RequiredText("name"));
  if (!declared.Has(name)) {
    return function.Wrong("name", OrderedJson(name), "the name of a declared tool");
  }
  return name;
}

Status ReadAllowedTools(const JsonFields& choice, Declarations* declared, ToolPolicy* policy) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* within, choice.Object("allowed_tools"));
  const JsonFields allowed = within == nullptr ? choice : choice.Within("allowed_tools", *within);
  CACHALOT_ASSIGN_OR_RETURN(const std::string mode, allowed.RequiredText("mode"));
  if (mode != "auto" && mode != "required") {
    return allowed.Wrong("mode", OrderedJson(mode), "auto or required");
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, allowed.List("tools"));
  if (list == nullptr || list->empty()) {
    return allowed.Wrong("tools", list == nullptr ? OrderedJson() : *list,
                         "a list of at least one tool");
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    CACHALOT_ASSIGN_OR_RETURN(const JsonFields tool,
                              ElementOf(allowed, fmt::format("tools[{}]", i), (*list)[i]));
    CACHALOT_RETURN_IF_ERROR(CheckType(tool));
    CACHALOT_ASSIGN_OR_RETURN(const JsonFields function, FunctionOf(tool));
    CACHALOT_ASSIGN_OR_RETURN(names.emplace_back(), ReadChosenName(function, *declared));
  }
  if (mode == "required") {
    policy->choice = ToolPolicy::Choice::kRequired;
    policy->names = std::move(names);
  } else {
    declared->KeepOnly(names);
  }
  return {};
}

Status ReadChoiceWord(const JsonFields& fields, const char* name, const OrderedJson& word,
                      const Declarations& declared, ToolPolicy* policy) {
  if (word == OrderedJson("none")) {
    policy->choice = ToolPolicy::Choice::kNone;
    return {};
  }
  if (word == OrderedJson("required")) {
    if (declared.empty()) {
      return fields.Wrong(name, word, "tools beside it");
    }
    policy->choice = ToolPolicy::Choice::kRequired;
    return {};
  }
  if (word != OrderedJson("auto")) {
    return fields.Wrong(name, word, "auto, none, required or an object that names a function");
  }
  return {};
}

Status ReadChoice(const JsonFields& fields, const char* name, Declarations* declared,
                  ToolPolicy* policy) {
  const OrderedJson* value = fields.Find(name);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_object()) {
    return ReadChoiceWord(fields, name, *value, *declared, policy);
  }
  const JsonFields choice = fields.Within(name, *value);
  if (const OrderedJson* type = choice.Find("type");
      type != nullptr && *type == OrderedJson("allowed_tools")) {
    return ReadAllowedTools(choice, declared, policy);
  }
  CACHALOT_RETURN_IF_ERROR(CheckType(choice));
  CACHALOT_ASSIGN_OR_RETURN(const JsonFields function, FunctionOf(choice));
  CACHALOT_ASSIGN_OR_RETURN(policy->names.emplace_back(), ReadChosenName(function, *declared));
  policy->choice = ToolPolicy::Choice::kRequired;
  return {};
}

}  // namespace

Result<std::string> ReadToolName(const JsonFields& function) {
  CACHALOT_ASSIGN_OR_RETURN(std::string name, function.RequiredText("name"));
  if (name.empty() || name.size() > kMaxToolNameBytes || !IsWritable(name)) {
    return function.Wrong("name", OrderedJson(name),
                          fmt::format("1 to {} bytes without quotes, '<', '>' and control "
                                      "characters",
                                      kMaxToolNameBytes));
  }
  return name;
}

Result<ToolFields> ReadToolFields(const JsonFields& fields) {
  ToolFields read;
  read.of_old = fields.Find("functions") != nullptr;
  if (read.of_old && fields.Find("tools") != nullptr) {
    return fields.Fault("functions stands beside tools, expected one of them", "functions");
  }
  CACHALOT_ASSIGN_OR_RETURN(Declarations declared, ReadDeclarations(fields, read.of_old));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("parallel_tool_calls"), &read.policy.parallel));
  read.policy.parallel = read.policy.parallel && !read.of_old;
  CACHALOT_RETURN_IF_ERROR(
      ReadChoice(fields, read.of_old ? "function_call" : "tool_choice", &declared, &read.policy));
  if (read.policy.choice != ToolPolicy::Choice::kNone) {
    read.functions = std::move(declared).Take();
  }
  return read;
}

void DeclareInPrompt(std::vector<OrderedJson> functions, std::optional<OrderedJson> response_format,
                     std::vector<Message>* messages) {
  if (functions.empty() && !response_format) {
    return;
  }
  auto system = std::ranges::find(*messages, Role::kSystem, &Message::role);
  if (system == messages->end()) {
    Message empty;
    empty.role = Role::kSystem;
    system = messages->insert(messages->begin(), std::move(empty));
  }
  system->tools = std::move(functions);
  system->response_format = std::move(response_format);
}

}  // namespace cachalot
