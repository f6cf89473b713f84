#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/python_json.h"
#include "server/format_fields.h"
#include "server/openai_chat_request.h"
#include "server/openai_completions.h"
#include "server/tool_fields.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

OrderedJson Parse(const std::string& text) { return ParsePythonJson(text, "body").value(); }

RequestDefaults Defaults() {
  RequestDefaults defaults;
  defaults.vocab_size = 100;
  defaults.sampling.stop_ids = {1};
  defaults.sampling.temperature = 0.6;
  return defaults;
}

Result<OpenAiChatRequest> ReadChat(const std::string& text) {
  const OrderedJson body = Parse(text);
  return ReadOpenAiChatRequest(JsonFields(body), Defaults());
}

// A chat with one user message and `members` beside it.
Result<OpenAiChatRequest> ReadChatWith(const std::string& members) {
  return ReadChat(R"({"messages": [{"role": "user", "content": "Hi"}], )" + members + "}");
}

ChatInput ChatOf(const Result<OpenAiChatRequest>& request) {
  EXPECT_TRUE(request) << request.error().message;
  return request ? std::get<ChatInput>(request->generation.input) : ChatInput();
}

ChatInput ReadMessages(const std::string& list) {
  return ChatOf(ReadChat(R"({"messages": )" + list + "}"));
}

Result<OpenAiCompletionsRequest> ReadCompletions(const std::string& text) {
  const OrderedJson body = Parse(text);
  return ReadOpenAiCompletionsRequest(JsonFields(body), Defaults());
}

struct Fault {
  const char* input;
  const char* message;
  const char* subject;
};

template <typename T>
void ExpectFault(const Result<T>& read, const Fault& fault) {
  ASSERT_FALSE(read) << fault.input;
  EXPECT_THAT(read.error().message, HasSubstr(fault.message)) << fault.input;
  EXPECT_EQ(read.error().subject, fault.subject) << fault.input;
  EXPECT_EQ(read.error().code, StatusCode::kInvalidArgument) << fault.input;
  EXPECT_LT(read.error().message.size(), 400u) << fault.input;
}

constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}},
                 {"type": "function", "name": "read", "strict": true}])";

TEST(OpenAiChatRequest, MessageFaultsNameTheMember) {
  for (const Fault& fault : {
           Fault{"{}", "messages is missing", "messages"},
           Fault{R"({"messages": null})", "messages is missing", "messages"},
           Fault{R"({"messages": []})", "messages is empty", "messages"},
           Fault{R"({"messages": "Hi"})", "messages is \"Hi\", expected a list", "messages"},
           Fault{R"({"messages": ["Hi"]})", "messages[0] is \"Hi\", expected an object",
                 "messages[0]"},
           Fault{R"({"messages": [{"content": "Hi"}]})", "messages[0].role is missing",
                 "messages[0].role"},
           Fault{R"({"messages": [{"role": 1}]})", "messages[0].role is 1, expected a string",
                 "messages[0].role"},
           Fault{R"({"messages": [{"role": "robot", "content": ""}]})",
                 "messages[0].role is \"robot\", expected system, developer, user, assistant",
                 "messages[0].role"},
           Fault{R"({"messages": [{"role": "user"}]})", "messages[0].content is missing",
                 "messages[0].content"},
           Fault{R"({"messages": [{"role": "system", "content": null}]})",
                 "messages[0].content is missing", "messages[0].content"},
           Fault{R"({"messages": [{"role": "user", "content": 1}]})",
                 "messages[0].content is 1, expected a string or a list of parts",
                 "messages[0].content"},
           Fault{R"({"messages": [{"role": "user", "content": ["Hi"]}]})",
                 "messages[0].content[0] is \"Hi\", expected an object", "messages[0].content[0]"},
           Fault{R"({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})",
                 "messages[0].content[0].type is missing", "messages[0].content[0].type"},
           Fault{R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
                 "messages[0].content[0].text is missing", "messages[0].content[0].text"},
           Fault{R"({"messages": [{"role": "user", "content": [{"type": "text", "text": ""},
                       {"type": "image_url", "image_url": {"url": "data:"}}]}]})",
                 "messages[0].content[1].type is \"image_url\", expected \"text\"",
                 "messages[0].content[1].type"},
           Fault{R"({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]})",
                 "is \"input_audio\"", "messages[0].content[0].type"},
           Fault{R"({"messages": [{"role": "user", "content": [{"type": "file"}]}]})",
                 "is \"file\"", "messages[0].content[0].type"},
           Fault{R"({"messages": [{"role": "user", "content": ""},
                                  {"role": "developer", "content": ""}]})",
                 "messages[1].content is \"\", expected text", "messages[1].content"},
           Fault{R"({"messages": [{"role": "assistant", "reasoning_content": []}]})",
                 "messages[0].reasoning_content is [], expected a string",
                 "messages[0].reasoning_content"},
           Fault{R"({"messages": [{"role": "assistant", "reasoning": 1}]})",
                 "messages[0].reasoning is 1", "messages[0].reasoning"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": {}}]})",
                 "messages[0].tool_calls is {}, expected a list", "messages[0].tool_calls"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [1]}]})",
                 "messages[0].tool_calls[0] is 1, expected an object", "messages[0].tool_calls[0]"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})",
                 "messages[0].tool_calls[0].function is missing",
                 "messages[0].tool_calls[0].function"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [{"type": "custom"}]}]})",
                 "messages[0].tool_calls[0].type is \"custom\"", "messages[0].tool_calls[0].type"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]})",
                 "messages[0].tool_calls[0].function.name is missing",
                 "messages[0].tool_calls[0].function.name"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [
                       {"function": {"name": "f", "arguments": 1}}]}]})",
                 "messages[0].tool_calls[0].function.arguments is 1, expected an object or its",
                 "messages[0].tool_calls[0].function.arguments"},
           Fault{R"({"messages": [{"role": "assistant", "tool_calls": [
                       {"id": 1, "function": {"name": "f", "arguments": ""}}]}]})",
                 "messages[0].tool_calls[0].id is 1, expected a string",
                 "messages[0].tool_calls[0].id"},
           Fault{R"({"messages": [{"role": "assistant", "function_call": "f"}]})",
                 "messages[0].function_call is \"f\"", "messages[0].function_call"},
           Fault{R"({"messages": [{"role": "tool", "tool_call_id": 1}]})",
                 "messages[0].tool_call_id is 1", "messages[0].tool_call_id"},
       }) {
    ExpectFault(ReadChat(fault.input), fault);
  }
}

TEST(OpenAiChatRequest, FieldFaultsNameTheField) {
  for (const Fault& fault : {
           Fault{R"("temperature": "hot")", "temperature is \"hot\", expected a number",
                 "temperature"},
           Fault{R"("top_p": [])", "top_p is []", "top_p"},
           Fault{R"("min_p": true)", "min_p is true", "min_p"},
           Fault{R"("top_k": 0.5)", "top_k is 0.5", "top_k"},
           Fault{R"("top_k": -2)", "top_k is -2", "top_k"},
           Fault{R"("seed": "x")", "seed is \"x\"", "seed"},
           Fault{R"("frequency_penalty": {})", "frequency_penalty is {}", "frequency_penalty"},
           Fault{R"("presence_penalty": "")", "presence_penalty is \"\"", "presence_penalty"},
           Fault{R"("logit_bias": [])", "logit_bias is []", "logit_bias"},
           Fault{R"("max_tokens": 0)", "max_tokens is 0, expected an integer of 1", "max_tokens"},
           Fault{R"("max_completion_tokens": 1.5)", "max_completion_tokens is 1.5",
                 "max_completion_tokens"},
           Fault{R"("n": 0)", "n is 0, expected an integer from 1 to 128", "n"},
           Fault{R"("n": 129)", "n is 129", "n"},
           Fault{R"("stop": 7)", "stop is 7", "stop"},
           Fault{R"("stop": ["a", ""])", "stop is \"\"", "stop"},
           Fault{R"("top_logprobs": 3)", "top_logprobs is 3, expected \"logprobs\": true",
                 "top_logprobs"},
           Fault{R"("logprobs": "yes")", "logprobs is \"yes\"", "logprobs"},
           Fault{R"("stream": 1)", "stream is 1, expected true or false", "stream"},
           Fault{R"("stream_options": true)", "stream_options is true", "stream_options"},
           Fault{R"("stream_options": {"include_usage": 1})",
                 "stream_options.include_usage is 1, expected true or false",
                 "stream_options.include_usage"},
           Fault{R"("stream_options": {"continuous_usage_stats": "x"})",
                 "stream_options.continuous_usage_stats is \"x\"",
                 "stream_options.continuous_usage_stats"},
           Fault{R"("return_progress": "x")", "return_progress is \"x\"", "return_progress"},
           Fault{R"("reasoning_effort": 3)", "reasoning_effort is 3", "reasoning_effort"},
           Fault{R"("thinking": "on")", "thinking is \"on\"", "thinking"},
           Fault{R"("response_format": "json")", "response_format is \"json\", expected an object",
                 "response_format"},
           Fault{R"("response_format": {})", "response_format.type is missing",
                 "response_format.type"},
           Fault{R"("response_format": {"type": "xml"})",
                 "response_format.type is \"xml\", expected text, json_object or json_schema",
                 "response_format.type"},
           Fault{R"("response_format": {"type": "json_schema"})",
                 "response_format.json_schema is missing", "response_format.json_schema"},
           Fault{R"("response_format": {"type": "json_schema", "json_schema": {"schema": "{}"}})",
                 "response_format.json_schema.schema is \"{}\", expected an object",
                 "response_format.json_schema.schema"},
           Fault{R"("response_format": {"type": "json_schema", "json_schema": {"name": 1}})",
                 "response_format.json_schema.name is 1", "response_format.json_schema.name"},
           Fault{R"("response_format": {"type": "json_schema", "json_schema": {"strict": "no"}})",
                 "response_format.json_schema.strict is \"no\"",
                 "response_format.json_schema.strict"},
       }) {
    ExpectFault(ReadChatWith(fault.input), fault);
  }
}

TEST(OpenAiChatRequest, AFaultShowsLittleOfWhatWasSent) {
  const std::string long_text(10'000, 'x');
  for (const std::string& members :
       {R"("temperature": ")" + long_text + '"', R"("tools": [{"type": ")" + long_text + R"("}])",
        R"("tools": [{"type": "function", "function": {"name": ")" + long_text + R"("}}])",
        R"("tool_choice": {"type": "function", "function": {"name": ")" + long_text + R"("}})",
        R"("response_format": {"type": ")" + long_text + R"("})"}) {
    const auto read = ReadChatWith(members);
    ASSERT_FALSE(read);
    EXPECT_LT(read.error().message.size(), 400u);
    EXPECT_LT(read.error().subject.size(), 100u);
  }
}

// Paths of all members and elements within a value.
void ListPlaces(const OrderedJson& value, const OrderedJson::json_pointer& at,
                std::vector<OrderedJson::json_pointer>* places) {
  places->push_back(at);
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      ListPlaces(member, at / key, places);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      ListPlaces(value[i], at / i, places);
    }
  }
}

TEST(OpenAiRequests, AnyValueInAnyPlaceIsARequestOrAShortFault) {
  const OrderedJson full = Parse(
      R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]},
                       {"role": "developer", "content": "b"}, {"role": "user", "content": "c"},
                       {"role": "assistant", "content": null, "reasoning_content": "d",
                        "tool_calls": [{"id": "e", "type": "function",
                                        "function": {"name": "f", "arguments": "{}"}}]},
                       {"role": "tool", "tool_call_id": "e", "content": "g"}],
          "tools": [{"type": "function", "function": {"name": "f", "description": "h", "strict": true,
                                                      "parameters": {"type": "object"}}}],
          "tool_choice": {"type": "allowed_tools", "allowed_tools": {
              "mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}},
          "response_format": {"type": "json_schema", "json_schema": {"name": "i", "schema": {}}},
          "stream_options": {"include_usage": true}, "thinking": {"type": "enabled"},
          "prompt": [[1, 2], "j"], "suffix": "", "best_of": 1, "echo": false, "stop": ["k"],
          "n": 1, "max_tokens": 5, "temperature": 1})");
  const std::string long_text(5000, 'x');
  const std::vector<OrderedJson> values = {nullptr,
                                           true,
                                           0,
                                           -1,
                                           0.5,
                                           1e300,
                                           UINT64_MAX,
                                           Parse("123456789012345678901234567890"),
                                           "",
                                           "f",
                                           long_text,
                                           OrderedJson::array(),
                                           OrderedJson::array({nullptr}),
                                           OrderedJson::array({long_text}),
                                           OrderedJson::object(),
                                           Parse(R"({"type": {}})"),
                                           Parse(R"({"type": "function", "name": "f"})")};
  std::vector<OrderedJson::json_pointer> places;
  ListPlaces(full, OrderedJson::json_pointer(), &places);
  int faults = 0;
  for (const auto& place : places) {
    for (const OrderedJson& value : values) {
      OrderedJson body = full;
      body[place] = value;
      if (!body.is_object()) {
        continue;
      }
      const auto check = [&](const auto& read) {
        if (!read) {
          ++faults;
          EXPECT_LT(read.error().message.size(), 500u) << place;
          EXPECT_LT(read.error().subject.size(), 200u) << place;
        }
      };
      check(ReadOpenAiChatRequest(JsonFields(body), Defaults()));
      check(ReadOpenAiCompletionsRequest(JsonFields(body), Defaults()));
    }
  }
  EXPECT_GT(faults, 500);
}

TEST(OpenAiChatRequest, EveryFieldHasItsPlace) {
  const auto read = ReadChatWith(
      R"("temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 42,
         "frequency_penalty": 0.25, "presence_penalty": -0.5, "repetition_penalty": 1.5,
         "logit_bias": {"7": -100}, "stop_token_ids": [9], "stop": ["\n", "END"],
         "max_completion_tokens": 20, "min_tokens": 2, "n": 3, "priority": 4, "timeout": 2.5,
         "logprobs": true, "top_logprobs": 5, "stream": true, "return_progress": true,
         "stream_options": {"include_usage": true, "continuous_usage_stats": true},
         "reasoning_effort": "max", "response_format": {"type": "json_object"},
         "user": "me", "metadata": {"a": [1]}, "store": false, "service_tier": "auto")");
  ASSERT_TRUE(read) << read.error().message;
  const GenerationRequest& generation = read->generation;
  EXPECT_EQ(generation.sampling.temperature, 0.5);
  EXPECT_EQ(generation.sampling.top_p, 0.9);
  EXPECT_EQ(generation.sampling.top_k, 5);
  EXPECT_EQ(generation.sampling.min_p, 0.1);
  EXPECT_EQ(generation.sampling.seed, 42u);
  EXPECT_EQ(generation.sampling.frequency_penalty, 0.25);
  EXPECT_EQ(generation.sampling.presence_penalty, -0.5);
  EXPECT_EQ(generation.sampling.repetition_penalty, 1.5);
  EXPECT_THAT(generation.sampling.logit_bias, ElementsAre(LogitBias{7, -100}));
  EXPECT_THAT(generation.sampling.stop_ids, ElementsAre(1, 9));
  EXPECT_THAT(generation.stop, ElementsAre("\n", "END"));
  EXPECT_EQ(generation.max_new_tokens, 20);
  EXPECT_EQ(generation.sampling.min_new_tokens, 2);
  EXPECT_EQ(generation.num_choices, 3);
  EXPECT_EQ(generation.priority, 4);
  EXPECT_EQ(generation.timeout_seconds, 2.5);
  EXPECT_EQ(generation.top_logprobs, 5);
  EXPECT_FALSE(generation.echo);
  EXPECT_EQ(generation.format.kind, AnswerFormat::Kind::kJsonObject);
  EXPECT_TRUE(read->stream.stream);
  EXPECT_TRUE(read->stream.include_usage);
  EXPECT_TRUE(read->stream.continuous_usage);
  EXPECT_TRUE(read->return_progress);
  EXPECT_FALSE(read->of_old);
  const ChatInput chat = ChatOf(read);
  EXPECT_EQ(chat.thinking.enabled, true);
  EXPECT_EQ(chat.thinking.effort, "max");
}

TEST(OpenAiChatRequest, WhatIsNotSaidIsTheDefault) {
  const auto read = ReadChatWith(
      R"("temperature": null, "stop": null, "tools": null, "tool_choice": null, "stream": null,
         "response_format": null, "logprobs": null, "max_tokens": null, "stream_options": null)");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->generation.sampling.temperature, 0.6);
  EXPECT_THAT(read->generation.sampling.stop_ids, ElementsAre(1));
  EXPECT_EQ(read->generation.max_new_tokens, std::nullopt);
  EXPECT_EQ(read->generation.top_logprobs, std::nullopt);
  EXPECT_EQ(read->generation.num_choices, 1);
  EXPECT_EQ(read->generation.format.kind, AnswerFormat::Kind::kText);
  EXPECT_FALSE(read->stream.stream || read->stream.include_usage || read->stream.continuous_usage);
  const ChatInput chat = ChatOf(read);
  EXPECT_THAT(chat.messages, SizeIs(1));
  EXPECT_EQ(chat.thinking.enabled, std::nullopt);
  EXPECT_EQ(chat.tools.choice, ToolPolicy::Choice::kAuto);
  EXPECT_TRUE(chat.tools.parallel);
}

TEST(OpenAiChatRequest, MaxTokensHasTwoNamesOfWhichOneIsExpected) {
  EXPECT_EQ(ReadChatWith(R"("max_tokens": 7)")->generation.max_new_tokens, 7);
  ExpectFault(ReadChatWith(R"("max_tokens": 7, "max_completion_tokens": 7)"),
              {"both", "max_tokens stands beside max_completion_tokens", "max_tokens"});
}

TEST(OpenAiChatRequest, ReadsAWholeConversation) {
  const ChatInput chat = ReadMessages(R"([
      {"role": "system", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]},
      {"role": "user", "content": "Find it", "name": "Ann"},
      {"role": "assistant", "content": null, "reasoning_content": "Hm", "refusal": null, "audio": null,
       "tool_calls": [{"id": "a", "type": "function", "function": {"name": "find", "arguments": "{\"x\": 1}"}},
                      {"function": {"name": "big", "arguments": {"n": 12345678901234567890123, "t": "é"}}},
                      {"id": "c", "function": {"name": "none", "arguments": ""}},
                      {"id": "d", "function": {"name": "none"}}]},
      {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "here"}]},
      {"role": "tool", "content": null},
      {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "reasoning": "Ha"}])");
  const std::vector<Message>& messages = chat.messages;
  ASSERT_THAT(messages, SizeIs(6));
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_EQ(messages[0].content, "Be\n\nbrief.");
  EXPECT_EQ(messages[1].role, Role::kUser);
  EXPECT_EQ(messages[1].content, "Find it");
  EXPECT_EQ(messages[2].role, Role::kAssistant);
  EXPECT_EQ(messages[2].content, "");
  EXPECT_EQ(messages[2].reasoning_content, "Hm");
  ASSERT_THAT(messages[2].tool_calls, SizeIs(4));
  EXPECT_EQ(messages[2].tool_calls[0].id, "a");
  EXPECT_EQ(messages[2].tool_calls[0].name, "find");
  EXPECT_EQ(messages[2].tool_calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(messages[2].tool_calls[1].id, "");
  EXPECT_EQ(messages[2].tool_calls[1].arguments, R"({"n": 12345678901234567890123, "t": "é"})");
  EXPECT_EQ(messages[2].tool_calls[2].arguments, "{}");
  EXPECT_EQ(messages[2].tool_calls[3].arguments, "{}");
  EXPECT_EQ(messages[3].role, Role::kTool);
  EXPECT_EQ(messages[3].tool_call_id, "a");
  EXPECT_EQ(messages[3].content, "here");
  EXPECT_EQ(messages[4].tool_call_id, "");
  EXPECT_EQ(messages[4].content, "");
  EXPECT_EQ(messages[5].content, "No.");
  EXPECT_EQ(messages[5].reasoning_content, "Ha");
}

TEST(OpenAiChatRequest, ReadsFunctionsOfOld) {
  const auto read = ReadChat(R"({
      "messages": [{"role": "user", "content": "Find it"},
                   {"role": "assistant", "content": null,
                    "function_call": {"name": "find", "arguments": "{}"}},
                   {"role": "function", "name": "find", "content": "here"}],
      "functions": [{"name": "find", "parameters": {}}, {"name": "read"}],
      "function_call": {"name": "read"}})");
  const ChatInput chat = ChatOf(read);
  EXPECT_TRUE(read->of_old);
  ASSERT_THAT(chat.messages, SizeIs(4));
  EXPECT_EQ(chat.messages[0].role, Role::kSystem);
  EXPECT_THAT(chat.messages[0].tools, SizeIs(2));
  ASSERT_THAT(chat.messages[2].tool_calls, SizeIs(1));
  EXPECT_EQ(chat.messages[2].tool_calls[0].name, "find");
  EXPECT_EQ(chat.messages[3].role, Role::kTool);
  EXPECT_EQ(chat.tools.choice, ToolPolicy::Choice::kRequired);
  EXPECT_THAT(chat.tools.names, ElementsAre("read"));
  EXPECT_FALSE(chat.tools.parallel);
}

TEST(OpenAiChatRequest, ADeveloperBeforeAllTurnsIsSystemText) {
  const auto roles = [](const ChatInput& chat) {
    std::vector<std::pair<Role, std::string>> pairs;
    for (const Message& message : chat.messages) {
      pairs.emplace_back(message.role, message.content);
    }
    return pairs;
  };
  using Pair = std::pair<Role, std::string>;
  EXPECT_THAT(
      roles(ReadMessages(R"([{"role": "developer", "content": "A"},
                                     {"role": "user", "content": "B"},
                                     {"role": "developer", "content": "C"}])")),
      ElementsAre(Pair(Role::kSystem, "A"), Pair(Role::kUser, "B"), Pair(Role::kDeveloper, "C")));
  EXPECT_THAT(roles(ReadMessages(R"([{"role": "system", "content": "A"},
                                     {"role": "developer", "content": "B"},
                                     {"role": "assistant", "content": "C"}])")),
              ElementsAre(Pair(Role::kSystem, "A\n\nB"), Pair(Role::kAssistant, "C")));
  EXPECT_THAT(roles(ReadMessages(R"([{"role": "system", "content": ""},
                                     {"role": "developer", "content": "B"}])")),
              ElementsAre(Pair(Role::kSystem, "B")));
}

TEST(OpenAiChatRequest, ToolsAndFormatGoToTheFirstSystemMessage) {
  const ChatInput chat = ChatOf(ReadChat(
      R"({"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
          "response_format": {"type": "json_schema", "json_schema":
              {"name": "a", "strict": true, "schema": {"type": "object", "maximum": 1}}},)" +
      std::string(kTools) + "}"));
  ASSERT_THAT(chat.messages, SizeIs(2));
  const Message& system = chat.messages[0];
  EXPECT_EQ(system.content, "Be brief.");
  ASSERT_THAT(system.tools, SizeIs(2));
  EXPECT_EQ(DumpPythonJson(system.tools[0]),
            R"({"name": "find", "parameters": {"type": "object"}})");
  EXPECT_EQ(DumpPythonJson(system.tools[1]), R"({"name": "read", "strict": true})");
  ASSERT_TRUE(system.response_format);
  EXPECT_EQ(DumpPythonJson(*system.response_format),
            R"({"type": "json_schema", "json_schema": {"name": "a", "strict": true, )"
            R"("schema": {"type": "object", "maximum": 1}}})");
}

TEST(OpenAiChatRequest, PromptsAreThoseOfTheChatRoom) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_object"},
          "tools": [{"type": "function", "function": {"name": "f"}}]})";
  const std::vector<Message> ours = ChatOf(ReadChat(body)).messages;
  const std::vector<Message> theirs = ParseChatInput(Parse(body)).value();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].role, theirs[i].role);
    EXPECT_EQ(ours[i].content, theirs[i].content);
    EXPECT_EQ(ours[i].tools, theirs[i].tools);
    EXPECT_EQ(ours[i].response_format, theirs[i].response_format);
  }
}

TEST(OpenAiFormat, TellsKindsApart) {
  const auto read = [](const std::string& text) {
    const OrderedJson body = Parse(text);
    return ReadResponseFormat(JsonFields(body), "format").value();
  };
  const FormatFields text = read(R"({"format": {"type": "text"}})");
  EXPECT_EQ(text.format.kind, AnswerFormat::Kind::kText);
  EXPECT_FALSE(text.prompt);
  const FormatFields nested =
      read(R"({"format": {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}})");
  EXPECT_EQ(nested.format.kind, AnswerFormat::Kind::kJsonSchema);
  EXPECT_EQ(nested.format.schema, Parse(R"({"type": "array"})"));
  EXPECT_TRUE(nested.prompt);
  const FormatFields flat =
      read(R"({"format": {"type": "json_schema", "name": "a", "schema": {"type": "array"}}})");
  EXPECT_EQ(flat.format.kind, AnswerFormat::Kind::kJsonSchema);
  EXPECT_EQ(flat.format.schema, nested.format.schema);
  const FormatFields any = read(R"({"format": {"type": "json_schema", "json_schema": {}}})");
  EXPECT_EQ(any.format.schema, OrderedJson::object());
}

TEST(OpenAiTools, FaultsNameTheTool) {
  for (
      const Fault& fault : {
          Fault{R"("tools": {})", "tools is {}, expected a list", "tools"},
          Fault{R"("tools": [1])", "tools[0] is 1, expected an object", "tools[0]"},
          Fault{R"("tools": [{"type": "web_search"}])",
                "tools[0].type is \"web_search\", expected \"function\"", "tools[0].type"},
          Fault{R"("tools": [{"type": "custom", "custom": {"name": "a"}}])",
                "tools[0].type is \"custom\"", "tools[0].type"},
          Fault{R"("tools": [{"type": "function"}])", "tools[0].name is missing", "tools[0].name"},
          Fault{R"("tools": [{"type": "function", "function": "f"}])",
                "tools[0].function is \"f\", expected an object", "tools[0].function"},
          Fault{R"("tools": [{"type": "function", "function": {}}])",
                "tools[0].function.name is missing", "tools[0].function.name"},
          Fault{R"("tools": [{"type": "function", "function": {"name": ""}}])",
                "tools[0].function.name is \"\", expected 1 to 256 bytes",
                "tools[0].function.name"},
          Fault{R"("tools": [{"function": {"name": "a\"b"}}])", "without quotes",
                "tools[0].function.name"},
          Fault{R"("tools": [{"function": {"name": "a\nb"}}])", "control characters",
                "tools[0].function.name"},
          Fault{R"("tools": [{"function": {"name": "a", "description": 1}}])",
                "tools[0].function.description is 1", "tools[0].function.description"},
          Fault{R"("tools": [{"function": {"name": "a", "parameters": []}}])",
                "tools[0].function.parameters is [], expected an object",
                "tools[0].function.parameters"},
          Fault{R"("tools": [{"function": {"name": "a", "strict": 1}}])",
                "tools[0].function.strict is 1", "tools[0].function.strict"},
          Fault{R"("tools": [{"function": {"name": "a"}}, {"name": "a"}])",
                "tools[1].name is \"a\", expected a name that no other tool has", "tools[1].name"},
          Fault{R"("tools": [], "functions": [])", "functions stands beside tools", "functions"},
          Fault{R"("functions": [{"name": 1}])", "functions[0].name is 1", "functions[0].name"},
          Fault{R"("functions": [], "function_call": {"name": "a"})",
                "function_call.name is \"a\", expected the name of a declared tool",
                "function_call.name"},
          Fault{R"("parallel_tool_calls": "yes")", "parallel_tool_calls is \"yes\"",
                "parallel_tool_calls"},
          Fault{R"("tool_choice": "required")",
                "tool_choice is \"required\", expected tools beside it", "tool_choice"},
          Fault{R"("tool_choice": "any")", "tool_choice is \"any\", expected auto, none, required",
                "tool_choice"},
          Fault{R"("tool_choice": 1)", "tool_choice is 1", "tool_choice"},
          Fault{R"("tool_choice": {"type": "web_search"})", "tool_choice.type is \"web_search\"",
                "tool_choice.type"},
          Fault{R"("tool_choice": {"type": "function"})", "tool_choice.name is missing",
                "tool_choice.name"},
          Fault{R"("tool_choice": {"type": "function", "function": {"name": "b"}},
                    "tools": [{"function": {"name": "a"}}])",
                "tool_choice.function.name is \"b\", expected the name of a declared tool",
                "tool_choice.function.name"},
          Fault{R"("tool_choice": {"type": "allowed_tools"})", "tool_choice.mode is missing",
                "tool_choice.mode"},
          Fault{R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "some"}})",
                "tool_choice.allowed_tools.mode is \"some\"", "tool_choice.allowed_tools.mode"},
          Fault{R"("tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []})",
                "tool_choice.tools is [], expected a list of at least one", "tool_choice.tools"},
          Fault{
              R"("tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "b"}]})",
              "tool_choice.tools[0].name is \"b\"", "tool_choice.tools[0].name"},
      }) {
    ExpectFault(ReadChatWith(fault.input), fault);
  }
}

TEST(OpenAiTools, TheChoiceDecidesWhatIsDeclaredAndWhatIsForced) {
  struct Case {
    const char* choice;
    size_t num_declared;
    ToolPolicy::Choice policy;
    std::vector<std::string> names;
  };
  using Choice = ToolPolicy::Choice;
  for (
      const Case& expected : {
          Case{"null", 2, Choice::kAuto, {}},
          Case{R"("auto")", 2, Choice::kAuto, {}},
          Case{R"("none")", 0, Choice::kNone, {}},
          Case{R"("required")", 2, Choice::kRequired, {}},
          Case{R"({"type": "function", "function": {"name": "read"}})",
               2,
               Choice::kRequired,
               {"read"}},
          Case{R"({"type": "function", "name": "find"})", 2, Choice::kRequired, {"find"}},
          Case{
              R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "find"}]})",
              1,
              Choice::kAuto,
              {}},
          Case{R"({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                      {"type": "function", "function": {"name": "read"}}, {"name": "find"}]}})",
               2,
               Choice::kRequired,
               {"read", "find"}},
      }) {
    const OrderedJson body =
        Parse("{" + std::string(kTools) + R"(, "tool_choice": )" + expected.choice + "}");
    const auto read = ReadToolFields(JsonFields(body));
    ASSERT_TRUE(read) << expected.choice << ": " << read.error().message;
    EXPECT_EQ(read->functions.size(), expected.num_declared) << expected.choice;
    EXPECT_EQ(read->policy.choice, expected.policy) << expected.choice;
    EXPECT_EQ(read->policy.names, expected.names) << expected.choice;
    EXPECT_TRUE(read->policy.parallel);
    EXPECT_FALSE(read->of_old);
  }
}

TEST(OpenAiTools, NoneLeavesThePromptAlone) {
  const ChatInput chat = ChatOf(ReadChatWith(std::string(kTools) + R"(, "tool_choice": "none")"));
  ASSERT_THAT(chat.messages, SizeIs(1));
  EXPECT_THAT(chat.messages[0].tools, IsEmpty());
}

TEST(OpenAiCompletionsRequest, APromptHasFourForms) {
  const auto inputs = [](const std::string& prompt) {
    const auto read = ReadCompletions(R"({"prompt": )" + prompt + "}").value();
    std::vector<std::string> texts;
    for (const GenerationRequest& request : read.prompts) {
      const auto* ids = std::get_if<std::vector<int32_t>>(&request.input);
      texts.push_back(ids == nullptr ? std::get<std::string>(request.input)
                                     : fmt::format("ids {}", fmt::join(*ids, " ")));
    }
    return texts;
  };
  EXPECT_THAT(inputs(R"("Once")"), ElementsAre("Once"));
  EXPECT_THAT(inputs(R"("")"), ElementsAre(""));
  EXPECT_THAT(inputs(R"(["Once", "Twice"])"), ElementsAre("Once", "Twice"));
  EXPECT_THAT(inputs("[0, 99]"), ElementsAre("ids 0 99"));
  EXPECT_THAT(inputs("[[5], [6, 7]]"), ElementsAre("ids 5", "ids 6 7"));
}

TEST(OpenAiCompletionsRequest, FaultsNameTheField) {
  for (const Fault& fault : {
           Fault{"{}", "prompt is missing", "prompt"},
           Fault{R"({"prompt": {}})", "prompt is {}, expected text or a list of token ids",
                 "prompt"},
           Fault{R"({"prompt": []})", "prompt is []", "prompt"},
           Fault{R"({"prompt": 1})", "prompt is 1", "prompt"},
           Fault{R"({"prompt": [100]})", "prompt[0] is 100, expected a token id from 0 to 99",
                 "prompt[0]"},
           Fault{R"({"prompt": [1, "a"]})", "prompt[1] is \"a\", expected a token id", "prompt[1]"},
           Fault{R"({"prompt": ["a", []]})", "prompt[1] is []", "prompt[1]"},
           Fault{R"({"prompt": ["a", null]})", "prompt[1] is null", "prompt[1]"},
           Fault{R"({"prompt": [[1], [-1]]})", "prompt[1][0] is -1", "prompt[1][0]"},
           Fault{R"({"prompt": "", "suffix": "a"})", "suffix is \"a\", expected none", "suffix"},
           Fault{R"({"prompt": "", "best_of": 2})", "best_of is 2, expected 1 or the number",
                 "best_of"},
           Fault{R"({"prompt": "", "echo": 1})", "echo is 1, expected true or false", "echo"},
           Fault{R"({"prompt": "", "logprobs": -1})", "logprobs is -1", "logprobs"},
           Fault{R"({"prompt": "", "max_tokens": "x"})", "max_tokens is \"x\"", "max_tokens"},
           Fault{R"({"prompt": "", "min_tokens": 17})",
                 "min_tokens is 17, expected at most the 16 of max_tokens", "min_tokens"},
       }) {
    ExpectFault(ReadCompletions(fault.input), fault);
  }
  OrderedJson many;
  many["prompt"] = OrderedJson::array();
  for (size_t i = 0; i <= kMaxPrompts; ++i) {
    many["prompt"].push_back("");
  }
  ExpectFault(ReadCompletions(DumpJson(many)),
              {"many", "prompt has 1025 prompts, expected at most 1024", "prompt"});
}

TEST(OpenAiCompletionsRequest, EveryFieldHasItsPlace) {
  const auto read = ReadCompletions(
      R"({"prompt": ["a", "b"], "max_tokens": 5, "temperature": 0, "n": 2, "best_of": 2, "echo": true,
          "logprobs": 3, "stop": "x", "seed": 9, "suffix": "", "stream": true,
          "stream_options": {"include_usage": true}, "response_format": {"type": "json_object"},
          "user": "me"})");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(read->prompts, SizeIs(2));
  for (const GenerationRequest& request : read->prompts) {
    EXPECT_EQ(request.max_new_tokens, 5);
    EXPECT_EQ(request.sampling.temperature, 0);
    EXPECT_EQ(request.sampling.seed, 9u);
    EXPECT_EQ(request.num_choices, 2);
    EXPECT_TRUE(request.echo);
    EXPECT_EQ(request.top_logprobs, 3);
    EXPECT_THAT(request.stop, ElementsAre("x"));
    EXPECT_EQ(request.format.kind, AnswerFormat::Kind::kJsonObject);
  }
  EXPECT_TRUE(read->stream.stream && read->stream.include_usage);
  EXPECT_EQ(ReadCompletions(R"({"prompt": ""})")->prompts[0].max_new_tokens, 16);
}

}  // namespace
}  // namespace cachalot
