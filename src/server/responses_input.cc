#include "server/responses_input.h"

#include <algorithm>
#include <array>
#include <utility>

#include "chat/python_json.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr std::string_view kSeal = "cachalot-reasoning-1:";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Of tools that run elsewhere, and of clients' own book-keeping.
constexpr auto kPassedOver = std::to_array<std::string_view>({
    "apply_patch_call",      "apply_patch_call_output",
    "code_interpreter_call", "compaction",
    "compaction_trigger",    "computer_call",
    "computer_call_output",  "context_compaction",
    "file_search_call",      "ghost_snapshot",
    "image_generation_call", "mcp_approval_request",
    "mcp_approval_response", "mcp_call",
    "mcp_list_tools",        "program",
    "program_output",        "shell_call",
    "shell_call_output",     "tool_search_call",
    "web_search_call",
});

constexpr auto kBringTools = std::to_array<std::string_view>(
    {"additional_tools", "tool_definitions", "tool_search_output", "tools"});

template <size_t n>
bool IsOneOf(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void AddParagraph(std::string& text, std::string_view paragraph) {
  text += text.empty() || paragraph.empty() ? "" : "\n\n";
  text += paragraph;
}

enum class OtherParts { kRefused, kNamed };

// A string, or a list of parts with texts in them, joined with blank lines; empty where absent. Parts
// that are no text are refused, or stand as their type in brackets.
Result<std::string> ReadText(const JsonFields& fields, const std::string& name,
                             OtherParts others = OtherParts::kRefused) {
  const OrderedJson* content = fields.Find(name);
  if (content == nullptr) {
    return std::string();
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  if (!content->is_array()) {
    return fields.Wrong(name, *content, "a string or a list of parts");
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    const OrderedJson& part = (*content)[i];
    if (!part.is_object()) {
      return fields.Wrong(place, part, "an object");
    }
    const JsonFields part_fields = fields.Within(place, part);
    CACHALOT_ASSIGN_OR_RETURN(const std::string type, part_fields.RequiredText("type"));
    const bool is_text = type == "input_text" || type == "output_text" || type == "text" ||
                         type == "summary_text" || type == "reasoning_text";
    const bool is_refusal = type == "refusal";
    if (!is_text && !is_refusal && others == OtherParts::kRefused) {
      return part_fields.Wrong("type", OrderedJson(type),
                               "input_text, output_text, text or refusal: this model reads text");
    }
    text += i > 0 ? "\n\n" : "";
    if (!is_text && !is_refusal) {
      text += fmt::format("[Unsupported {}]", type);
      continue;
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string piece,
                              part_fields.RequiredText(is_text ? "text" : "refusal"));
    text += piece;
  }
  return text;
}

class Reader {
 public:
  explicit Reader(const JsonFields& fields) : fields_(fields) {}

  Result<ResponsesInput> Read() {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> instructions,
                              fields_.Text("instructions"));
    AddParagraph(system_, instructions.value_or(""));
    const OrderedJson* input = fields_.Find("input");
    if (input == nullptr) {
      return fields_.Fault("input is missing, expected a string or a list of items", "input");
    }
    if (input->is_string()) {
      Add(Role::kUser, input->get<std::string>());
    } else if (input->is_array() && !input->empty()) {
      for (size_t i = 0; i < input->size(); ++i) {
        CACHALOT_RETURN_IF_ERROR(
            ReadItem((*input)[i], fmt::format("input[{}]", i), i + 1 == input->size()));
      }
    } else {
      return fields_.Wrong("input", *input, "a string or a list of items");
    }
    if (!system_.empty()) {
      Message message;
      message.role = Role::kSystem;
      message.content = std::move(system_);
      result_.messages.insert(result_.messages.begin(), std::move(message));
    }
    if (result_.messages.empty()) {
      return fields_.Fault("input has no message", "input");
    }
    return std::move(result_);
  }

 private:
  Status ReadItem(const OrderedJson& item, const std::string& place, bool is_last) {
    if (!item.is_object()) {
      return fields_.Wrong(place, item, "an object");
    }
    const JsonFields fields = fields_.Within(place, item);
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> given, fields.Text("type"));
    const std::string type = given.value_or("message");
    if (type == "message") {
      return ReadMessage(fields, is_last);
    }
    if (type == "reasoning") {
      return ReadReasoning(fields);
    }
    if (type == "function_call" || type == "custom_tool_call") {
      return ReadCall(fields, type == "custom_tool_call");
    }
    if (type == "local_shell_call") {
      return ReadShellCall(fields);
    }
    if (type == "function_call_output" || type == "custom_tool_call_output" ||
        type == "local_shell_call_output") {
      return ReadOutput(fields);
    }
    if (IsOneOf(kBringTools, type)) {
      CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* tools, fields.List("tools"));
      if (tools != nullptr) {
        result_.tools.push_back(tools);
        result_.tool_places.push_back(place + ".tools");
      }
      return {};
    }
    if (type == "item_reference") {
      return fields.Fault(
          fmt::format("{} is an item_reference, and nothing is stored here: send the item itself",
                      place),
          place);
    }
    if (!IsOneOf(kPassedOver, type)) {
      return fields.Wrong("type", OrderedJson(type), "a type of item that is known here");
    }
    return {};
  }

  Status ReadMessage(const JsonFields& fields, bool is_last) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string role, fields.RequiredText("role"));
    CACHALOT_ASSIGN_OR_RETURN(std::string text, ReadText(fields, "content"));
    if (role == "assistant") {
      AddParagraph(Assistant().content, text);
    } else if (role == "system" || role == "developer") {
      // Someone has to be answered: where nobody else speaks it is the last of these.
      if (result_.messages.empty() && !is_last) {
        AddParagraph(system_, text);
      } else {
        Add(Role::kUser, std::move(text));
      }
    } else if (role == "user") {
      Add(Role::kUser, std::move(text));
    } else {
      return fields.Wrong("role", OrderedJson(role), "user, assistant, system or developer");
    }
    return {};
  }

  Status ReadReasoning(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> sealed,
                              fields.Text("encrypted_content"));
    std::optional<std::string> text = UnsealReasoning(sealed.value_or(""));
    for (const char* name : {"content", "summary"}) {
      CACHALOT_ASSIGN_OR_RETURN(std::string shown, ReadText(fields, name));
      if (!text && !shown.empty()) {
        text = std::move(shown);
      }
    }
    if (text) {
      AddParagraph(Assistant().reasoning_content, *text);
    }
    return {};
  }

  Status ReadCall(const JsonFields& fields, bool is_custom) {
    ToolCall call;
    CACHALOT_ASSIGN_OR_RETURN(call.id, fields.RequiredText("call_id"));
    CACHALOT_ASSIGN_OR_RETURN(const std::string name, fields.RequiredText("name"));
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> name_space,
                              fields.Text("namespace"));
    call.name = QualifiedToolName(name_space.value_or(""), name);
    CACHALOT_ASSIGN_OR_RETURN(call.arguments,
                              fields.RequiredText(is_custom ? "input" : "arguments"));
    if (is_custom) {
      call.arguments = CustomToolArguments(call.arguments);
    }
    Assistant().tool_calls.push_back(std::move(call));
    return {};
  }

  // The action is the call's arguments with what the API wants added: its type, and an environment.
  Status ReadShellCall(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* action, fields.Object("action"));
    if (action == nullptr) {
      return fields.Fault(fmt::format("{} is missing, expected an object", fields.PathOf("action")),
                          fields.PathOf("action"));
    }
    OrderedJson arguments = OrderedJson::object();
    for (const auto& [key, value] : action->items()) {
      const bool says_nothing = value.is_null() || (key == "env" && value.empty());
      if (key != "type" && !says_nothing) {
        arguments[key] = value;
      }
    }
    CACHALOT_ASSIGN_OR_RETURN(std::string id, CallIdOf(fields));
    Assistant().tool_calls.push_back({std::move(id), "local_shell", DumpPythonJson(arguments)});
    return {};
  }

  Status ReadOutput(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(std::string id, CallIdOf(fields));
    if (fields.Find("output") == nullptr) {
      return fields.Fault(fmt::format("{} is missing, expected a string or a list of parts",
                                      fields.PathOf("output")),
                          fields.PathOf("output"));
    }
    CACHALOT_ASSIGN_OR_RETURN(std::string output, ReadText(fields, "output", OtherParts::kNamed));
    Add(Role::kTool, std::move(output)).tool_call_id = std::move(id);
    return {};
  }

  // Outputs of the local shell have their call's id in `id`.
  static Result<std::string> CallIdOf(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(std::optional<std::string> id, fields.Text("id"));
    if (fields.Find("call_id") == nullptr && id) {
      return *std::move(id);
    }
    return fields.RequiredText("call_id");
  }

  Message& Add(Role role, std::string text) {
    Message& message = result_.messages.emplace_back();
    message.role = role;
    message.content = std::move(text);
    return message;
  }

  Message& Assistant() {
    if (result_.messages.empty() || result_.messages.back().role != Role::kAssistant) {
      Add(Role::kAssistant, "");
    }
    return result_.messages.back();
  }

  const JsonFields& fields_;
  std::string system_;
  ResponsesInput result_;
};

}  // namespace

Result<ResponsesInput> ReadResponsesInput(const JsonFields& fields) {
  return Reader(fields).Read();
}

std::string QualifiedToolName(std::string_view name_space, std::string_view name) {
  return fmt::format("{}{}{}", name_space, name_space.empty() ? "" : ".", name);
}

std::string CustomToolArguments(const std::string& input) {
  return DumpPythonJson(OrderedJson{{"input", input}});
}

std::string SealReasoning(std::string_view text) {
  std::string sealed(kSeal);
  for (size_t i = 0; i < text.size(); i += 3) {
    const std::string_view bytes = text.substr(i, 3);
    uint32_t bits = 0;
    for (size_t b = 0; b < 3; ++b) {
      bits = bits << 8 | (b < bytes.size() ? static_cast<unsigned char>(bytes[b]) : 0);
    }
    for (size_t c = 0; c < 4; ++c) {
      sealed += c <= bytes.size() ? kBase64[bits >> (18 - 6 * c) & 63] : '=';
    }
  }
  return sealed;
}

std::optional<std::string> UnsealReasoning(std::string_view sealed) {
  if (!sealed.starts_with(kSeal)) {
    return std::nullopt;
  }
  sealed.remove_prefix(kSeal.size());
  while (sealed.ends_with('=')) {
    sealed.remove_suffix(1);
  }
  std::string text;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : sealed) {
    const size_t digit = kBase64.find(c);
    if (digit == kBase64.npos) {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      text += static_cast<char>(bits >> num_bits & 255);
    }
  }
  return FindInvalidUtf8(text) ? std::nullopt : std::optional(std::move(text));
}

}  // namespace cachalot
