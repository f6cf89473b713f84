#include "chat/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/python_json.h"
#include "chat/test_wording.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kBegin = "<｜begin▁of▁sentence｜>";

std::vector<Message> Messages(const std::string& text) {
  return ParseChatInput(ParsePythonJson(text, "input").value()).value();
}

PromptOptions Mode(ThinkingMode mode) {
  PromptOptions options;
  options.thinking_mode = mode;
  return options;
}

Prompt Encode(const std::string& text, const PromptOptions& options) {
  return EncodeMessages(Messages(text), options, TestWording()).value();
}

// Without the begin mark, which its own test covers; ⓣ-style shorthands would hide the bytes, so
// none are used.
std::string Chat(const std::string& text) {
  return Encode(text, Mode(ThinkingMode::kChat)).Text().substr(std::string(kBegin).size());
}
std::string Thinking(const std::string& text) {
  return Encode(text, Mode(ThinkingMode::kThinking)).Text().substr(std::string(kBegin).size());
}

TEST(Prompt, RolesReadAsPublished) {
  EXPECT_EQ(Chat(R"([{"role": "system", "content": "s"}])"), "s");
  EXPECT_EQ(Chat(R"([{"role": "user", "content": "u"}])"), "<｜User｜>u<｜Assistant｜></think>");
  EXPECT_EQ(Thinking(R"([{"role": "user", "content": "u"}])"), "<｜User｜>u<｜Assistant｜><think>");
  EXPECT_EQ(Thinking(R"([{"role": "developer", "content": "d"}])"),
            "<｜User｜>d<｜Assistant｜><think>");
  EXPECT_EQ(
      Chat(R"([{"role": "latest_reminder", "content": "r"}, {"role": "user", "content": "u"}])"),
      "<｜latest_reminder｜>r<｜User｜>u<｜Assistant｜></think>");
  EXPECT_EQ(Chat(R"([{"role": "tool", "content": "t"}])"),
            "<｜User｜><tool_result>t</tool_result><｜Assistant｜></think>");
  EXPECT_EQ(Chat(R"([{"role": "assistant", "content": "a", "wo_eos": true}])"), "a");
}

TEST(Prompt, UserMessagesInARowBecomeOne) {
  EXPECT_EQ(Chat(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])"),
            "<｜User｜>a\n\nb<｜Assistant｜></think>");
}

TEST(Prompt, AnAssistantBeforeAnyUserFollowsTheSystemText) {
  EXPECT_EQ(Chat(R"([{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}])"),
            "sa<｜end▁of▁sentence｜>");
  EXPECT_EQ(Thinking(R"([{"role": "assistant", "content": "a", "reasoning_content": "r"}])"),
            "r</think>a<｜end▁of▁sentence｜>");
}

constexpr const char* kTwoTurns = R"([
    {"role": "developer", "content": "d"},
    {"role": "user", "content": "1"}, {"role": "assistant", "reasoning_content": "r1", "content": "a1"},
    {"role": "user", "content": "2"}, {"role": "assistant", "reasoning_content": "r2", "content": "a2"}])";

TEST(Prompt, DropsEarlierThinkingAndDeveloperMessages) {
  EXPECT_EQ(Thinking(kTwoTurns),
            "<｜User｜>1<｜Assistant｜></think>a1<｜end▁of▁sentence｜>"
            "<｜User｜>2<｜Assistant｜><think>r2</think>a2<｜end▁of▁sentence｜>");
}

TEST(Prompt, KeepsEarlierThinkingWhereAsked) {
  PromptOptions options = Mode(ThinkingMode::kThinking);
  options.drop_thinking = false;
  EXPECT_EQ(Encode(kTwoTurns, options).Text(),
            "<｜begin▁of▁sentence｜><｜User｜>d<｜User｜>1<｜Assistant｜><think>r1</"
            "think>a1<｜end▁of▁sentence｜>"
            "<｜User｜>2<｜Assistant｜><think>r2</think>a2<｜end▁of▁sentence｜>");
}

TEST(Prompt, ChatModeDropsNoMessage) {
  EXPECT_EQ(Chat(kTwoTurns),
            "<｜User｜>d<｜User｜>1<｜Assistant｜></think>a1<｜end▁of▁sentence｜>"
            "<｜User｜>2<｜Assistant｜></think>a2<｜end▁of▁sentence｜>");
}

TEST(Prompt, DeclaredToolsKeepEarlierThinking) {
  EXPECT_EQ(
      Thinking(
          R"({"tools": [{"type": "function", "function": {"name": "f", "strict": true, "n": 1.10}},
                                   {"type": "function", "function": {"big": 123456789012345678901234567890}}],
      "messages": [{"role": "user", "content": "1"},
                   {"role": "assistant", "reasoning_content": "r1", "content": "a1"}, {"role": "user", "content": "2"}]})"),
      "\n\n## Tools\nUse <｜DSML｜tool_calls>.\n{\"name\": \"f\", \"strict\": true, \"n\": 1.1}\n"
      "{\"big\": 123456789012345678901234567890}\nThat is all.\n"
      "<｜User｜>1<｜Assistant｜><think>r1</"
      "think>a1<｜end▁of▁sentence｜><｜User｜>2<｜Assistant｜><think>");
}

TEST(Prompt, ToolsOfAUserMessageAreLost) {
  EXPECT_EQ(
      Thinking(
          R"([{"role": "user", "content": "u", "tools": [{"function": {}}], "response_format": {"a": 1}}])"),
      "<｜User｜>u<｜Assistant｜><think>");
}

TEST(Prompt, AToolResultCountsAsAUserMessage) {
  EXPECT_EQ(Thinking(R"([{"role": "user", "content": "u"},
      {"role": "assistant", "reasoning_content": "r", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "content": "t"}])"),
            "<｜User｜>u<｜Assistant｜></think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke "
            "name=\"f\">\n\n</｜DSML｜invoke>\n"
            "</｜DSML｜tool_calls><｜end▁of▁sentence｜><｜User｜><tool_result>t</"
            "tool_result><｜Assistant｜><think>");
}

TEST(Prompt, SystemAndDeveloperCarryToolsThenFormat) {
  const char* rest =
      "\n\n## Tools\nUse <｜DSML｜tool_calls>.\n{}\nThat is all.\n\n\n## Format\n{\"a\": [1, 2.0]}";
  const char* fields = R"("tools": [{"function": {}}], "response_format": {"a": [1, 2.0]})";
  EXPECT_EQ(Chat(fmt::format(R"([{{"role": "system", "content": "s", {}}}])", fields)),
            fmt::format("s{}", rest));
  EXPECT_EQ(Chat(fmt::format(R"([{{"role": "developer", "content": "d", {}}}])", fields)),
            fmt::format("<｜User｜>d{}<｜Assistant｜></think>", rest));
}

struct ArgumentsCase {
  const char* arguments;  // inside a JSON string
  const char* parameters;
};

TEST(Prompt, ArgumentsBecomeParameters) {
  for (const auto& [arguments, parameters] : {
           ArgumentsCase{
               R"({\"a\": \"x\\ny\\\"<\", \"b\": 1.10})",
               "<｜DSML｜parameter name=\"a\" string=\"true\">x\ny\"<</｜DSML｜parameter>\n"
               "<｜DSML｜parameter name=\"b\" string=\"false\">1.1</｜DSML｜parameter>"},
           ArgumentsCase{
               R"({\"a\": {\"k\":[1,null]}, \"a2\": true})",
               "<｜DSML｜parameter name=\"a\" string=\"false\">{\"k\": [1, "
               "null]}</｜DSML｜parameter>\n"
               "<｜DSML｜parameter name=\"a2\" string=\"false\">true</｜DSML｜parameter>"},
           ArgumentsCase{R"({\"a\": 1, \"b\": 2, \"a\": 123456789012345678901})",
                         "<｜DSML｜parameter name=\"a\" "
                         "string=\"false\">123456789012345678901</｜DSML｜parameter>\n"
                         "<｜DSML｜parameter name=\"b\" string=\"false\">2</｜DSML｜parameter>"},
           ArgumentsCase{
               "", "<｜DSML｜parameter name=\"arguments\" string=\"true\"></｜DSML｜parameter>"},
           ArgumentsCase{
               "{x}",
               "<｜DSML｜parameter name=\"arguments\" string=\"true\">{x}</｜DSML｜parameter>"},
           ArgumentsCase{
               "[1]",
               "<｜DSML｜parameter name=\"arguments\" string=\"true\">[1]</｜DSML｜parameter>"},
           ArgumentsCase{"{}", ""},
       }) {
    EXPECT_EQ(Chat(fmt::format(R"([{{"role": "assistant", "content": "c", "tool_calls": [
                  {{"function": {{"name": "f", "arguments": "{}"}}}}]}}])",
                               arguments)),
              fmt::format(
                  "c\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n{}\n</｜DSML｜invoke>\n"
                  "</｜DSML｜tool_calls><｜end▁of▁sentence｜>",
                  parameters))
        << arguments;
  }
}

TEST(Prompt, SeveralCallsStandLineByLine) {
  EXPECT_EQ(
      Chat(
          R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}},
                                                           {"function": {"name": "g", "arguments": "{}"}}]}])"),
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
      "<｜DSML｜parameter name=\"a\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
      "<｜DSML｜invoke "
      "name=\"g\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>");
}

// Three calls a, b, c; the results and texts that follow, and how they come out.
std::string Results(const std::string& messages) {
  const std::string prompt = Chat(R"([{"role": "assistant", "tool_calls": [
      {"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "f", "arguments": "{}"}},
      {"function": {"id": "c", "name": "f", "arguments": "{}"}}]}, )" +
                                  messages + "]");
  const size_t begin = prompt.find("<｜User｜>") + std::string("<｜User｜>").size();
  return prompt.substr(begin, prompt.rfind("<｜Assistant｜>") - begin);
}

std::string Tool(const std::string& id, const std::string& text) {
  return fmt::format(R"({{"role": "tool", "tool_call_id": "{}", "content": "{}"}})", id, text);
}

TEST(Prompt, ToolResultsComeInTheOrderOfTheCalls) {
  EXPECT_EQ(Results(Tool("c", "3") + "," + Tool("a", "1") + "," + Tool("b", "2")),
            "<tool_result>1</tool_result>\n\n<tool_result>2</tool_result>\n\n<tool_result>3</"
            "tool_result>");
  EXPECT_EQ(Results(Tool("b", "2") + R"(, {"role": "user", "content": "u"}, )" + Tool("a", "1")),
            "<tool_result>1</tool_result>\n\nu\n\n<tool_result>2</tool_result>");
  EXPECT_EQ(Results(Tool("b", "2") + "," + Tool("x", "0") + "," + Tool("a", "1")),
            "<tool_result>0</tool_result>\n\n<tool_result>1</tool_result>\n\n<tool_result>2</"
            "tool_result>");
}

TEST(Prompt, ATaskClosesAUserMessageToTextAlone) {
  EXPECT_EQ(
      Chat(R"([{"role": "user", "content": "a", "task": "query"}, {"role": "tool", "content": "t"},
                     {"role": "user", "content": "b"}])"),
      "<｜User｜>a\n\n<tool_result>t</tool_result><｜User｜>b<｜Assistant｜></think>");
}

TEST(Prompt, TasksHaveTheirTokens) {
  for (const char* task : {"query", "authority", "domain", "title", "read_url"}) {
    EXPECT_EQ(Thinking(fmt::format(R"([{{"role": "user", "content": "u", "task": "{}"}},
                                       {{"role": "assistant", "content": "a", "reasoning_content": "r"}}])",
                                   task)),
              fmt::format("<｜User｜>u<｜{}｜>a<｜end▁of▁sentence｜>", task));
  }
  EXPECT_EQ(Thinking(R"([{"role": "user", "content": "u", "task": "action"}])"),
            "<｜User｜>u<｜Assistant｜><think><｜action｜>");
  EXPECT_EQ(Chat(R"([{"role": "user", "content": "u", "task": "action"}])"),
            "<｜User｜>u<｜Assistant｜></think><｜action｜>");
  EXPECT_EQ(Chat(R"([{"role": "assistant", "content": "a", "task": "title"}])"),
            "a<｜end▁of▁sentence｜><｜title｜>");
}

TEST(Prompt, EffortStandsInFrontOfAThinkingPrompt) {
  PromptOptions options = Mode(ThinkingMode::kThinking);
  const std::string text =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])";
  options.reasoning_effort = "high";
  EXPECT_EQ(Encode(text, options).Text(),
            "<｜begin▁of▁sentence｜>Think hard.\n\ns<｜User｜>u<｜Assistant｜><think>");
  options.reasoning_effort = "low";
  EXPECT_EQ(Encode(text, options).Text(),
            "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜><think>");
  options.reasoning_effort = "high";
  options.thinking_mode = ThinkingMode::kChat;
  EXPECT_EQ(Encode(text, options).Text(),
            "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜></think>");
  options.reasoning_effort = "huge";
  const auto prompt = EncodeMessages(Messages(text), options, TestWording());
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().message,
            "reasoning effort \"huge\" is unknown: test wording has the levels high, low, max");
}

TEST(Prompt, ContextIsNotRenderedAgain) {
  PromptOptions options = Mode(ThinkingMode::kThinking);
  options.context =
      Messages(R"([{"role": "developer", "content": "d"}, {"role": "user", "content": "1"},
      {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}},
                                           {"id": "b", "function": {"name": "f", "arguments": "{}"}}]}])");
  options.reasoning_effort = "high";
  EXPECT_EQ(Encode("[" + Tool("b", "2") + "," + Tool("a", "1") + "]", options).Text(),
            "<｜User｜><tool_result>1</tool_result>\n\n<tool_result>2</"
            "tool_result><｜Assistant｜><think>");
  options.context = Messages(
      R"([{"role": "system", "tools": [{"function": {}}]}, {"role": "user", "content": "1"}])");
  EXPECT_EQ(
      Encode(
          R"([{"role": "assistant", "reasoning_content": "r", "content": "a"}, {"role": "user", "content": "2"}])",
          options)
          .Text(),
      "r</think>a<｜end▁of▁sentence｜><｜User｜>2<｜Assistant｜><think>");
}

TEST(Prompt, BeginMarkCanBeLeftOut) {
  PromptOptions options = Mode(ThinkingMode::kChat);
  options.add_begin_of_sentence = false;
  EXPECT_EQ(Encode(R"([{"role": "user", "content": "u"}])", options).Text(),
            "<｜User｜>u<｜Assistant｜></think>");
}

TEST(Prompt, OnlyItsOwnMarksAreTrusted) {
  const Prompt prompt = Encode(
      R"([{"role": "system", "content": "s<｜User｜>", "tools": [{"function": {"a": "</think>"}}]},
      {"role": "user", "content": "<think>"}, {"role": "assistant", "content": "x", "tool_calls": [
          {"function": {"name": "｜DSML｜", "arguments": "{}"}}]}])",
      Mode(ThinkingMode::kChat));
  const auto text = [](const char* t) { return PromptSegment{t, false}; };
  const auto marks = [](const char* t) { return PromptSegment{t, true}; };
  EXPECT_THAT(
      prompt.segments(),
      ElementsAre(marks(kBegin), text("s<｜User｜>\n\n## Tools\nUse <"), marks("｜DSML｜"),
                  text("tool_calls>.\n{\"a\": \"</think>\"}\nThat is all.\n"), marks("<｜User｜>"),
                  text("<think>"), marks("<｜Assistant｜></think>"), text("x\n\n<"),
                  marks("｜DSML｜"), text("tool_calls>\n<"), marks("｜DSML｜"),
                  text("invoke name=\"｜DSML｜\">\n\n</"), marks("｜DSML｜"), text("invoke>\n</"),
                  marks("｜DSML｜"), text("tool_calls>"), marks("<｜end▁of▁sentence｜>")));
}

TEST(Prompt, MarksInAnEffortPrefixAreMeant) {
  PromptOptions options = Mode(ThinkingMode::kThinking);
  options.reasoning_effort = "max";
  const Prompt prompt = Encode(R"([{"role": "system", "content": "s"}])", options);
  EXPECT_THAT(prompt.segments(),
              ElementsAre(PromptSegment{kBegin, true}, PromptSegment{"Think ", false},
                          PromptSegment{"<think>", true}, PromptSegment{"harder.\n\ns", false}));
}

TEST(Prompt, TemplateTextIsCutAtWholeTokensOnly) {
  Prompt prompt;
  prompt.AddTemplateText("<｜a b｜> <｜open <｜tool▁sep｜>｜DSML｜</think>");
  EXPECT_THAT(prompt.segments(),
              ElementsAre(PromptSegment{"<｜a b｜> <｜open ", false},
                          PromptSegment{"<｜tool▁sep｜>｜DSML｜</think>", true}));
}

}  // namespace
}  // namespace cachalot
