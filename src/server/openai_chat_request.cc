#include "server/openai_chat_request.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "chat/python_json.h"
#include "server/format_fields.h"
#include "server/sampling_fields.h"
#include "server/thinking_fields.h"
#include "server/tool_fields.h"

namespace cachalot {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 6> kChatRoles = {
    {{"system", Role::kSystem},
     {"developer", Role::kDeveloper},
     {"user", Role::kUser},
     {"assistant", Role::kAssistant},
     {"tool", Role::kTool},
     {"function", Role::kTool}}};
constexpr const char* kChatLengthNames[] = {"max_completion_tokens", "max_tokens"};

Result<Role> ReadChatRole(const JsonFields& message) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string name, message.RequiredText("role"));
  for (const auto& [known, role] : kChatRoles) {
    if (name == known) {
      return role;
    }
  }
  return message.Wrong("role", OrderedJson(name),
                       "system, developer, user, assistant, tool or function");
}

Result<std::string> ReadContentPart(const JsonFields& part) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string type, part.RequiredText("type"));
  if (type != "text" && type != "refusal") {
    return part.Wrong("type", OrderedJson(type), "\"text\": this model reads text alone");
  }
  return part.RequiredText(type);
}

Result<std::string> ReadChatContent(const JsonFields& message, Role role) {
  const OrderedJson* content = message.Find("content");
  if (content == nullptr) {
    if (role == Role::kAssistant || role == Role::kTool) {
      return std::string();
    }
    const std::string path = message.PathOf("content");
    return message.Fault(fmt::format("{} is missing, expected text", path), path);
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  if (!content->is_array()) {
    return message.Wrong("content", *content, "a string or a list of parts");
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const OrderedJson& part = (*content)[i];
    const std::string name = fmt::format("content[{}]", i);
    if (!part.is_object()) {
      return message.Wrong(name, part, "an object");
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string of_part,
                              ReadContentPart(message.Within(name, part)));
    text += i > 0 ? "\n\n" : "";
    text += of_part;
  }
  return text;
}

// {name, arguments}
Result<ToolCall> ReadCalledFunction(const JsonFields& function) {
  ToolCall call;
  CACHALOT_ASSIGN_OR_RETURN(call.name, function.RequiredText("name"));
  const OrderedJson* arguments = function.Find("arguments");
  if (arguments == nullptr || *arguments == OrderedJson("")) {
    call.arguments = "{}";
  } else if (arguments->is_string()) {
    call.arguments = arguments->get<std::string>();
  } else if (arguments->is_object()) {
    call.arguments = DumpPythonJson(*arguments);
  } else {
    return function.Wrong("arguments", *arguments, "an object or its text");
  }
  return call;
}

Result<ToolCall> ReadToolCall(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> type, fields.Text("type"));
  if (type && type != "function") {
    return fields.Wrong("type", OrderedJson(*type), "\"function\"");
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* function, fields.Object("function"));
  if (function == nullptr) {
    const std::string path = fields.PathOf("function");
    return fields.Fault(fmt::format("{} is missing, expected an object", path), path);
  }
  CACHALOT_ASSIGN_OR_RETURN(ToolCall call,
                            ReadCalledFunction(fields.Within("function", *function)));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("id"), &call.id));
  return call;
}

Result<std::vector<ToolCall>> ReadToolCalls(const JsonFields& message) {
  std::vector<ToolCall> calls;
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, message.List("tool_calls"));
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string name = fmt::format("tool_calls[{}]", i);
    if (!(*list)[i].is_object()) {
      return message.Wrong(name, (*list)[i], "an object");
    }
    CACHALOT_ASSIGN_OR_RETURN(calls.emplace_back(), ReadToolCall(message.Within(name, (*list)[i])));
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* of_old, message.Object("function_call"));
  if (of_old != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(calls.emplace_back(),
                              ReadCalledFunction(message.Within("function_call", *of_old)));
  }
  return calls;
}

Result<Message> ReadChatMessage(const JsonFields& fields) {
  Message message;
  CACHALOT_ASSIGN_OR_RETURN(message.role, ReadChatRole(fields));
  CACHALOT_ASSIGN_OR_RETURN(message.content, ReadChatContent(fields, message.role));
  if (message.role == Role::kDeveloper && message.content.empty()) {
    return fields.Wrong("content", *fields.Find("content"), "text: a developer's is not empty");
  }
  if (message.role == Role::kAssistant) {
    std::string& thoughts = message.reasoning_content;
    CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("reasoning"), &thoughts));
    CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("reasoning_content"), &thoughts));
    CACHALOT_ASSIGN_OR_RETURN(message.tool_calls, ReadToolCalls(fields));
  }
  if (message.role == Role::kTool) {
    CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Text("tool_call_id"), &message.tool_call_id));
  }
  return message;
}

void AddSystemText(std::string text, std::vector<Message>* messages) {
  if (messages->empty()) {
    messages->emplace_back().role = Role::kSystem;
  }
  std::string& content = messages->back().content;
  content += content.empty() ? text : "\n\n" + text;
}

Result<std::vector<Message>> ReadChatMessages(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List("messages"));
  if (list == nullptr || list->empty()) {
    return fields.Fault(fmt::format("messages is {}, expected a list of at least one message",
                                    list == nullptr ? "missing" : "empty"),
                        "messages");
  }
  std::vector<Message> messages;
  bool before_turns = true;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    if (!(*list)[i].is_object()) {
      return fields.Wrong(name, (*list)[i], "an object");
    }
    CACHALOT_ASSIGN_OR_RETURN(Message message, ReadChatMessage(fields.Within(name, (*list)[i])));
    if (before_turns && message.role == Role::kDeveloper) {
      AddSystemText(std::move(message.content), &messages);
      continue;
    }
    before_turns = before_turns && message.role == Role::kSystem;
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

Result<OpenAiChatRequest> ReadOpenAiChatRequest(const JsonFields& fields,
                                                const RequestDefaults& defaults) {
  OpenAiChatRequest request;
  GenerationRequest& generation = request.generation;
  generation.sampling = defaults.sampling;
  ChatInput chat;
  CACHALOT_ASSIGN_OR_RETURN(chat.messages, ReadChatMessages(fields));
  CACHALOT_ASSIGN_OR_RETURN(ToolFields tools, ReadToolFields(fields));
  CACHALOT_ASSIGN_OR_RETURN(FormatFields format, ReadResponseFormat(fields, "response_format"));
  CACHALOT_ASSIGN_OR_RETURN(chat.thinking, ReadThinking(fields));
  CACHALOT_RETURN_IF_ERROR(ReadSampling(fields, defaults.vocab_size, &generation.sampling));
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, kChatLengthNames, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, "stop", &generation.stop));
  CACHALOT_RETURN_IF_ERROR(ReadScheduling(fields, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadLogprobs(fields, &generation.top_logprobs));
  CACHALOT_ASSIGN_OR_RETURN(request.stream, ReadOpenAiStreamFields(fields));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("return_progress"), &request.return_progress));

  request.of_old = tools.of_old;
  chat.tools = std::move(tools.policy);
  generation.format = std::move(format.format);
  DeclareInPrompt(std::move(tools.functions), std::move(format.prompt), &chat.messages);
  generation.input = std::move(chat);
  return request;
}

}  // namespace cachalot
