#include "chat/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr size_t kMaxShownBytes = 100;  // of a value in an error

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

constexpr std::array<Named<Role>, 6> kRoles = {{{"system", Role::kSystem},
                                                {"developer", Role::kDeveloper},
                                                {"user", Role::kUser},
                                                {"assistant", Role::kAssistant},
                                                {"tool", Role::kTool},
                                                {"latest_reminder", Role::kLatestReminder}}};

constexpr std::array<Named<PromptTask>, 6> kTasks = {{{"action", PromptTask::kAction},
                                                      {"query", PromptTask::kQuery},
                                                      {"authority", PromptTask::kAuthority},
                                                      {"domain", PromptTask::kDomain},
                                                      {"title", PromptTask::kTitle},
                                                      {"read_url", PromptTask::kReadUrl}}};

template <typename T, size_t n>
Result<T> Choose(const std::array<Named<T>, n>& choices, const OrderedJson& json,
                 const std::string& place) {
  std::string names;
  for (const Named<T>& choice : choices) {
    if (json.is_string() && json.get_ref<const std::string&>() == choice.name) {
      return choice.value;
    }
    names += names.empty() ? "" : ", ";
    names += choice.name;
  }
  return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected one of {}", place,
                   json.is_string() ? Utf8Prefix(DumpJson(json), kMaxShownBytes)
                                    : std::string_view(json.type_name()),
                   names);
}

tl::unexpected<Error> WrongType(const std::string& place, const OrderedJson& found,
                                std::string_view expected) {
  return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected {}", place, found.type_name(),
                   expected);
}

// The member, or nullptr where it is missing or null.
const OrderedJson* Find(const OrderedJson& object, const char* key) {
  const auto member = object.find(key);
  return member == object.end() || member->is_null() ? nullptr : &*member;
}

Result<std::string> OptionalString(const OrderedJson& object, const char* key,
                                   const std::string& place) {
  const OrderedJson* member = Find(object, key);
  if (member == nullptr) {
    return std::string();
  }
  if (!member->is_string()) {
    return WrongType(place + "." + key, *member, "a string");
  }
  return member->get<std::string>();
}

Result<std::string> RequiredString(const OrderedJson& object, const char* key,
                                   const std::string& place) {
  if (Find(object, key) == nullptr) {
    return MakeError(StatusCode::kInvalidArgument, "{}: \"{}\" is missing", place, key);
  }
  return OptionalString(object, key, place);
}

Result<std::string> ContentText(const OrderedJson& content, const std::string& place) {
  if (content.is_string()) {
    return content.get<std::string>();
  }
  if (!content.is_array()) {
    return WrongType(place, content, "a string or a list of parts");
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part_place = fmt::format("{}[{}]", place, i);
    if (!content[i].is_object()) {
      return WrongType(part_place, content[i], "an object");
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string type,
                              RequiredString(content[i], "type", part_place));
    text += i > 0 ? "\n\n" : "";
    if (type == "text") {
      CACHALOT_ASSIGN_OR_RETURN(const std::string part,
                                OptionalString(content[i], "text", part_place));
      text += part;
    } else {
      text += "[Unsupported " + type + "]";
    }
  }
  return text;
}

// What a null or missing content means depends on the role, as in the published encoder: nothing
// for system and assistant, an error where the text would have been "None".
Result<std::string> ReadContent(const OrderedJson& json, Role role, const std::string& place) {
  const auto content = json.find("content");
  const bool missing = content == json.end();
  if (missing || content->is_null()) {
    const bool may_be_empty = role == Role::kSystem || role == Role::kAssistant ||
                              (missing && (role == Role::kUser || role == Role::kTool));
    if (may_be_empty) {
      return std::string();
    }
    return MakeError(StatusCode::kInvalidArgument, "{}: \"content\" is {}, expected text", place,
                     missing ? "missing" : "null");
  }
  CACHALOT_ASSIGN_OR_RETURN(std::string text, ContentText(*content, place + ".content"));
  if (role == Role::kDeveloper && text.empty()) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}: \"content\" of a developer message is empty, expected text", place);
  }
  return text;
}

Result<ToolCall> ReadToolCall(const OrderedJson& json, const std::string& place) {
  if (!json.is_object()) {
    return WrongType(place, json, "an object");
  }
  const OrderedJson* function = Find(json, "function");
  if (function == nullptr || !function->is_object()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: \"function\" is {}, expected an object",
                     place, function == nullptr ? "missing" : function->type_name());
  }
  ToolCall call;
  const std::string function_place = place + ".function";
  CACHALOT_ASSIGN_OR_RETURN(call.name, RequiredString(*function, "name", function_place));
  CACHALOT_ASSIGN_OR_RETURN(call.arguments, RequiredString(*function, "arguments", function_place));
  CACHALOT_ASSIGN_OR_RETURN(call.id, OptionalString(json, "id", place));
  if (call.id.empty()) {
    CACHALOT_ASSIGN_OR_RETURN(call.id, OptionalString(*function, "id", function_place));
  }
  return call;
}

Result<std::vector<OrderedJson>> ReadTools(const OrderedJson& json, const std::string& place) {
  if (!json.is_array()) {
    return WrongType(place, json, "a list");
  }
  std::vector<OrderedJson> functions;
  for (size_t i = 0; i < json.size(); ++i) {
    const OrderedJson* function = json[i].is_object() ? Find(json[i], "function") : nullptr;
    if (function == nullptr || !function->is_object()) {
      return MakeError(StatusCode::kInvalidArgument,
                       "{}[{}]: expected an object with an object \"function\"", place, i);
    }
    functions.push_back(*function);
  }
  return functions;
}

// Empty values count as none, as they are false in Python.
std::optional<OrderedJson> ReadResponseFormat(const OrderedJson* json) {
  if (json == nullptr || json->empty() || *json == OrderedJson("") || *json == OrderedJson(false) ||
      *json == OrderedJson(0)) {
    return std::nullopt;
  }
  return *json;
}

Result<bool> OptionalFlag(const OrderedJson& object, const char* key, const std::string& place) {
  const OrderedJson* member = Find(object, key);
  if (member == nullptr) {
    return false;
  }
  if (member->is_number_integer()) {
    return member->get<std::int64_t>() != 0;
  }
  if (!member->is_boolean()) {
    return WrongType(place + "." + key, *member, "true or false");
  }
  return member->get<bool>();
}

}  // namespace

std::string_view TaskMarker(PromptTask task) {
  switch (task) {
    case PromptTask::kAction:
      return "<｜action｜>";
    case PromptTask::kQuery:
      return "<｜query｜>";
    case PromptTask::kAuthority:
      return "<｜authority｜>";
    case PromptTask::kDomain:
      return "<｜domain｜>";
    case PromptTask::kTitle:
      return "<｜title｜>";
    case PromptTask::kReadUrl:
      return "<｜read_url｜>";
  }
  return "";
}

Result<ThinkingMode> ParseThinkingMode(std::string_view name) {
  if (name == "thinking") {
    return ThinkingMode::kThinking;
  }
  if (name == "chat") {
    return ThinkingMode::kChat;
  }
  return MakeError(StatusCode::kInvalidArgument, "mode \"{}\" is none of thinking, chat", name);
}

Result<Message> ParseMessage(const OrderedJson& json, const std::string& place) {
  if (!json.is_object()) {
    return WrongType(place, json, "an object");
  }
  const auto role = json.find("role");
  if (role == json.end()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: \"role\" is missing", place);
  }
  Message message;
  CACHALOT_ASSIGN_OR_RETURN(message.role, Choose(kRoles, *role, place + ".role"));
  CACHALOT_ASSIGN_OR_RETURN(message.content, ReadContent(json, message.role, place));
  CACHALOT_ASSIGN_OR_RETURN(message.reasoning_content,
                            OptionalString(json, "reasoning_content", place));
  CACHALOT_ASSIGN_OR_RETURN(message.tool_call_id, OptionalString(json, "tool_call_id", place));
  CACHALOT_ASSIGN_OR_RETURN(message.omit_end_of_sentence, OptionalFlag(json, "wo_eos", place));
  message.response_format = ReadResponseFormat(Find(json, "response_format"));
  if (const OrderedJson* task = Find(json, "task"); task != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(message.task, Choose(kTasks, *task, place + ".task"));
  }
  if (const OrderedJson* tools = Find(json, "tools"); tools != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(message.tools, ReadTools(*tools, place + ".tools"));
  }
  if (const OrderedJson* calls = Find(json, "tool_calls"); calls != nullptr) {
    if (!calls->is_array()) {
      return WrongType(place + ".tool_calls", *calls, "a list");
    }
    for (size_t i = 0; i < calls->size(); ++i) {
      CACHALOT_ASSIGN_OR_RETURN(
          ToolCall call, ReadToolCall((*calls)[i], fmt::format("{}.tool_calls[{}]", place, i)));
      message.tool_calls.push_back(std::move(call));
    }
  }
  return message;
}

Result<std::vector<Message>> ParseMessages(const OrderedJson& json) {
  if (!json.is_array()) {
    return WrongType("messages", json, "a list");
  }
  if (json.empty()) {
    return MakeError(StatusCode::kInvalidArgument, "messages is empty, expected at least one");
  }
  std::vector<Message> messages;
  for (size_t i = 0; i < json.size(); ++i) {
    CACHALOT_ASSIGN_OR_RETURN(Message message,
                              ParseMessage(json[i], fmt::format("messages[{}]", i)));
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<std::vector<Message>> ParseChatInput(const OrderedJson& json) {
  if (json.is_array()) {
    return ParseMessages(json);
  }
  if (!json.is_object() || !json.contains("messages")) {
    return MakeError(StatusCode::kInvalidArgument,
                     "input is {}, expected a list of messages or an object with \"messages\"",
                     json.is_object() ? "an object without \"messages\"" : json.type_name());
  }
  CACHALOT_ASSIGN_OR_RETURN(std::vector<Message> messages, ParseMessages(json["messages"]));
  std::vector<OrderedJson> tools;
  const OrderedJson* choice = Find(json, "tool_choice");
  if (const OrderedJson* declared = Find(json, "tools"); declared != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(tools, ReadTools(*declared, "tools"));
    if (choice != nullptr && *choice == OrderedJson("none")) {
      tools.clear();
    }
  }
  std::optional<OrderedJson> format = ReadResponseFormat(Find(json, "response_format"));
  if (format && format->is_object() &&
      format->value("type", OrderedJson()) == OrderedJson("text")) {
    format.reset();  // the API's way to ask for nothing
  }
  if (tools.empty() && !format) {
    return messages;
  }
  auto system = std::find_if(messages.begin(), messages.end(),
                             [](const Message& m) { return m.role == Role::kSystem; });
  if (system == messages.end()) {
    Message empty;
    empty.role = Role::kSystem;
    system = messages.insert(messages.begin(), std::move(empty));
  }
  const auto system_index = system - messages.begin();
  if ((!tools.empty() && !system->tools.empty()) || (format && system->response_format)) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{} stands both beside the messages and in messages[{}], expected one place",
                     !tools.empty() && !system->tools.empty() ? "tools" : "response_format",
                     system_index);
  }
  if (!tools.empty()) {
    system->tools = std::move(tools);
  }
  if (format) {
    system->response_format = std::move(format);
  }
  return messages;
}

}  // namespace cachalot
