#include "server/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/python_json.h"
#include "server/responses_input.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OrderedJson Parse(const std::string& text) {
  auto json = ParsePythonJson(text, "body");
  EXPECT_TRUE(json) << text;
  return *json;
}

Result<ResponsesRequest> TryRead(const OrderedJson& body) {
  RequestDefaults defaults;
  defaults.vocab_size = 1000;
  return ReadResponsesRequest(JsonFields(body), defaults);
}

ResponsesRequest Read(const std::string& body) {
  auto request = TryRead(Parse(body));
  EXPECT_TRUE(request) << request.error().message;
  return *std::move(request);
}

const ChatInput& ChatOf(const ResponsesRequest& request) {
  return std::get<ChatInput>(request.generation.input);
}

// {"role", "content", "reasoning_content", "tool_calls", "tool_call_id"}, empty ones left out.
OrderedJson Shown(const std::vector<Message>& messages) {
  OrderedJson list = OrderedJson::array();
  for (const Message& message : messages) {
    static constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
    OrderedJson json = {{"role", kRoles[static_cast<size_t>(message.role)]}};
    const std::pair<const char*, const std::string*> texts[] = {
        {"content", &message.content},
        {"reasoning_content", &message.reasoning_content},
        {"tool_call_id", &message.tool_call_id}};
    for (const auto& [name, text] : texts) {
      if (!text->empty()) {
        json[name] = *text;
      }
    }
    for (const ToolCall& call : message.tool_calls) {
      json["tool_calls"].push_back(OrderedJson::array({call.id, call.name, call.arguments}));
    }
    list.push_back(std::move(json));
  }
  return list;
}

OrderedJson MessagesOf(const std::string& input) {
  return Shown(ChatOf(Read("{\"input\": " + input + "}")).messages);
}

// What Codex sends in the midst of a task, by the API's public documents: `name` quoted.
constexpr const char* kCodex = R"({
  "model": "whale", "instructions": "You are a coding agent.",
  "input": [
    {"type": "message", "role": "developer",
     "content": [{"type": "input_text", "text": "Sandbox: read-only."}]},
    {"type": "message", "role": "user", "content": [
      {"type": "input_text", "text": "# AGENTS.md"},
      {"type": "input_text", "text": "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}],
     "encrypted_content": "SEALED"},
    {"type": "message", "role": "assistant", "id": "msg_1", "phase": "commentary",
     "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "name": "shell", "call_id": "call_1",
     "arguments": "{\"command\": [\"ls\"]}"},
    {"type": "function_call", "name": "update_plan", "call_id": "call_2", "arguments": "{}"},
    {"type": "web_search_call", "status": "completed", "action": {"type": "search"}},
    {"type": "function_call_output", "call_id": "call_1", "output": "a.c"},
    {"type": "function_call_output", "call_id": "call_2", "output": [
      {"type": "input_text", "text": "Plan"}, {"type": "input_text", "text": "updated"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABfremd"},
    {"type": "custom_tool_call", "status": "completed", "call_id": "call_3",
     "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch"},
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Done!"},
    {"type": "local_shell_call", "call_id": "call_4", "status": "completed", "action":
     {"type": "exec", "command": ["make"], "timeout_ms": 9, "env": {}, "user": null}},
    {"type": "function_call_output", "call_id": "call_4", "output": "ok"}],
  "tools": [
    {"type": "function", "name": "shell", "description": "Runs a command.", "strict": false,
     "parameters": {"type": "object", "properties": {"command": {"type": "array",
       "items": {"type": "string"}}}, "required": ["command"], "additionalProperties": false}},
    {"type": "function", "name": "update_plan", "parameters": {"type": "object"}},
    {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format":
     {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}},
    {"type": "local_shell"},
    {"type": "namespace", "name": "mcp__docs", "description": "Docs.", "tools": [
      {"type": "function", "name": "find", "strict": false, "parameters": {"type": "object"}}]},
    {"type": "web_search", "external_web_access": false},
    {"type": "image_generation", "output_format": "png"}],
  "tool_choice": "auto", "parallel_tool_calls": false,
  "reasoning": {"effort": "high", "summary": "auto"}, "store": false, "stream": true,
  "include": ["reasoning.encrypted_content"], "service_tier": "priority",
  "prompt_cache_key": "0199", "text": {"verbosity": "low"},
  "client_metadata": {"x-codex-installation-id": "7"}})";

std::string Codex() {
  std::string body = kCodex;
  const std::string_view mark = "SEALED";
  return body.replace(body.find(mark), mark.size(), SealReasoning("Look first."));
}

TEST(ResponsesRequest, MakesMessagesOfACodexConversation) {
  EXPECT_EQ(DumpPythonJson(Shown(ChatOf(Read(Codex())).messages)), DumpPythonJson(Parse(R"([
    {"role": "system", "content": "You are a coding agent.\n\nSandbox: read-only."},
    {"role": "user", "content":
     "# AGENTS.md\n\n<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"},
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": "I look.", "reasoning_content": "Look first.", "tool_calls":
     [["call_1", "shell", "{\"command\": [\"ls\"]}"], ["call_2", "update_plan", "{}"]]},
    {"role": "tool", "content": "a.c", "tool_call_id": "call_1"},
    {"role": "tool", "content": "Plan\n\nupdated", "tool_call_id": "call_2"},
    {"role": "assistant", "tool_calls": [["call_3", "apply_patch",
      "{\"input\": \"*** Begin Patch\\n*** End Patch\"}"]]},
    {"role": "tool", "content": "Done!", "tool_call_id": "call_3"},
    {"role": "assistant", "tool_calls": [["call_4", "local_shell",
      "{\"command\": [\"make\"], \"timeout_ms\": 9}"]]},
    {"role": "tool", "content": "ok", "tool_call_id": "call_4"}])")));
}

TEST(ResponsesRequest, DeclaresCodexsToolsAsFunctionsAndPassesHostedOnesOver) {
  const ResponsesRequest request = Read(Codex());
  const std::vector<OrderedJson>& tools = ChatOf(request).messages[0].tools;
  std::vector<std::string> names;
  for (const OrderedJson& tool : tools) {
    names.push_back(tool["name"]);
  }
  ASSERT_THAT(names,
              ElementsAre("shell", "update_plan", "apply_patch", "local_shell", "mcp__docs.find"));
  EXPECT_EQ(DumpPythonJson(tools[0]),
            R"({"name": "shell", "description": "Runs a command.", "parameters": )"
            R"({"type": "object", "properties": {"command": {"type": "array", )"
            R"("items": {"type": "string"}}}, "required": ["command"], )"
            R"("additionalProperties": false}})");
  EXPECT_EQ(tools[2]["description"],
            "Edits files.\n\nThe input must follow this lark grammar:\n"
            "start: \"*** Begin Patch\"");
  EXPECT_EQ(tools[2]["parameters"]["required"], Parse(R"(["input"])"));
  EXPECT_EQ(request.tools.at("apply_patch").kind, ResponsesTool::Kind::kCustom);
  EXPECT_EQ(request.tools.at("local_shell").kind, ResponsesTool::Kind::kLocalShell);
  EXPECT_EQ(request.tools.at("mcp__docs.find").name, "find");
  EXPECT_EQ(request.tools.at("mcp__docs.find").name_space, "mcp__docs");
}

TEST(ResponsesRequest, TakesCodexsSettings) {
  const ResponsesRequest request = Read(Codex());
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.shows_summary);
  EXPECT_TRUE(request.seals_reasoning);
  EXPECT_FALSE(ChatOf(request).tools.parallel);
  EXPECT_EQ(ChatOf(request).thinking.enabled, true);
  EXPECT_EQ(ChatOf(request).thinking.effort, "high");
  EXPECT_EQ(request.settings["reasoning"], Parse(R"({"effort": "high", "summary": "auto"})"));
  EXPECT_EQ(request.settings["text"], Parse(R"({"format": {"type": "text"}, "verbosity": "low"})"));
  EXPECT_EQ(request.settings["tools"].size(), 7);
  EXPECT_EQ(request.settings["service_tier"], "priority");
  EXPECT_EQ(request.settings["store"], false);
}

TEST(ResponsesInput, IsAStringOrItemsWithOrWithoutAType) {
  EXPECT_EQ(MessagesOf(R"("hi")"), Parse(R"([{"role": "user", "content": "hi"}])"));
  EXPECT_EQ(MessagesOf(R"([{"role": "user", "content": "a"},
                           {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
                           {"role": "user", "content": [{"type": "text", "text": "b"}]}])"),
            Parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "no"},
                      {"role": "user", "content": "b"}])"));
}

TEST(ResponsesInput, ReadsSystemTextAsTheUsersWhereThePromptHasNoOtherPlace) {
  EXPECT_EQ(
      MessagesOf(R"([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
                           {"role": "user", "content": "c"}, {"role": "developer", "content": "d"}])"),
      Parse(R"([{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "c"},
                      {"role": "user", "content": "d"}])"));
  EXPECT_EQ(
      MessagesOf(R"([{"role": "system", "content": "a"}, {"role": "system", "content": "b"}])"),
      Parse(R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])"));
}

TEST(ResponsesInput, JoinsWhatTheAssistantSaidInOneTurn) {
  EXPECT_EQ(MessagesOf(R"([{"role": "user", "content": "q"},
                           {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "r"}],
                            "summary": [{"type": "summary_text", "text": "s"}]},
                           {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"},
                           {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
                           {"type": "function_call", "call_id": "c", "namespace": "n", "name": "f",
                            "arguments": "{}"}])"),
            Parse(R"([{"role": "user", "content": "q"},
                      {"role": "assistant", "content": "a\n\nb", "reasoning_content": "r\n\ns",
                       "tool_calls": [["c", "n.f", "{}"]]}])"));
}

TEST(ResponsesInput, NamesThePictureThatAToolBrought) {
  EXPECT_EQ(MessagesOf(R"([{"role": "user", "content": "a"},
                           {"type": "function_call_output", "call_id": "c", "output":
                            [{"type": "input_text", "text": "b"}, {"type": "input_image"}]}])"),
            Parse(R"([{"role": "user", "content": "a"},
                      {"role": "tool", "content": "b\n\n[Unsupported input_image]",
                       "tool_call_id": "c"}])"));
}

TEST(ResponsesInput, TakesToolsThatItemsBring) {
  const ResponsesRequest request = Read(
      R"({"input": [{"type": "additional_tools", "role": "developer", "tools":
                     [{"type": "function", "name": "late"}, {"type": "function", "name": "f"}]},
                    {"role": "user", "content": "hi"}],
          "tools": [{"type": "custom", "name": "f"}]})");
  ASSERT_EQ(ChatOf(request).messages[0].tools.size(), 2);
  EXPECT_EQ(ChatOf(request).messages[0].tools[1]["name"], "late");
  EXPECT_EQ(request.tools.at("f").kind, ResponsesTool::Kind::kCustom);
}

TEST(ResponsesInput, GivesReasoningBackThatItSealedAndNoOther) {
  for (const std::string text : {"", "a", "ab", "abc", "Größe 𝄞 \"\\\n"}) {
    EXPECT_EQ(UnsealReasoning(SealReasoning(text)), text);
  }
  EXPECT_EQ(SealReasoning("Man"), "cachalot-reasoning-1:TWFu");
  EXPECT_EQ(SealReasoning("Ma"), "cachalot-reasoning-1:TWE=");
  EXPECT_EQ(UnsealReasoning("gAAAAABo"), std::nullopt);
  EXPECT_EQ(UnsealReasoning("cachalot-reasoning-1:TW!u"), std::nullopt);
  EXPECT_EQ(UnsealReasoning("cachalot-reasoning-1:/w=="), std::nullopt);  // no UTF-8
}

TEST(ResponsesRequest, ObeysTheChoiceOfTools) {
  const auto policy = [](const std::string& choice) {
    return ChatOf(Read(R"({"input": "hi", "tools": [{"type": "function", "name": "f"},
                           {"type": "custom", "name": "c"}, {"type": "web_search"}],
                           "tool_choice": )" +
                       choice + "}"));
  };
  using Choice = ToolPolicy::Choice;
  EXPECT_EQ(policy("\"auto\"").tools.choice, Choice::kAuto);
  EXPECT_EQ(policy("\"none\"").tools.choice, Choice::kNone);
  EXPECT_EQ(policy("\"none\"").messages[0].role, Role::kUser);  // nothing is declared
  EXPECT_EQ(policy("\"required\"").tools.choice, Choice::kRequired);
  const ChatInput custom = policy(R"({"type": "custom", "name": "c"})");
  EXPECT_EQ(custom.tools.choice, Choice::kRequired);
  EXPECT_THAT(custom.tools.names, ElementsAre("c"));
  EXPECT_EQ(custom.messages[0].tools.size(), 2);
  const ChatInput allowed = policy(R"({"type": "allowed_tools", "mode": "auto", "tools":
                                       [{"type": "function", "name": "f"}, {"type": "web_search"}]})");
  EXPECT_EQ(allowed.tools.choice, Choice::kAuto);
  EXPECT_EQ(allowed.messages[0].tools.size(), 1);
  const ChatInput required = policy(R"({"type": "allowed_tools", "mode": "required", "tools":
                                        [{"type": "function", "name": "f"}]})");
  EXPECT_THAT(required.tools.names, ElementsAre("f"));
}

TEST(ResponsesRequest, TakesFormatsLengthsAndLogprobs) {
  const ResponsesRequest request =
      Read(R"({"input": "hi", "max_output_tokens": 7, "temperature": 0, "top_logprobs": 3,
               "text": {"format": {"type": "json_schema", "name": "n", "strict": true,
                                   "schema": {"type": "integer"}}}})");
  EXPECT_EQ(request.generation.max_new_tokens, 7);
  EXPECT_EQ(request.generation.sampling.temperature, 0);
  EXPECT_EQ(request.generation.top_logprobs, 3);
  EXPECT_EQ(request.generation.format.kind, AnswerFormat::Kind::kJsonSchema);
  EXPECT_EQ(request.generation.format.schema, Parse(R"({"type": "integer"})"));
  ASSERT_EQ(ChatOf(request).messages[0].role, Role::kSystem);
  EXPECT_TRUE(ChatOf(request).messages[0].response_format);
  EXPECT_FALSE(request.stream);
}

struct Refusal {
  const char* member;  // beside "input": "hi", unless it is another input
  const char* message;
  const char* param;
};

TEST(ResponsesRequest, RefusesWhatItCannotDoAndNamesIt) {
  const Refusal kRefusals[] = {
      {R"("input": 5)", "input is 5, expected a string or a list of items", "input"},
      {R"("input": [])", "input is [], expected a string", "input"},
      {R"("input": null)", "input is missing", "input"},
      {R"("input": ["a"])", "input[0] is \"a\", expected an object", "input[0]"},
      {R"("input": [{"type": "reasoning"}])", "input has no message", "input"},
      {R"("input": [{"content": "a"}])", "input[0].role is missing", "input[0].role"},
      {R"("input": [{"role": "tool", "content": "a"}])", "expected user, assistant, system",
       "input[0].role"},
      {R"("input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}])",
       "input[0].content[0].type is \"input_image\", expected input_text",
       "input[0].content[0].type"},
      {R"("input": [{"role": "user", "content": [{"type": "input_file"}]}])", "is \"input_file\"",
       "input[0].content[0].type"},
      {R"("input": [{"role": "user", "content": [{"type": "input_text"}]}])", "text is missing",
       "input[0].content[0].text"},
      {R"("input": [{"role": "user", "content": {}}])", "a string or a list of parts",
       "input[0].content"},
      {R"("input": [{"type": "item_reference", "id": "msg_1"}])", "nothing is stored here",
       "input[0]"},
      {R"("input": [{"type": "telepathy"}])", "input[0].type is \"telepathy\"", "input[0].type"},
      {R"("input": [{"type": "function_call", "name": "f", "arguments": "{}"}])",
       "call_id is missing", "input[0].call_id"},
      {R"("input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}])",
       "expected a string", "input[0].arguments"},
      {R"("input": [{"type": "function_call_output", "call_id": "c"}])", "output is missing",
       "input[0].output"},
      {R"("input": [{"type": "local_shell_call", "call_id": "c"}])", "action is missing",
       "input[0].action"},
      {R"("input": [{"type": "additional_tools", "tools": [{"type": "function"}]},
                    {"role": "user", "content": "a"}])",
       "name is missing", "input[0].tools[0].name"},
      {R"("instructions": ["a"])", "expected a string", "instructions"},
      {R"("previous_response_id": "resp_1")", "no conversations are stored here",
       "previous_response_id"},
      {R"("conversation": {"id": "c"})", "no conversations are stored", "conversation"},
      {R"("prompt": {"id": "p"})", "no conversations are stored", "prompt"},
      {R"("background": true)", "background is true, expected false", "background"},
      {R"("store": "no")", "store is \"no\", expected true or false", "store"},
      {R"("stream": 1)", "expected true or false", "stream"},
      {R"("metadata": {"a": 1})", "strings of at most 512", "metadata"},
      {R"("user": 7)", "expected a string", "user"},
      {R"("truncation": {})", "expected a string", "truncation"},
      {R"("max_output_tokens": 0)", "an integer of 1 or more", "max_output_tokens"},
      {R"("max_output_tokens": 123456789012345678901234567890)",
       "is 123456789012345678901234567890, expected", "max_output_tokens"},
      {R"("temperature": "hot")", "expected a number", "temperature"},
      {R"("top_logprobs": 21)", "an integer from 0 to 20", "top_logprobs"},
      {R"("include": [5])", "include[0] is 5", "include[0]"},
      {R"("n": 2)", "n is 2, expected 1", "n"},
      {R"("reasoning": {"summary": 1})", "expected a string", "reasoning.summary"},
      {R"("text": {"verbosity": 1})", "expected a string", "text.verbosity"},
      {R"("text": {"format": {"type": "xml"}})", "expected text, json_object or json_schema",
       "text.format.type"},
      {R"("tools": {})", "expected a list", "tools"},
      {R"("tools": [{"name": "f"}])", "tools[0].type is missing", "tools[0].type"},
      {R"("tools": [{"type": "function", "name": "a\"b"}])", "without quotes", "tools[0].name"},
      {R"("tools": [{"type": "function", "name": "f", "parameters": []}])", "expected an object",
       "tools[0].parameters"},
      {R"("tools": [{"type": "custom", "name": "f", "format": {"type": "x"}}])",
       "expected text or grammar", "tools[0].format.type"},
      {R"("tools": [{"type": "namespace", "name": "n", "tools": [5]}])", "tools[0].tools[0] is 5",
       "tools[0].tools[0]"},
      {R"("tool_choice": "required")", "a tool that the client runs", "tool_choice"},
      {R"("tool_choice": "always")", "expected auto, none, required", "tool_choice"},
      {R"("tool_choice": {"type": "web_search"})", "that the client runs", "tool_choice"},
      {R"("tool_choice": {"type": "function", "name": "f"})", "the name of one of the tools",
       "tool_choice.name"},
      {R"("tool_choice": {"type": "allowed_tools", "mode": "x"})", "expected auto or required",
       "tool_choice.mode"},
      {R"("tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []})",
       "a tool that the client runs", "tool_choice.tools"},
  };
  for (const Refusal& refusal : kRefusals) {
    const std::string member = refusal.member;
    const std::string input = member.starts_with("\"input\"") ? "" : R"("input": "hi", )";
    const auto request = TryRead(Parse("{" + input + member + "}"));
    ASSERT_FALSE(request) << member;
    EXPECT_THAT(request.error().message, HasSubstr(refusal.message)) << member;
    EXPECT_EQ(request.error().subject, refusal.param) << member;
  }
}

TEST(ResponsesRequest, TakesSixteenPairsOfMetadataAndNoMore) {
  OrderedJson body = {{"input", "hi"}, {"metadata", OrderedJson::object()}};
  for (int i = 0; i < 16; ++i) {
    body["metadata"][fmt::format("k{}", i)] = "v";
  }
  EXPECT_EQ(TryRead(body)->settings["metadata"].size(), 16);
  body["metadata"]["one more"] = "v";
  EXPECT_FALSE(TryRead(body));
}

}  // namespace
}  // namespace cachalot
