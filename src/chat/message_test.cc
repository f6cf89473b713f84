#include "chat/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/python_json.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

Result<std::vector<Message>> Parse(const std::string& text) {
  return ParseChatInput(ParsePythonJson(text, "input").value());
}

struct FaultCase {
  const char* input;
  const char* message;
};

TEST(Message, FaultsNameTheMessageAndTheField) {
  for (
      const auto& [input, message] : {
          FaultCase{"1", "input is number, expected a list of messages or an object"},
          FaultCase{"{}", "input is an object without \"messages\""},
          FaultCase{"[]", "messages is empty"},
          FaultCase{R"({"messages": {}})", "messages is object, expected a list"},
          FaultCase{"[1]", "messages[0] is number, expected an object"},
          FaultCase{"[{}]", "messages[0]: \"role\" is missing"},
          FaultCase{R"([{"role": "user", "content": ""}, {"role": "robot"}])",
                    "messages[1].role is \"robot\", expected one of system, developer, user"},
          FaultCase{R"([{"role": 1}])", "messages[0].role is number, expected one of"},
          FaultCase{R"([{"role": "direct_search_results"}])",
                    "messages[0].role is \"direct_search_results\""},
          FaultCase{R"([{"role": "developer"}])", "messages[0]: \"content\" is missing"},
          FaultCase{R"([{"role": "developer", "content": ""}])",
                    "messages[0]: \"content\" of a developer message"},
          FaultCase{R"([{"role": "user", "content": null}])", "messages[0]: \"content\" is null"},
          FaultCase{R"([{"role": "tool", "content": null}])", "messages[0]: \"content\" is null"},
          FaultCase{R"([{"role": "latest_reminder"}])", "messages[0]: \"content\" is missing"},
          FaultCase{R"([{"role": "user", "content": 1}])",
                    "messages[0].content is number, expected a string or"},
          FaultCase{R"([{"role": "user", "content": ["a"]}])",
                    "messages[0].content[0] is string, expected an object"},
          FaultCase{R"([{"role": "user", "content": [{"text": "a"}]}])",
                    "messages[0].content[0]: \"type\" is missing"},
          FaultCase{R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])",
                    "messages[0].content[0].text is number, expected a string"},
          FaultCase{R"([{"role": "user", "content": "a", "task": "sing"}])",
                    "messages[0].task is \"sing\", expected one of action, query, authority, "
                    "domain, title, read_url"},
          FaultCase{R"([{"role": "assistant", "reasoning_content": []}])",
                    "messages[0].reasoning_content is array, expected a string"},
          FaultCase{R"([{"role": "assistant", "wo_eos": "yes"}])",
                    "messages[0].wo_eos is string, expected true or"},
          FaultCase{R"([{"role": "assistant", "tool_calls": {}}])",
                    "messages[0].tool_calls is object, expected a list"},
          FaultCase{R"([{"role": "assistant", "tool_calls": [1]}])",
                    "messages[0].tool_calls[0] is number"},
          FaultCase{R"([{"role": "assistant", "tool_calls": [{}]}])",
                    "messages[0].tool_calls[0]: \"function\" is missing"},
          FaultCase{R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": ""}}]}])",
                    "messages[0].tool_calls[0].function: \"name\" is missing"},
          FaultCase{
              R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}])",
              "messages[0].tool_calls[0].function.arguments is object, expected a string"},
          FaultCase{R"([{"role": "system", "tools": {}}])",
                    "messages[0].tools is object, expected a list"},
          FaultCase{R"([{"role": "system", "tools": [{}]}])",
                    "messages[0].tools[0]: expected an object with"},
          FaultCase{R"({"messages": [{"role": "user"}], "tools": [1]})",
                    "tools[0]: expected an object with"},
          FaultCase{
              R"({"messages": [{"role": "user"}, {"role": "system", "tools": [{"function": {}}]}],
                         "tools": [{"function": {}}]})",
              "tools stands both beside the messages and in messages[1]"},
      }) {
    const auto messages = Parse(input);
    ASSERT_FALSE(messages) << input;
    EXPECT_THAT(messages.error().message, HasSubstr(message)) << input;
    EXPECT_EQ(messages.error().code, StatusCode::kInvalidArgument);
  }
}

TEST(Message, ToolsGoToTheFirstSystemMessage) {
  const auto messages = Parse(R"({"tools": [{"function": {"name": "f"}}], "messages": [
      {"role": "user", "content": "u"}, {"role": "system", "content": "s"}, {"role": "system"}]})");
  ASSERT_TRUE(messages) << messages.error().message;
  ASSERT_EQ(messages->size(), 3);
  EXPECT_EQ((*messages)[1].tools.size(), 1);
  EXPECT_TRUE((*messages)[2].tools.empty());
}

TEST(Message, ToolsMakeASystemMessageWhereThereIsNone) {
  const auto messages =
      Parse(R"({"tools": [{"function": {}}], "messages": [{"role": "user", "content": "u"}]})");
  ASSERT_TRUE(messages) << messages.error().message;
  ASSERT_EQ(messages->size(), 2);
  EXPECT_EQ((*messages)[0].role, Role::kSystem);
  EXPECT_EQ((*messages)[0].content, "");
  EXPECT_EQ((*messages)[0].tools.size(), 1);
}

TEST(Message, ToolChoiceNoneLeavesToolsOut) {
  const auto messages = Parse(
      R"({"tools": [{"function": {}}], "tool_choice": "none", "messages": [{"role": "user"}]})");
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ(messages->size(), 1);
}

TEST(Message, TextIsTheResponseFormatThatAsksForNothing) {
  for (const char* format : {R"({"type": "text"})", "null", "{}", "\"\"", "false", "[]", "0"}) {
    const auto messages = Parse(
        fmt::format(R"({{"response_format": {}, "messages": [{{"role": "user"}}]}})", format));
    ASSERT_TRUE(messages) << messages.error().message;
    EXPECT_EQ(messages->size(), 1) << format;
  }
}

TEST(Message, ContentPartsAreJoined) {
  const auto messages = Parse(R"([{"role": "user", "content": [{"type": "text", "text": "a"},
      {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text"}, {"type": "text", "text": "b"}]}])");
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ((*messages)[0].content, "a\n\n[Unsupported image_url]\n\n\n\nb");
}

TEST(Message, ModesAreTwo) {
  EXPECT_EQ(ParseThinkingMode("chat"), ThinkingMode::kChat);
  EXPECT_EQ(ParseThinkingMode("thinking"), ThinkingMode::kThinking);
  const auto mode = ParseThinkingMode("deep");
  ASSERT_FALSE(mode);
  EXPECT_EQ(mode.error().message, "mode \"deep\" is none of thinking, chat");
}

}  // namespace
}  // namespace cachalot
