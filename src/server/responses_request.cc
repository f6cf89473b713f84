#include "server/responses_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sampling/logprobs.h"
#include "server/format_fields.h"
#include "server/responses_input.h"
#include "server/sampling_fields.h"
#include "server/thinking_fields.h"
#include "server/tool_fields.h"

namespace cachalot {
namespace {

constexpr size_t kMaxMetadata = 16;
constexpr size_t kMaxMetadataKeyBytes = 64 * 4;  // 64 characters of UTF-8
constexpr size_t kMaxMetadataValueBytes = 512 * 4;

OrderedJson CopyOrNull(const JsonFields& fields, const char* name) {
  const OrderedJson* value = fields.Find(name);
  return value == nullptr ? OrderedJson() : *value;
}

// What the model sees of a custom tool.
OrderedJson OneInput() {
  return {{"type", "object"},
          {"properties",
           {{"input", {{"type", "string"}, {"description", "the tool's input, as plain text"}}}}},
          {"required", OrderedJson::array({"input"})}};
}

OrderedJson ShellFunction() {
  return {{"name", "local_shell"},
          {"description", "Runs a command on the user's machine and returns its output."},
          {"parameters",
           {{"type", "object"},
            {"properties",
             {{"command",
               {{"type", "array"},
                {"items", {{"type", "string"}}},
                {"description", "the program and its arguments"}}},
              {"working_directory", {{"type", "string"}}},
              {"timeout_ms", {{"type", "integer"}}}}},
            {"required", OrderedJson::array({"command"})}}}};
}

// The tools that the model may call.
class Tools {
 public:
  // `list` is what `name` names in errors.
  Status Read(const JsonFields& fields, const std::string& name, const OrderedJson& list,
              const std::string& name_space = {}) {
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!list[i].is_object()) {
        return fields.Wrong(place, list[i], "an object");
      }
      CACHALOT_RETURN_IF_ERROR(ReadTool(fields.Within(place, list[i]), name_space));
    }
    return {};
  }

  // Of a tool that tool_choice names. Null: not declared, or not run by the client.
  const std::string* Find(std::string_view name_space, const std::string& name) const {
    const auto found = tools_.find(QualifiedToolName(name_space, name));
    return found == tools_.end() ? nullptr : &found->first;
  }
  bool empty() const { return tools_.empty(); }
  void KeepOnly(const std::vector<std::string>& names) {
    std::erase_if(functions_, [&](const OrderedJson& function) {
      return std::find(names.begin(), names.end(), function["name"].get<std::string>()) ==
             names.end();
    });
  }

  std::vector<OrderedJson> TakeFunctions() { return std::move(functions_); }
  std::map<std::string, ResponsesTool> TakeTools() { return std::move(tools_); }

 private:
  Status ReadTool(const JsonFields& fields, const std::string& name_space) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
    if (type == "function" || type == "custom") {
      return ReadFunction(fields, name_space, type == "custom");
    }
    if (type == "namespace") {
      CACHALOT_ASSIGN_OR_RETURN(const std::string name, fields.RequiredText("name"));
      CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* tools, fields.List("tools"));
      return tools == nullptr ? Status() : Read(fields, "tools", *tools, name);
    }
    if (type == "local_shell") {
      Add(ShellFunction(), {ResponsesTool::Kind::kLocalShell, "local_shell", ""});
    }
    return {};
  }

  Status ReadFunction(const JsonFields& fields, const std::string& name_space, bool is_custom) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string name, ReadToolName(fields));
    CACHALOT_ASSIGN_OR_RETURN(std::optional<std::string> description, fields.Text("description"));
    OrderedJson parameters;
    if (is_custom) {
      CACHALOT_ASSIGN_OR_RETURN(const std::string grammar, ReadInputFormat(fields));
      description = description.value_or("") + grammar;
      parameters = OneInput();
    } else {
      CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* schema, fields.Object("parameters"));
      parameters = schema == nullptr ? OrderedJson() : *schema;
    }
    OrderedJson function = {{"name", QualifiedToolName(name_space, name)}};
    if (description && !description->empty()) {
      function["description"] = *std::move(description);
    }
    if (!parameters.is_null()) {
      function["parameters"] = std::move(parameters);
    }
    using Kind = ResponsesTool::Kind;
    Add(std::move(function), {is_custom ? Kind::kCustom : Kind::kFunction, name, name_space});
    return {};
  }

  // What a description has to add.
  static Result<std::string> ReadInputFormat(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object("format"));
    if (object == nullptr) {
      return std::string();
    }
    const JsonFields format = fields.Within("format", *object);
    CACHALOT_ASSIGN_OR_RETURN(const std::string type, format.RequiredText("type"));
    if (type == "text") {
      return std::string();
    }
    if (type != "grammar") {
      return format.Wrong("type", OrderedJson(type), "text or grammar");
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string syntax, format.RequiredText("syntax"));
    CACHALOT_ASSIGN_OR_RETURN(const std::string definition, format.RequiredText("definition"));
    return fmt::format("\n\nThe input must follow this {} grammar:\n{}", syntax, definition);
  }

  void Add(OrderedJson function, ResponsesTool tool) {
    const bool is_new = tools_.emplace(function["name"].get<std::string>(), std::move(tool)).second;
    if (is_new) {
      functions_.push_back(std::move(function));
    }
  }

  std::vector<OrderedJson> functions_;
  std::map<std::string, ResponsesTool> tools_;
};

// {type, name}; nothing for a hosted tool.
Result<const std::string*> ReadChosenTool(const JsonFields& fields, const Tools& tools) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
  if (type == "local_shell") {
    return tools.Find("", type);
  }
  if (type != "function" && type != "custom") {
    return nullptr;
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::string name, fields.RequiredText("name"));
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> name_space, fields.Text("namespace"));
  const std::string* found = tools.Find(name_space.value_or(""), name);
  if (found == nullptr) {
    return fields.Wrong("name", OrderedJson(name), "the name of one of the tools");
  }
  return found;
}

// {type: allowed_tools, mode, tools}. In mode auto the others are not shown to the model.
Status ReadAllowedTools(const JsonFields& fields, Tools* tools, ToolPolicy* policy) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string mode, fields.RequiredText("mode"));
  if (mode != "auto" && mode != "required") {
    return fields.Wrong("mode", OrderedJson(mode), "auto or required");
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List("tools"));
  const OrderedJson none = OrderedJson::array();
  list = list == nullptr ? &none : list;
  std::vector<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    if (!(*list)[i].is_object()) {
      return fields.Wrong(place, (*list)[i], "an object");
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string* name,
                              ReadChosenTool(fields.Within(place, (*list)[i]), *tools));
    if (name != nullptr) {
      names.push_back(*name);
    }
  }
  if (mode == "auto") {
    tools->KeepOnly(names);
    return {};
  }
  if (names.empty()) {
    return fields.Wrong("tools", *list, "a tool that the client runs");
  }
  policy->choice = ToolPolicy::Choice::kRequired;
  policy->names = std::move(names);
  return {};
}

Status ReadToolChoice(const JsonFields& fields, Tools* tools, ToolPolicy* policy) {
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("parallel_tool_calls"), &policy->parallel));
  const OrderedJson* choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == OrderedJson("auto")) {
    return {};
  }
  if (*choice == OrderedJson("none")) {
    policy->choice = ToolPolicy::Choice::kNone;
    tools->KeepOnly({});
    return {};
  }
  if (*choice == OrderedJson("required")) {
    if (tools->empty()) {
      return fields.Wrong("tool_choice", *choice, "a tool that the client runs among the tools");
    }
    policy->choice = ToolPolicy::Choice::kRequired;
    return {};
  }
  if (!choice->is_object()) {
    return fields.Wrong("tool_choice", *choice, "auto, none, required or an object");
  }
  const JsonFields chosen = fields.Within("tool_choice", *choice);
  if (choice->value("type", OrderedJson()) == OrderedJson("allowed_tools")) {
    return ReadAllowedTools(chosen, tools, policy);
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::string* name, ReadChosenTool(chosen, *tools));
  if (name == nullptr) {
    return fields.Wrong("tool_choice", *choice, "a tool that is declared and that the client runs");
  }
  policy->choice = ToolPolicy::Choice::kRequired;
  policy->names = {*name};
  return {};
}

// text: {format, verbosity}.
Result<FormatFields> ReadTextFormat(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* text, fields.Object("text"));
  if (text == nullptr) {
    return FormatFields();
  }
  const JsonFields text_fields = fields.Within("text", *text);
  CACHALOT_RETURN_IF_ERROR(text_fields.Text("verbosity"));
  return ReadResponseFormat(text_fields, "format");
}

Status RefuseStored(const JsonFields& fields) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (const OrderedJson* value = fields.Find(name); value != nullptr) {
      return fields.Wrong(name, *value,
                          "nothing: no conversations are stored here, send all items as input");
    }
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<bool> background, fields.Flag("background"));
  if (background.value_or(false)) {
    return fields.Wrong("background", OrderedJson(true),
                        "false: no responses are stored here to be fetched later");
  }
  CACHALOT_RETURN_IF_ERROR(fields.Flag("store"));
  return {};
}

Status CheckMetadata(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* metadata, fields.Object("metadata"));
  if (metadata == nullptr) {
    return {};
  }
  if (metadata->size() > kMaxMetadata) {
    return fields.Fault(
        fmt::format("metadata has {} members, expected at most {}", metadata->size(), kMaxMetadata),
        "metadata");
  }
  for (const auto& [key, value] : metadata->items()) {
    const bool fits = value.is_string() && key.size() <= kMaxMetadataKeyBytes &&
                      value.get_ref<const std::string&>().size() <= kMaxMetadataValueBytes;
    if (!fits) {
      return fields.Wrong("metadata", *metadata,
                          "strings of at most 512 characters by names of at most 64");
    }
  }
  return {};
}

// include and top_logprobs.
Status ReadInclude(const JsonFields& fields, ResponsesRequest* request) {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<int64_t> top,
                            fields.Integer("top_logprobs", 0, kMaxTopLogprobs));
  if (top.value_or(0) > 0) {
    request->generation.top_logprobs = top;
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* include, fields.List("include"));
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    const OrderedJson& name = (*include)[i];
    if (!name.is_string()) {
      return fields.Wrong(fmt::format("include[{}]", i), name, "a string");
    }
    if (name == OrderedJson("reasoning.encrypted_content")) {
      request->seals_reasoning = true;
    } else if (name == OrderedJson("message.output_text.logprobs")) {
      request->generation.top_logprobs = top.value_or(0);
    }
  }
  return {};
}

Status ReadReasoning(const JsonFields& fields, ResponsesRequest* request) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object("reasoning"));
  if (object == nullptr) {
    return {};
  }
  const JsonFields reasoning = fields.Within("reasoning", *object);
  for (const char* name : {"summary", "generate_summary"}) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> summary, reasoning.Text(name));
    request->shows_summary |= summary && *summary != "none";
  }
  return {};
}

Status ReadConversation(const JsonFields& fields, ResponsesRequest* request) {
  ChatInput chat;
  CACHALOT_ASSIGN_OR_RETURN(chat.thinking, ReadThinking(fields));
  CACHALOT_ASSIGN_OR_RETURN(ResponsesInput input, ReadResponsesInput(fields));
  chat.messages = std::move(input.messages);
  Tools tools;
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List("tools"));
  if (list != nullptr) {
    CACHALOT_RETURN_IF_ERROR(tools.Read(fields, "tools", *list));
  }
  for (size_t i = 0; i < input.tools.size(); ++i) {
    CACHALOT_RETURN_IF_ERROR(tools.Read(fields, input.tool_places[i], *input.tools[i]));
  }
  CACHALOT_RETURN_IF_ERROR(ReadToolChoice(fields, &tools, &chat.tools));
  CACHALOT_ASSIGN_OR_RETURN(FormatFields format, ReadTextFormat(fields));
  request->generation.format = std::move(format.format);
  DeclareInPrompt(tools.TakeFunctions(), std::move(format.prompt), &chat.messages);
  request->tools = tools.TakeTools();
  request->generation.input = std::move(chat);
  return {};
}

OrderedJson Settings(const JsonFields& fields, const ResponsesRequest& request) {
  const GenerationRequest& generation = request.generation;
  const auto or_else = [&](const char* name, OrderedJson otherwise) {
    const OrderedJson* value = fields.Find(name);
    return value == nullptr ? std::move(otherwise) : *value;
  };
  OrderedJson reasoning = {{"effort", nullptr}, {"summary", nullptr}};
  if (const OrderedJson* given = fields.Find("reasoning"); given != nullptr) {
    reasoning.update(*given);
  }
  OrderedJson text = {{"format", {{"type", "text"}}}};
  if (const OrderedJson* given = fields.Find("text"); given != nullptr) {
    text.update(*given);
  }
  OrderedJson settings = {
      {"instructions", CopyOrNull(fields, "instructions")},
      {"max_output_tokens", CopyOrNull(fields, "max_output_tokens")},
      {"metadata", or_else("metadata", OrderedJson::object())},
      {"parallel_tool_calls", std::get<ChatInput>(generation.input).tools.parallel},
      {"previous_response_id", nullptr},
      {"reasoning", std::move(reasoning)},
      {"store", false},
      {"temperature", generation.sampling.temperature},
      {"text", std::move(text)},
      {"tool_choice", or_else("tool_choice", "auto")},
      {"tools", or_else("tools", OrderedJson::array())},
      {"top_logprobs", generation.top_logprobs.value_or(0)},
      {"top_p", generation.sampling.top_p},
      {"truncation", or_else("truncation", "disabled")},
      {"user", CopyOrNull(fields, "user")},
  };
  for (const char* name : {"prompt_cache_key", "safety_identifier", "service_tier"}) {
    if (const OrderedJson* value = fields.Find(name); value != nullptr) {
      settings[name] = *value;
    }
  }
  return settings;
}

}  // namespace

Result<ResponsesRequest> ReadResponsesRequest(const JsonFields& fields,
                                              const RequestDefaults& defaults) {
  CACHALOT_RETURN_IF_ERROR(RefuseStored(fields));
  CACHALOT_RETURN_IF_ERROR(CheckMetadata(fields));
  for (const char* name :
       {"user", "service_tier", "prompt_cache_key", "safety_identifier", "truncation"}) {
    CACHALOT_RETURN_IF_ERROR(fields.Text(name));
  }
  ResponsesRequest request;
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("stream"), &request.stream));
  CACHALOT_RETURN_IF_ERROR(fields.Object("stream_options"));
  GenerationRequest& generation = request.generation;
  generation.sampling = defaults.sampling;
  CACHALOT_RETURN_IF_ERROR(ReadSampling(fields, defaults.vocab_size, &generation.sampling));
  const std::array<const char*, 1> longest = {"max_output_tokens"};
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, longest, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, "stop", &generation.stop));
  CACHALOT_RETURN_IF_ERROR(ReadScheduling(fields, &generation));
  if (generation.num_choices != 1) {
    return fields.Wrong("n", OrderedJson(generation.num_choices), "1: a response is one answer");
  }
  CACHALOT_RETURN_IF_ERROR(ReadInclude(fields, &request));
  CACHALOT_RETURN_IF_ERROR(ReadReasoning(fields, &request));
  CACHALOT_RETURN_IF_ERROR(ReadConversation(fields, &request));
  request.settings = Settings(fields, request);
  return request;
}

}  // namespace cachalot
