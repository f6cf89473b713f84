#include "server/anthropic_request.h"

#include <utility>

#include "chat/python_json.h"
#include "io/utf8.h"
#include "server/anthropic_tools.h"
#include "server/sampling_fields.h"
#include "server/thinking_fields.h"

namespace cachalot {
namespace {

constexpr std::string_view kToolUsePrefix = "toolu_";
constexpr std::string_view kCallPrefix = "call_";

// Claude Code's note to those who bill it, the first block of its system text. It differs in every
// request: with it, nothing behind it would ever be found in the prefix cache.
constexpr std::string_view kBillingNote = "x-anthropic-billing-header:";

std::string WithPrefix(std::string_view id, std::string_view from, std::string_view to) {
  return id.starts_with(from) ? std::string(to).append(id.substr(from.size())) : std::string(id);
}

void AddParagraph(std::string* text, std::string_view more) {
  *text += text->empty() || more.empty() ? "" : "\n\n";
  *text += more;
}

tl::unexpected<Error> Missing(const JsonFields& fields, const char* name) {
  const std::string path = fields.PathOf(name);
  return fields.Fault(path + ": Field required", path);
}

std::string Placeholder(std::string_view type) {
  return fmt::format("[Unsupported {}]", Utf8Prefix(type, JsonFields::kMaxShownBytes));
}

// Calls `visit(block, type)` for each block of the list `name`; a string counts as one text block.
template <typename Visit>
Status VisitBlocks(const JsonFields& owner, const char* name, Visit visit) {
  const OrderedJson& content = *owner.Find(name);
  if (content.is_string()) {
    const OrderedJson block = {{"type", "text"}, {"text", content}};
    return visit(owner.Within(name, block), "text");
  }
  if (!content.is_array()) {
    return owner.Wrong(name, content, "a string or a list of blocks");
  }
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    if (!content[i].is_object()) {
      return owner.Wrong(place, content[i], "an object");
    }
    const JsonFields block = owner.Within(place, content[i]);
    CACHALOT_ASSIGN_OR_RETURN(const std::string type, block.RequiredText("type"));
    CACHALOT_RETURN_IF_ERROR(visit(block, type));
  }
  return {};
}

// The data of a document that is plain text; nullopt of any other.
Result<std::optional<std::string>> DocumentText(const JsonFields& block) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* source, block.Object("source"));
  if (source == nullptr || !source->contains("type") || (*source)["type"] != "text") {
    return std::nullopt;
  }
  std::string text;
  CACHALOT_ASSIGN_OR_RETURN(const auto title, block.Text("title"));
  CACHALOT_ASSIGN_OR_RETURN(const std::string data,
                            block.Within("source", *source).RequiredText("data"));
  AddParagraph(&text, title.value_or(""));
  AddParagraph(&text, data);
  return text;
}

Result<std::string> BlockText(const JsonFields& block, std::string_view type);

// The texts of a member that may be missing.
Result<std::string> MemberText(const JsonFields& owner, const char* name) {
  std::string text;
  if (owner.Find(name) == nullptr) {
    return text;
  }
  CACHALOT_RETURN_IF_ERROR(
      VisitBlocks(owner, name, [&](const JsonFields& block, std::string_view type) -> Status {
        CACHALOT_ASSIGN_OR_RETURN(const std::string more, BlockText(block, type));
        AddParagraph(&text, more);
        return {};
      }));
  return text;
}

// What the model is shown of a block; a placeholder where that is nothing.
Result<std::string> BlockText(const JsonFields& block, std::string_view type) {
  if (type == "text") {
    return block.RequiredText("text");
  }
  if (type == "document") {
    CACHALOT_ASSIGN_OR_RETURN(std::optional<std::string> text, DocumentText(block));
    return text ? *std::move(text) : Placeholder(type);
  }
  if (type == "tool_reference") {
    return block.RequiredText("tool_name");
  }
  if (type != "search_result") {
    return Placeholder(type);
  }
  CACHALOT_ASSIGN_OR_RETURN(std::string text, block.RequiredText("title"));
  CACHALOT_ASSIGN_OR_RETURN(const std::string source, block.RequiredText("source"));
  CACHALOT_ASSIGN_OR_RETURN(const std::string content, MemberText(block, "content"));
  AddParagraph(&text, source);
  AddParagraph(&text, content);
  return text;
}

Result<std::string> SystemText(const JsonFields& fields) {
  std::string text;
  if (fields.Find("system") == nullptr) {
    return text;
  }
  CACHALOT_RETURN_IF_ERROR(
      VisitBlocks(fields, "system", [&](const JsonFields& block, std::string_view type) -> Status {
        CACHALOT_ASSIGN_OR_RETURN(const std::string more, BlockText(block, type));
        AddParagraph(&text, more.starts_with(kBillingNote) ? "" : more);
        return {};
      }));
  return text;
}

// Collects messages; those of one role after another become one.
class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) {}

  Status Add(const JsonFields& message) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string role, message.RequiredText("role"));
    if (role != "user" && role != "assistant" && role != "system") {
      return message.Wrong("role", role, "user, assistant or system");
    }
    if (message.Find("content") == nullptr) {
      return Missing(message, "content");
    }
    if (role == "system") {
      return AddSystem(message);
    }
    const bool is_user = role == "user";
    const size_t before = messages_.size();
    CACHALOT_RETURN_IF_ERROR(
        VisitBlocks(message, "content", [&](const JsonFields& block, std::string_view type) {
          return is_user ? AddUserBlock(block, type) : AddAssistantBlock(block, type);
        }));
    if (messages_.size() == before) {
      Last(is_user ? Role::kUser : Role::kAssistant);  // an empty message is one nevertheless
    }
    return {};
  }

  std::string& system() { return system_; }
  std::vector<Message>& messages() { return messages_; }

 private:
  Message& Last(Role role) {
    if (messages_.empty() || messages_.back().role != role) {
      messages_.emplace_back().role = role;
    }
    return messages_.back();
  }

  Status AddSystem(const JsonFields& message) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string text, MemberText(message, "content"));
    if (messages_.empty()) {
      AddParagraph(&system_, text);
    } else {
      AddParagraph(&Last(Role::kUser).content, "<system>\n" + text + "\n</system>");
    }
    return {};
  }

  Status AddUserBlock(const JsonFields& block, std::string_view type) {
    if (type == "tool_result") {
      return AddToolResult(block);
    }
    if (type == "image" || type == "document") {
      CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> text, DocumentText(block));
      if (type == "image" || !text) {
        return block.Wrong("type", type, "text: this model cannot read images and documents");
      }
    }
    CACHALOT_ASSIGN_OR_RETURN(const std::string text, BlockText(block, type));
    AddParagraph(&Last(Role::kUser).content, text);
    return {};
  }

  Status AddToolResult(const JsonFields& block) {
    Message result;
    result.role = Role::kTool;
    CACHALOT_ASSIGN_OR_RETURN(const std::string id, block.RequiredText("tool_use_id"));
    result.tool_call_id = CallIdOfToolUse(id);
    CACHALOT_ASSIGN_OR_RETURN(result.content, MemberText(block, "content"));
    CACHALOT_ASSIGN_OR_RETURN(const auto is_error, block.Flag("is_error"));
    if (is_error.value_or(false) && !result.content.starts_with("Error")) {
      result.content.insert(0, "Error: ");  // the prompt format has no mark for it
    }
    messages_.push_back(std::move(result));
    return {};
  }

  // Blocks of hosted tools, which another model had, are left out: to the model a placeholder would
  // be its own words.
  Status AddAssistantBlock(const JsonFields& block, std::string_view type) {
    Message& message = Last(Role::kAssistant);
    if (type == "text") {
      CACHALOT_ASSIGN_OR_RETURN(const std::string text, block.RequiredText("text"));
      AddParagraph(&message.content, text);
    } else if (type == "thinking") {
      CACHALOT_ASSIGN_OR_RETURN(const std::string text, block.RequiredText("thinking"));
      AddParagraph(&message.reasoning_content, text);
    } else if (type == "tool_use") {
      ToolCall call;
      CACHALOT_ASSIGN_OR_RETURN(const std::string id, block.RequiredText("id"));
      call.id = CallIdOfToolUse(id);
      CACHALOT_ASSIGN_OR_RETURN(call.name, block.RequiredText("name"));
      CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* input, block.Object("input"));
      call.arguments = input == nullptr ? "{}" : DumpPythonJson(*input);
      message.tool_calls.push_back(std::move(call));
    }
    return {};
  }

  std::string system_;
  std::vector<Message> messages_;
};

Result<Conversation> ReadConversation(const JsonFields& fields) {
  CACHALOT_ASSIGN_OR_RETURN(std::string system, SystemText(fields));
  Conversation conversation(std::move(system));
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* list, fields.List("messages"));
  if (list == nullptr) {
    return Missing(fields, "messages");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    if (!(*list)[i].is_object()) {
      return fields.Wrong(name, (*list)[i], "an object");
    }
    CACHALOT_RETURN_IF_ERROR(conversation.Add(fields.Within(name, (*list)[i])));
  }
  std::vector<Message>& messages = conversation.messages();
  if (messages.empty()) {
    return fields.Fault(list->empty()
                            ? "messages is empty, expected at least one message"
                            : "messages has system text alone, expected a message of the user",
                        "messages");
  }
  // An empty last message of the assistant has nothing to go on from.
  const Message& last = messages.back();
  if (messages.size() > 1 && last.role == Role::kAssistant && last.content.empty() &&
      last.tool_calls.empty()) {
    messages.pop_back();
  }
  return conversation;
}

// {type: "json_schema", schema} as a member of `fields`; null where absent.
Result<const OrderedJson*> ReadFormat(const JsonFields& fields, const char* name,
                                      AnswerFormat* format) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object(name));
  if (object == nullptr) {
    return nullptr;
  }
  const JsonFields inner = fields.Within(name, *object);
  CACHALOT_ASSIGN_OR_RETURN(const std::string type, inner.RequiredText("type"));
  if (type != "json_schema") {
    return inner.Wrong("type", type, "json_schema");
  }
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* schema, inner.Object("schema"));
  if (schema == nullptr) {
    return Missing(inner, "schema");
  }
  format->kind = AnswerFormat::Kind::kJsonSchema;
  format->schema = *schema;
  return object;
}

// In output_config, or where it was in the API's beta.
Result<const OrderedJson*> ReadOutputFormat(const JsonFields& fields, AnswerFormat* format) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* config, fields.Object("output_config"));
  if (config != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(
        const OrderedJson* found,
        ReadFormat(fields.Within("output_config", *config), "format", format));
    if (found != nullptr) {
      return found;
    }
  }
  return ReadFormat(fields, "output_format", format);
}

}  // namespace

std::string ToolUseIdOfCall(std::string_view call_id) {
  return WithPrefix(call_id, kCallPrefix, kToolUsePrefix);
}

std::string CallIdOfToolUse(std::string_view tool_use_id) {
  return WithPrefix(tool_use_id, kToolUsePrefix, kCallPrefix);
}

Result<GenerationRequest> ReadAnthropicPrompt(const JsonFields& fields) {
  GenerationRequest request;
  ChatInput input;
  CACHALOT_ASSIGN_OR_RETURN(Conversation conversation, ReadConversation(fields));
  CACHALOT_ASSIGN_OR_RETURN(AnthropicTools tools, ReadAnthropicTools(fields));
  CACHALOT_ASSIGN_OR_RETURN(input.thinking, ReadThinking(fields));
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* format, ReadOutputFormat(fields, &request.format));
  std::vector<Message>& messages = conversation.messages();
  if (Message& last = messages.back(); last.role == Role::kAssistant) {
    if (format != nullptr) {
      return fields.Fault(
          "messages ends with one of the assistant, expected one of the user where the answer's "
          "format is given",
          "messages");
    }
    last.omit_end_of_sentence = true;
    input.thinking = {};
    input.thinking.enabled = false;
  }
  if (!conversation.system().empty() || !tools.functions.empty() || format != nullptr) {
    Message system;
    system.role = Role::kSystem;
    system.content = std::move(conversation.system());
    system.tools = std::move(tools.functions);
    if (format != nullptr) {
      system.response_format = *format;
    }
    messages.insert(messages.begin(), std::move(system));
  }
  input.messages = std::move(messages);
  input.tools = std::move(tools.policy);
  request.input = std::move(input);
  return request;
}

ApiResult<MessagesRequest> ReadMessagesRequest(const JsonFields& fields,
                                               const RequestDefaults& defaults) {
  MessagesRequest request;
  if (fields.Find("thread") != nullptr) {
    return tl::unexpected(ApiError(
        400, "thread is given, expected the whole conversation: this server keeps no threads",
        std::string(kNoThreads), "thread"));
  }
  if (fields.Find("max_tokens") == nullptr) {
    return Missing(fields, "max_tokens");
  }
  CACHALOT_ASSIGN_OR_RETURN(request.generation, ReadAnthropicPrompt(fields));
  GenerationRequest& generation = request.generation;
  generation.sampling = defaults.sampling;
  CACHALOT_RETURN_IF_ERROR(ReadSampling(fields, defaults.vocab_size, &generation.sampling));
  constexpr const char* kLengthNames[] = {"max_tokens"};
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, kLengthNames, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, "stop_sequences", &generation.stop));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("stream"), &request.stream));
  return request;
}

}  // namespace cachalot
