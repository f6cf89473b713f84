#include "server/anthropic_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/prompt.h"
#include "chat/python_json.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

RequestDefaults Defaults() {
  RequestDefaults defaults;
  defaults.vocab_size = 100;
  return defaults;
}

OrderedJson Parse(std::string_view text) { return ParsePythonJson(text, "body").value(); }

ApiResult<MessagesRequest> Read(std::string_view body) {
  const OrderedJson json = Parse(body);
  return ReadMessagesRequest(JsonFields(json), Defaults());
}

// A body of these members and max_tokens.
ApiResult<MessagesRequest> ReadWith(std::string_view members) {
  return Read(fmt::format(R"({{"model": "m", "max_tokens": 9, {}}})", members));
}

const ChatInput& Chat(const ApiResult<MessagesRequest>& request) {
  return std::get<ChatInput>(request.value().generation.input);
}

std::string Line(const Message& message) {
  std::string line;
  switch (message.role) {
    case Role::kSystem:
      line = "system";
      break;
    case Role::kUser:
      line = "user";
      break;
    case Role::kTool:
      line = "tool " + message.tool_call_id;
      break;
    case Role::kAssistant:
      line = message.omit_end_of_sentence ? "prefix" : "assistant";
      break;
    default:
      line = "?";
  }
  line += ": " + message.content;
  if (!message.reasoning_content.empty()) {
    line += " | thought: " + message.reasoning_content;
  }
  for (const ToolCall& call : message.tool_calls) {
    line += fmt::format(" | {} {}({})", call.id, call.name, call.arguments);
  }
  return line;
}

std::vector<std::string> Lines(const ChatInput& input) {
  std::vector<std::string> lines;
  for (const Message& message : input.messages) {
    lines.push_back(Line(message));
  }
  return lines;
}

struct Case {
  const char* what;
  const char* members;
  std::vector<std::string> lines;
};

TEST(AnthropicRequest, TurnsBlocksIntoMessages) {
  const Case cases[] = {
      {"text", R"("messages": [{"role": "user", "content": "a"}])", {"user: a"}},
      {"no text", R"("messages": [{"role": "user", "content": ""}])", {"user: "}},
      {"no blocks", R"("messages": [{"role": "user", "content": []}])", {"user: "}},
      {"system text",
       R"("system": "s", "messages": [{"role": "user", "content": "a"}])",
       {"system: s", "user: a"}},
      {"empty system text",
       R"("system": "", "messages": [{"role": "user", "content": "a"}])",
       {"user: a"}},
      {"text blocks",
       R"("system": [{"type": "text", "text": "s"}, {"type": "text", "text": "t"}],
          "messages": [{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": ""},
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}])",
       {"system: s\n\nt", "user: a\n\nb"}},
      {"one role twice",
       R"("messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"}, {"role": "assistant", "content": "d"},
            {"role": "user", "content": "e"}])",
       {"user: a\n\nb", "assistant: c\n\nd", "user: e"}},
      {"system messages, first and later",
       R"("system": "s", "messages": [{"role": "system", "content": "t"},
            {"role": "user", "content": "a"}, {"role": "system", "content": "u"}])",
       {"system: s\n\nt", "user: a\n\n<system>\nu\n</system>"}},
      {"thoughts and calls",
       R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "b"},
            {"type": "tool_use", "id": "toolu_1", "name": "f",
             "input": {"z": 1, "a": 123456789012345678901234567890}},
            {"type": "tool_use", "id": "own", "name": "g"}]},
            {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"},
            {"type": "tool_result", "tool_use_id": "own"},
            {"type": "text", "text": "c"}]}])",
       {"user: a",
        "assistant: b | thought: hm | call_1 f({\"z\": 1, \"a\": 123456789012345678901234567890}) "
        "| own g({})",
        "tool call_1: r", "tool own: ", "user: c"}},
      {"results of every kind",
       R"("messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "is_error": true, "content": "none such"},
            {"type": "tool_result", "tool_use_id": "2", "is_error": true, "content": "Error 5"},
            {"type": "tool_result", "tool_use_id": "3", "is_error": false, "content": [
              {"type": "text", "text": "a"},
              {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
              {"type": "tool_reference", "tool_name": "f"},
              {"type": "document", "source": {"type": "text", "data": "d"}, "title": "t"},
              {"type": "document", "source": {"type": "base64", "data": "AAAA"}},
              {"type": "search_result", "title": "T", "source": "S",
               "content": [{"type": "text", "text": "C"}]}]}]}])",
       {"tool 1: Error: none such", "tool 2: Error 5",
        "tool 3: a\n\n[Unsupported image]\n\nf\n\nt\n\nd\n\n[Unsupported "
        "document]\n\nT\n\nS\n\nC"}},
      {"hosted tools of another model",
       R"("messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]},
            {"role": "assistant", "content": [
              {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
              {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
              {"type": "mcp_tool_use", "id": "1"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}])",
       {"user: [Unsupported container_upload]", "assistant: b", "user: c"}},
      {"a plain document",
       R"("messages": [{"role": "user", "content": [
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            {"type": "text", "text": "a"}]}])",
       {"user: d\n\na"}},
      {"an answer begun",
       R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}])",
       {"user: a", "prefix: {"}},
      {"an answer not begun",
       R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"}]}])",
       {"user: a"}},
  };
  for (const auto& [what, members, lines] : cases) {
    const auto request = ReadWith(members);
    ASSERT_TRUE(request) << what << ": " << request.error().message;
    EXPECT_EQ(Lines(Chat(request)), lines) << what;
  }
}

TEST(AnthropicRequest, ContinuesABegunAnswerWithoutThinking) {
  const auto request = ReadWith(
      R"("thinking": {"type": "enabled", "budget_tokens": 2000}, "output_config": {"effort": "max"},
         "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}])");
  EXPECT_EQ(Chat(request).thinking.enabled, false);
  EXPECT_EQ(Chat(request).thinking.effort, "");
  EXPECT_EQ(Chat(request).thinking.budget, std::nullopt);
  PromptOptions options;
  options.thinking_mode = ThinkingMode::kChat;
  const auto prompt = EncodeMessages(Chat(request).messages, options, PlainWording());
  EXPECT_EQ(prompt.value().Text(), "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜></think>{");
}

TEST(AnthropicRequest, ReadsLengthSamplingStopsThinkingAndStream) {
  const auto request = ReadWith(
      R"("messages": [{"role": "user", "content": "a"}], "temperature": 0.5, "top_p": 0.25,
         "top_k": 7, "stop_sequences": ["x", "\n"], "stream": true, "service_tier": "auto",
         "thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "high"},
         "mcp_servers": [{"type": "url"}], "container": "c", "context_management": {"edits": []},
         "inference_geo": "eu", "betas": ["b"], "not_known": {})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->generation.max_new_tokens, 9);
  EXPECT_EQ(request->generation.sampling.temperature, 0.5);
  EXPECT_EQ(request->generation.sampling.top_p, 0.25);
  EXPECT_EQ(request->generation.sampling.top_k, 7);
  EXPECT_THAT(request->generation.stop, ElementsAre("x", "\n"));
  EXPECT_EQ(request->generation.num_choices, 1);
  EXPECT_EQ(request->generation.format.kind, AnswerFormat::Kind::kText);
  EXPECT_EQ(Chat(request).thinking.enabled, true);
  EXPECT_EQ(Chat(request).thinking.effort, "high");
  EXPECT_EQ(Chat(request).thinking.budget, 2048);
}

TEST(AnthropicRequest, LeavesOpenWhatTheClientDoesNotSay) {
  RequestDefaults defaults = Defaults();
  defaults.sampling.temperature = 0.75;
  const OrderedJson body =
      Parse(R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})");
  const auto request = ReadMessagesRequest(JsonFields(body), defaults);
  EXPECT_EQ(request.value().generation.sampling.temperature, 0.75);
  EXPECT_FALSE(request->stream);
  EXPECT_THAT(request->generation.stop, IsEmpty());
  EXPECT_EQ(Chat(request).thinking.enabled, std::nullopt);
  EXPECT_EQ(Chat(request).tools.choice, ToolPolicy::Choice::kAuto);
  EXPECT_TRUE(Chat(request).tools.parallel);
}

constexpr const char* kUser = R"("messages": [{"role": "user", "content": "a"}])";
constexpr const char* kTools =
    R"("tools": [{"name": "f", "input_schema": {"type": "object"}},
                 {"name": "g", "input_schema": {"type": "object"}},
                 {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
                 {"type": "mcp_toolset", "mcp_server_name": "s"}])";

std::vector<std::string> Dumped(const std::vector<OrderedJson>& values) {
  std::vector<std::string> texts;
  for (const OrderedJson& value : values) {
    texts.push_back(DumpPythonJson(value));
  }
  return texts;
}

TEST(AnthropicRequest, DeclaresToolsInTheSystemMessage) {
  const auto request = ReadWith(fmt::format(
      R"({}, "system": "s", "tools": [
           {{"name": "f", "description": "d", "input_schema": {{"type": "object", "b": 1, "a": 2}},
             "cache_control": {{"type": "ephemeral"}}, "defer_loading": true}},
           {{"type": "custom", "name": "g", "input_schema": {{}}, "strict": true}},
           {{"type": "code_execution_20250825", "name": "code_execution"}}])",
      kUser));
  ASSERT_TRUE(request) << request.error().message;
  const Message& system = Chat(request).messages.at(0);
  EXPECT_EQ(Line(system), "system: s");
  EXPECT_THAT(
      Dumped(system.tools),
      ElementsAre(
          R"({"name": "f", "description": "d", "parameters": {"type": "object", "b": 1, "a": 2}})",
          R"({"name": "g", "parameters": {}, "strict": true})"));
}

TEST(AnthropicRequest, KnowsTheParametersOfToolsThatAreDeclaredByType) {
  struct KnownCase {
    const char* tool;
    std::vector<std::string> parameters;
    size_t commands;
  };
  const std::vector<std::string> editor = {"command", "path",    "view_range",  "file_text",
                                           "old_str", "new_str", "insert_line", "insert_text"};
  std::vector<std::string> old_editor = editor;
  old_editor.pop_back();
  std::vector<std::string> memory = editor;
  memory.insert(memory.end(), {"old_path", "new_path"});
  const KnownCase cases[] = {
      {R"({"type": "bash_20250124", "name": "bash"})", {"command", "restart"}, 0},
      {R"({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"})", editor, 4},
      {R"({"type": "text_editor_20250429", "name": "str_replace_based_edit_tool"})", old_editor, 4},
      {R"({"type": "text_editor_20250124", "name": "str_replace_editor"})", old_editor, 5},
      {R"({"type": "memory_20250818", "name": "memory"})", memory, 6},
  };
  for (const auto& [tool, parameters, commands] : cases) {
    const auto request = ReadWith(fmt::format(R"({}, "tools": [{}])", kUser, tool));
    ASSERT_TRUE(request) << tool << ": " << request.error().message;
    const std::vector<OrderedJson>& tools = Chat(request).messages.at(0).tools;
    ASSERT_THAT(tools, SizeIs(1)) << tool;
    EXPECT_EQ(tools[0]["name"], Parse(tool)["name"]);
    const OrderedJson& properties = tools[0]["parameters"]["properties"];
    std::vector<std::string> names;
    for (const auto& [name, schema] : properties.items()) {
      names.push_back(name);
    }
    EXPECT_EQ(names, parameters) << tool;
    EXPECT_EQ(properties["command"].value("enum", OrderedJson::array()).size(), commands) << tool;
  }
}

TEST(AnthropicRequest, LetsTheClientChooseTools) {
  struct ChoiceCase {
    const char* choice;
    ToolPolicy::Choice expected;
    std::vector<std::string> names;
    bool parallel;
    size_t num_tools;
  };
  using Choice = ToolPolicy::Choice;
  const ChoiceCase cases[] = {
      {R"({"type": "auto"})", Choice::kAuto, {}, true, 2},
      {R"({"type": "auto", "disable_parallel_tool_use": true})", Choice::kAuto, {}, false, 2},
      {R"({"type": "any"})", Choice::kRequired, {}, true, 2},
      {R"({"type": "tool", "name": "g"})", Choice::kRequired, {"g"}, true, 2},
      {R"({"type": "none"})", Choice::kNone, {}, true, 0},
  };
  for (const auto& [choice, expected, names, parallel, num_tools] : cases) {
    const auto request =
        ReadWith(fmt::format(R"({}, {}, "tool_choice": {})", kUser, kTools, choice));
    ASSERT_TRUE(request) << choice << ": " << request.error().message;
    EXPECT_EQ(Chat(request).tools.choice, expected) << choice;
    EXPECT_EQ(Chat(request).tools.names, names) << choice;
    EXPECT_EQ(Chat(request).tools.parallel, parallel) << choice;
    EXPECT_THAT(Chat(request).messages.front().tools, SizeIs(num_tools)) << choice;
  }
}

TEST(AnthropicRequest, TakesTheFormatOfTheAnswerFromBothItsPlaces) {
  const char* format = R"({"type": "json_schema", "schema": {"type": "object", "b": 1, "a": 2}})";
  for (const char* member : {R"("output_config": {{"format": {}}})", R"("output_format": {})"}) {
    const auto request =
        ReadWith(fmt::format("{}, {}", kUser, fmt::format(fmt::runtime(member), format)));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->generation.format.kind, AnswerFormat::Kind::kJsonSchema);
    EXPECT_EQ(DumpPythonJson(request->generation.format.schema),
              R"({"type": "object", "b": 1, "a": 2})");
    EXPECT_THAT(Lines(Chat(request)), ElementsAre("system: ", "user: a"));
    EXPECT_EQ(DumpPythonJson(Chat(request).messages[0].response_format.value()), format);
  }
}

TEST(AnthropicRequest, FaultsNameTheField) {
  const std::string user = std::string(kUser) + ", ";
  const std::pair<std::string, const char*> cases[] = {
      {R"("messages": 1)", "messages is 1, expected a list"},
      {R"("system": "s")", "messages: Field required"},
      {R"("messages": [])", "messages is empty, expected at least one message"},
      {R"("messages": [{"role": "system", "content": "s"}])",
       "messages has system text alone, expected a message of the user"},
      {R"("messages": ["a"])", "messages[0] is \"a\", expected an object"},
      {R"("messages": [{"content": "a"}])", "messages[0].role is missing"},
      {R"("messages": [{"role": "tool", "content": "a"}])",
       "messages[0].role is \"tool\", expected user, assistant or system"},
      {R"("messages": [{"role": "user"}])", "messages[0].content: Field required"},
      {R"("messages": [{"role": "user", "content": 5}])",
       "messages[0].content is 5, expected a string or a list of blocks"},
      {R"("messages": [{"role": "user", "content": ["a"]}])",
       "messages[0].content[0] is \"a\", expected an object"},
      {R"("messages": [{"role": "user", "content": [{"text": "a"}]}])",
       "messages[0].content[0].type is missing"},
      {R"("messages": [{"role": "user", "content": [{"type": "text"}]}])",
       "messages[0].content[0].text is missing"},
      {R"("messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}])",
       "messages[0].content[0].type is \"image\", expected text: this model cannot read images"},
      {R"("messages": [{"role": "user", "content": [
           {"type": "image", "source": {"type": "text", "data": "d"}}]}])",
       "messages[0].content[0].type is \"image\", expected text"},
      {R"("messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url"}}]}])",
       "messages[0].content[0].type is \"document\", expected text"},
      {R"("messages": [{"role": "user", "content": [{"type": "tool_result"}]}])",
       "messages[0].content[0].tool_use_id is missing"},
      {R"("messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
           "content": [{"type": "text", "text": 1}]}]}])",
       "messages[0].content[0].content[0].text is 1, expected a string"},
      {R"("messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f",
           "input": "x"}]}])",
       "messages[0].content[0].input is \"x\", expected an object"},
      {user + R"("system": 1)", "system is 1, expected a string or a list of blocks"},
      {user + R"("tools": {})", "tools is {}, expected a list"},
      {user + R"("tools": [1])", "tools[0] is 1, expected an object"},
      {user + R"("tools": [{"name": "f"}])", "tools[0].input_schema is missing"},
      {user + R"("tools": [{"input_schema": {}}])", "tools[0].name is missing"},
      {user + R"("tools": [{"type": "computer_20250124", "name": "computer"}])",
       "tools[0].type is \"computer_20250124\", expected a tool that works without images"},
      {user + R"("tool_choice": {"type": "any"})",
       "tool_choice.type is \"any\", expected tools beside it that the client runs"},
      {user + kTools + R"(, "tool_choice": {"type": "tool", "name": "h"})",
       "tool_choice.name is \"h\", expected the name of one of the tools"},
      {user + kTools + R"(, "tool_choice": {"type": "tool", "name": "web_search"})",
       "tool_choice.name is \"web_search\", expected a tool that the client runs"},
      {user + kTools + R"(, "tool_choice": {"type": "every"})",
       "tool_choice.type is \"every\", expected auto, any, tool or none"},
      {user + R"("output_config": {"format": {"type": "xml"}})",
       "output_config.format.type is \"xml\", expected json_schema"},
      {user + R"("output_format": {"type": "json_schema"})",
       "output_format.schema: Field required"},
      {R"("output_format": {"type": "json_schema", "schema": {}},
          "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}])",
       "messages ends with one of the assistant"},
      {user + R"("stop_sequences": [""])", "stop_sequences is \"\", expected a string"},
      {user + R"("stream": "yes")", "stream is \"yes\", expected true or false"},
      {user + R"("thinking": {"type": "on"})", "thinking.type is \"on\""},
      {user + R"("top_k": 1.5)", "top_k is 1.5"},
  };
  for (const auto& [members, message] : cases) {
    const auto request = ReadWith(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().status, 400);
    EXPECT_THAT(request.error().message, HasSubstr(message));
  }
}

TEST(AnthropicRequest, NeedsALengthForAnAnswerAndNoneForACount) {
  const OrderedJson body = Parse(R"({"messages": [{"role": "user", "content": "a"}]})");
  const auto request = ReadMessagesRequest(JsonFields(body), Defaults());
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().message, "max_tokens: Field required");
  EXPECT_EQ(request.error().param, "max_tokens");
  const auto prompt = ReadAnthropicPrompt(JsonFields(body));
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_THAT(Lines(std::get<ChatInput>(prompt->input)), ElementsAre("user: a"));
  EXPECT_THAT(ReadWith(R"("messages": [], "max_tokens": 0)").error().message,
              HasSubstr("messages is empty"));
  EXPECT_THAT(
      Read(R"({"max_tokens": 0, "messages": [{"role": "user", "content": "a"}]})").error().message,
      HasSubstr("max_tokens is 0, expected an integer of 1 or more"));
}

TEST(AnthropicRequest, RefusesThreadsByTheCodeThatClientsKnow) {
  const auto request = ReadWith(fmt::format(R"({}, "thread": {{"type": "create"}})", kUser));
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().status, 400);
  EXPECT_EQ(request.error().code, kNoThreads);
}

TEST(AnthropicRequest, RepeatsLittleOfWhatItRefuses) {
  const std::string huge(100000, 'x');
  for (const std::string& members :
       {fmt::format(R"("messages": [{{"role": "{}", "content": "a"}}])", huge),
        fmt::format(R"("messages": ["{}"])", huge),
        fmt::format(R"({}, {}, "tool_choice": {{"type": "tool", "name": "{}"}})", kUser, kTools,
                    huge)}) {
    EXPECT_LT(ReadWith(members).error().message.size(), 400u);
  }
  const auto request = ReadWith(
      fmt::format(R"("messages": [{{"role": "user", "content": [{{"type": "{}"}}]}}])", huge));
  EXPECT_LT(Chat(request).messages.at(0).content.size(), 200u);
}

// What Claude Code sends, by the API's reference: system text in cached blocks with its billing note
// first, tools with whole schemas, the latest turns with results.
constexpr const char* kClaudeCode = R"({
  "model": "claude-haiku-4-5-20251001", "max_tokens": 32000, "stream": true, "temperature": 1,
  "system": [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.9.1a2; cch=5c30d;"},
    {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
  "tools": [
    {"name": "Read", "description": "Reads a file.", "input_schema": {
       "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
       "properties": {"file_path": {"type": "string"}, "limit": {"type": "number"}},
       "required": ["file_path"], "additionalProperties": false}},
    {"name": "Bash", "description": "Runs a command.", "input_schema": {
       "type": "object", "properties": {"command": {"type": "string"}}},
     "cache_control": {"type": "ephemeral"}}],
  "messages": [
    {"role": "user", "content": [
      {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>\n"},
      {"type": "text", "text": "Fix it.", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "Look first.", "signature": "Y2FjaGFsb3Q="},
      {"type": "text", "text": "I read the file."},
      {"type": "tool_use", "id": "toolu_0a", "name": "Read", "input": {"file_path": "/a b"}},
      {"type": "tool_use", "id": "toolu_0b", "name": "Bash", "input": {"command": "ls"}}]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "toolu_0a", "is_error": true,
       "content": "<tool_use_error>File does not exist.</tool_use_error>"},
      {"type": "tool_result", "tool_use_id": "toolu_0b", "is_error": false,
       "content": [{"type": "text", "text": "a.c"}], "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "<system-reminder>\nNo todos.\n</system-reminder>\n"}]}],
  "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
  "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
  "metadata": {"user_id": "user_1_account__session_2"}})";

TEST(AnthropicRequest, ReadsATurnOfClaudeCode) {
  const auto request = Read(kClaudeCode);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->generation.max_new_tokens, 32000);
  const ChatInput& chat = Chat(request);
  EXPECT_THAT(
      Lines(chat),
      ElementsAre("system: You are an agent.\n\nBe brief.",
                  "user: <system-reminder>\nToday is Monday.\n</system-reminder>\n\n\nFix it.",
                  "assistant: I read the file. | thought: Look first. "
                  "| call_0a Read({\"file_path\": \"/a b\"}) | call_0b Bash({\"command\": \"ls\"})",
                  "tool call_0a: Error: <tool_use_error>File does not exist.</tool_use_error>",
                  "tool call_0b: a.c", "user: <system-reminder>\nNo todos.\n</system-reminder>\n"));
  EXPECT_EQ(DumpPythonJson(chat.messages[0].tools.at(0)["parameters"]["required"]),
            R"(["file_path"])");
  EXPECT_EQ(chat.thinking.enabled, true);
  EXPECT_EQ(chat.thinking.effort, "medium");
}

TEST(AnthropicRequest, CountsTheSamePromptThatItRuns) {
  OrderedJson body = Parse(kClaudeCode);
  const auto request = ReadMessagesRequest(JsonFields(body), Defaults());
  for (const char* unknown_to_counts : {"max_tokens", "stream", "temperature", "metadata"}) {
    body.erase(unknown_to_counts);
  }
  const auto prompt = ReadAnthropicPrompt(JsonFields(body));
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(Lines(std::get<ChatInput>(prompt->input)), Lines(Chat(request)));
}

// Each value of a body in depth-first order, itself included.
void Collect(OrderedJson& value, std::vector<OrderedJson*>* all) {
  all->push_back(&value);
  if (value.is_structured()) {
    for (OrderedJson& inner : value) {
      Collect(inner, all);
    }
  }
}

TEST(AnthropicRequest, AnswersAnyValueInAnyPlaceWithARequestOrAnError) {
  OrderedJson body = Parse(kClaudeCode);
  const char* const values[] = {"null",
                                "true",
                                "-1",
                                "0.5",
                                "\"text\"",
                                "\"none\"",
                                "[]",
                                "{}",
                                "[[]]",
                                R"([{"type": "text"}])",
                                R"({"type": "tool", "name": "Bash"})"};
  std::vector<OrderedJson*> places;
  Collect(body, &places);
  int64_t refused = 0;
  for (size_t place = 1; place < places.size(); ++place) {
    for (const char* value : values) {
      OrderedJson changed = body;
      std::vector<OrderedJson*> changed_places;
      Collect(changed, &changed_places);
      *changed_places[place] = Parse(value);
      const auto request = ReadMessagesRequest(JsonFields(changed), Defaults());
      if (!request) {
        ++refused;
        EXPECT_EQ(request.error().status, 400);
        EXPECT_THAT(request.error().message, Not(IsEmpty()));
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(AnthropicRequest, MapsTheIdsOfCallsBothWays) {
  EXPECT_EQ(ToolUseIdOfCall("call_0f"), "toolu_0f");
  EXPECT_EQ(CallIdOfToolUse("toolu_0f"), "call_0f");
  EXPECT_EQ(CallIdOfToolUse("call_0f"), "call_0f");
  EXPECT_EQ(CallIdOfToolUse("own"), "own");
}

}  // namespace
}  // namespace cachalot
