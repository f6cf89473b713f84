// Messages in the shape of OpenAI's chat API, checked once here so that rendering can trust them.
// Who calls: the command line and the server, before EncodeMessages (prompt.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace cachalot {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool, kLatestReminder };
enum class ThinkingMode { kChat, kThinking };
// Short classification jobs that the model has one special token each for.
enum class PromptTask { kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

std::string_view TaskMarker(PromptTask task);
// "thinking" or "chat".
Result<ThinkingMode> ParseThinkingMode(std::string_view name);

struct ToolCall {
  std::string id;  // empty where the message gives none
  std::string name;
  std::string arguments;  // as it came: a JSON object's text if all is well
};

// An answer as the tokens that the model wrote.
struct WrittenTurn {
  std::vector<int32_t> reasoning;  // before the closing tag of thinking
  std::vector<int32_t> answer;     // content and calls, without the end-of-sentence mark
};

struct Message {
  Role role = Role::kUser;
  // Text parts of a content list are joined with blank lines; a part of another type reads
  // "[Unsupported TYPE]".
  std::string content;
  std::string reasoning_content;
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;                    // of a tool message
  std::vector<OrderedJson> tools;              // the `function` object of each declared tool
  std::optional<OrderedJson> response_format;  // absent where null or empty
  std::optional<PromptTask> task;
  bool omit_end_of_sentence = false;  // `wo_eos`
  // Of an assistant message: rendered in place of reasoning, content and calls.
  std::optional<WrittenTurn> written;
};

// One message; `place` names it in errors ("messages[3]"). Keys that the prompt format has no use
// for are ignored.
Result<Message> ParseMessage(const OrderedJson& json, const std::string& place);
Result<std::vector<Message>> ParseMessages(const OrderedJson& json);

// What a request says: a list of messages, or an object with `messages` and, beside them, `tools`,
// `tool_choice` and `response_format`. Tools and format go to the first system message; where there
// is none, an empty one is put first. `tool_choice: "none"` leaves the tools out. Parse the text
// with ParsePythonJson to keep big numbers in tools exact.
Result<std::vector<Message>> ParseChatInput(const OrderedJson& json);

}  // namespace cachalot
