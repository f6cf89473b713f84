#include "server/anthropic_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "chat/python_json.h"
#include "io/utf8.h"
#include "server/fake_exchange.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using Kind = CompletionEvent::Kind;

// An answer as the generator would tell it: one piece for each event.
struct Script {
  std::vector<CompletionEvent> events;
  AnswerEnd end;
  AnswerUsage usage = {10, 4, 6, 2};
};

CompletionEvent Reasoning(std::string text) { return {Kind::kReasoning, 0, std::move(text)}; }
CompletionEvent Content(std::string text) { return {Kind::kContent, 0, std::move(text)}; }
CompletionEvent Start(int call, std::string name) {
  return {Kind::kCallStart, call, std::move(name)};
}
CompletionEvent Arguments(int call, std::string text) {
  return {Kind::kCallArguments, call, std::move(text)};
}
CompletionEvent End(int call) { return {Kind::kCallEnd, call, ""}; }

void Play(AnswerSink& sink, const Script& script) {
  sink.OnStart(script.usage.prompt_tokens);
  sink.OnPrompt(script.usage.prompt_tokens, script.usage.cached_tokens);
  for (const CompletionEvent& event : script.events) {
    AnswerPiece piece;
    piece.events = {event};
    sink.OnPiece(piece);
    sink.OnPiece({});  // tokens whose text is held back
  }
  sink.OnChoiceEnd(0, script.end);
  sink.OnEnd(script.usage);
}

MessageHead Head() { return {"msg_1", "req_2", "deepseek-v4"}; }

std::shared_ptr<FakeExchange> Whole(const Script& script) {
  const auto exchange = FakeExchange::Post("/v1/messages", "");
  Play(*NewMessageSink(exchange, Head()), script);
  return exchange;
}

std::shared_ptr<FakeExchange> Streamed(const Script& script) {
  const auto exchange = FakeExchange::Post("/v1/messages", "");
  Play(*NewMessageStreamSink(exchange, Head()), script);
  return exchange;
}

OrderedJson WholeMessage(const Script& script) {
  const auto exchange = Whole(script);
  EXPECT_EQ(exchange->response().value().status, 200);
  return ParsePythonJson(exchange->response()->body, "body").value();
}

// The data of all events; the name of each is its type.
std::vector<OrderedJson> Events(const Script& script) {
  const std::string streamed = Streamed(script)->streamed();
  std::vector<OrderedJson> events;
  for (std::string_view text = streamed; !text.empty();) {
    const size_t end = text.find("\n\n");
    const std::string_view event = text.substr(0, end);
    text.remove_prefix(end + 2);
    const size_t line = event.find("\ndata: ");
    events.push_back(ParsePythonJson(event.substr(line + 7), "data").value());
    EXPECT_EQ(event.substr(0, line), "event: " + events.back()["type"].get<std::string>());
  }
  return events;
}

std::string Line(const OrderedJson& event) {
  const std::string type = event["type"];
  if (type == "content_block_start") {
    const OrderedJson& block = event["content_block"];
    return fmt::format("{} start {}{}", event["index"].get<int>(), block["type"].get<std::string>(),
                       block["type"] == "tool_use" ? " " + block["name"].get<std::string>() : "");
  }
  if (type == "content_block_delta") {
    const OrderedJson& delta = event["delta"];
    std::string text;
    for (const char* name : {"text", "thinking", "signature", "partial_json"}) {
      text += delta.value(name, "");
    }
    return fmt::format("{} {} {}", event["index"].get<int>(), delta["type"].get<std::string>(),
                       text);
  }
  if (type == "content_block_stop") {
    return fmt::format("{} stop", event["index"].get<int>());
  }
  if (type == "message_delta") {
    return DumpPythonJson(event["delta"]);
  }
  return type == "error" ? DumpPythonJson(event["error"]) : type;
}

std::vector<std::string> Lines(const Script& script) {
  std::vector<std::string> lines;
  for (const OrderedJson& event : Events(script)) {
    lines.push_back(Line(event));
  }
  return lines;
}

// Blocks put together from a stream as a client does it.
OrderedJson BlocksOf(const std::vector<OrderedJson>& events) {
  OrderedJson blocks = OrderedJson::array();
  std::string input;
  bool is_open = false;
  for (const OrderedJson& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      EXPECT_FALSE(is_open);
      EXPECT_EQ(event["index"], blocks.size());
      blocks.push_back(event["content_block"]);
      input.clear();
      is_open = true;
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(is_open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      for (const auto& [name, value] : event["delta"].items()) {
        if (name == "partial_json") {
          input += value.get<std::string>();
        } else if (name != "type") {
          blocks.back()[name] = blocks.back()[name].get<std::string>() + value.get<std::string>();
        }
      }
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(is_open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      is_open = false;
      if (const auto object = ParsePythonJson(input, "input"); object && object->is_object()) {
        blocks.back()["input"] = *object;
      }
    }
  }
  EXPECT_FALSE(is_open);
  return blocks;
}

const Script kText = {{Content("Hel"), Content("lo")}, {AnswerFinish::kStop, ""}};
const Script kThought = {{Reasoning("hm"), Reasoning(", so"), Content("Yes")},
                         {AnswerFinish::kStop, ""}};
const Script kCalls = {{Reasoning("hm"), Content("Look"), Start(0, "f"), Arguments(0, "{\"a\": "),
                        Arguments(0, "1}"), End(0), Start(1, "g"), Arguments(1, "{}"), End(1)},
                       {AnswerFinish::kToolCalls, ""}};
const Script kCutCall = {{Start(0, "f"), Arguments(0, "{\"a\": [1")}, {AnswerFinish::kLength, ""}};
const Script kNothing = {{}, {AnswerFinish::kStop, ""}};

TEST(AnthropicMessages, AnswersWithOneMessage) {
  const auto exchange = Whole(kThought);
  ASSERT_TRUE(exchange->response());
  EXPECT_EQ(exchange->response()->status, 200);
  EXPECT_EQ(exchange->response()->content_type, "application/json");
  EXPECT_THAT(exchange->response()->headers, ElementsAre(std::pair("request-id", "req_2")));
  EXPECT_EQ(
      exchange->response()->body,
      R"({"id": "msg_1", "type": "message", "role": "assistant", "model": "deepseek-v4", )"
      R"("content": [{"type": "thinking", "thinking": "hm, so", "signature": "Y2FjaGFsb3Q="}, )"
      R"({"type": "text", "text": "Yes"}], "stop_reason": "end_turn", "stop_sequence": null, )"
      R"("usage": {"input_tokens": 6, "cache_creation_input_tokens": 0, )"
      R"("cache_read_input_tokens": 4, "output_tokens": 6, )"
      R"("output_tokens_details": {"thinking_tokens": 2}, "service_tier": "standard"}})");
}

TEST(AnthropicMessages, StreamsTextByteForByte) {
  const auto exchange = Streamed({{Content("Hi")}, {AnswerFinish::kStop, ""}});
  EXPECT_FALSE(exchange->response());
  ASSERT_TRUE(exchange->stream());
  EXPECT_EQ(exchange->stream()->content_type, "text/event-stream");
  EXPECT_THAT(exchange->stream()->headers, ElementsAre(std::pair("request-id", "req_2")));
  EXPECT_EQ(exchange->stream()->life_sign, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  EXPECT_THAT(
      exchange->pieces(),
      ElementsAre(
          "event: message_start\n"
          R"(data: {"type":"message_start","message":{"id":"msg_1","type":"message",)"
          R"("role":"assistant","model":"deepseek-v4","content":[],"stop_reason":null,)"
          R"("stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,)"
          R"("cache_read_input_tokens":0,"output_tokens":0,)"
          R"("output_tokens_details":{"thinking_tokens":0},"service_tier":"standard"}}})"
          "\n\n"
          "event: ping\n"
          R"(data: {"type":"ping"})"
          "\n\n",
          "event: content_block_start\n"
          R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
          "\n\n"
          "event: content_block_delta\n"
          R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})"
          "\n\n",
          "event: content_block_stop\n"
          R"(data: {"type":"content_block_stop","index":0})"
          "\n\n"
          "event: message_delta\n"
          R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn",)"
          R"("stop_sequence":null},"usage":{"input_tokens":6,"cache_creation_input_tokens":0,)"
          R"("cache_read_input_tokens":4,"output_tokens":6,)"
          R"("output_tokens_details":{"thinking_tokens":2},"service_tier":"standard"}})"
          "\n\n"
          "event: message_stop\n"
          R"(data: {"type":"message_stop"})"
          "\n\n"));
  EXPECT_TRUE(exchange->finished());
}

TEST(AnthropicMessages, SignsAThoughtBeforeItsBlockEnds) {
  EXPECT_THAT(Lines(kThought),
              ElementsAre("message_start", "ping", "0 start thinking", "0 thinking_delta hm",
                          "0 thinking_delta , so", "0 signature_delta Y2FjaGFsb3Q=", "0 stop",
                          "1 start text", "1 text_delta Yes", "1 stop",
                          R"({"stop_reason": "end_turn", "stop_sequence": null})", "message_stop"));
}

TEST(AnthropicMessages, StreamsEachCallAsABlock) {
  EXPECT_THAT(Lines(kCalls),
              ElementsAre("message_start", "ping", "0 start thinking", "0 thinking_delta hm",
                          "0 signature_delta Y2FjaGFsb3Q=", "0 stop", "1 start text",
                          "1 text_delta Look", "1 stop", "2 start tool_use f",
                          "2 input_json_delta {\"a\": ", "2 input_json_delta 1}", "2 stop",
                          "3 start tool_use g", "3 input_json_delta {}", "3 stop",
                          R"({"stop_reason": "tool_use", "stop_sequence": null})", "message_stop"));
}

TEST(AnthropicMessages, EndsAStreamWithItsReason) {
  const std::pair<Script, const char*> cases[] = {
      {{{Content("a")}, {AnswerFinish::kStopString, "\n\n"}},
       R"({"stop_reason": "stop_sequence", "stop_sequence": "\n\n"})"},
      {{{Content("a")}, {AnswerFinish::kLength, ""}},
       R"({"stop_reason": "max_tokens", "stop_sequence": null})"},
      {kNothing, R"({"stop_reason": "end_turn", "stop_sequence": null})"}};
  for (const auto& [script, reason] : cases) {
    const std::vector<std::string> lines = Lines(script);
    EXPECT_EQ(lines.at(lines.size() - 2), reason);
    EXPECT_EQ(lines.back(), "message_stop");
    const OrderedJson message = WholeMessage(script);
    EXPECT_EQ(DumpPythonJson({{"stop_reason", message["stop_reason"]},
                              {"stop_sequence", message["stop_sequence"]}}),
              reason);
  }
}

TEST(AnthropicMessages, HasNoBlocksWhereNothingCame) {
  EXPECT_THAT(WholeMessage(kNothing)["content"], IsEmpty());
  EXPECT_THAT(Lines(kNothing), ElementsAre("message_start", "ping", testing::_, "message_stop"));
  EXPECT_THAT(WholeMessage({{Content("")}, {AnswerFinish::kStop, ""}})["content"], IsEmpty());
}

TEST(AnthropicMessages, GivesWhatCameOfACallThatTheLengthCutOff) {
  EXPECT_THAT(
      Lines(kCutCall),
      ElementsAre("message_start", "ping", "0 start tool_use f", "0 input_json_delta {\"a\": [1",
                  "0 stop", R"({"stop_reason": "max_tokens", "stop_sequence": null})",
                  "message_stop"));
  const OrderedJson message = WholeMessage(kCutCall);
  EXPECT_EQ(message["content"].at(0)["name"], "f");
  EXPECT_EQ(message["content"].at(0)["input"], OrderedJson::object());
}

TEST(AnthropicMessages, KeepsBigNumbersAndTheOrderOfKeysInInputs) {
  const auto exchange = Whole(
      {{Start(0, "f"), Arguments(0, R"({"z": 123456789012345678901234567890, "a": 0.1})"), End(0)},
       {AnswerFinish::kToolCalls, ""}});
  EXPECT_THAT(exchange->response()->body,
              HasSubstr(R"("input": {"z": 123456789012345678901234567890, "a": 0.1})"));
}

TEST(AnthropicMessages, NamesCallsAlikeInBothForms) {
  const OrderedJson whole = WholeMessage(kCalls)["content"];
  const OrderedJson streamed = BlocksOf(Events(kCalls));
  std::set<std::string> ids;
  for (const size_t block : {2, 3}) {
    const std::string id = whole.at(block)["id"];
    EXPECT_THAT(id, StartsWith("toolu_"));
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
              id.npos);
    EXPECT_EQ(streamed.at(block)["id"], id);
    ids.insert(id);
  }
  EXPECT_THAT(ids, SizeIs(2));
}

TEST(AnthropicMessages, TellsAFailureInItsDialect) {
  struct FailureCase {
    AnswerFinish finish;
    int status;
    const char* type;
  };
  for (const auto& [finish, status, type] :
       {FailureCase{AnswerFinish::kFailed, 500, "api_error"},
        FailureCase{AnswerFinish::kDeadline, 504, "timeout_error"},
        FailureCase{AnswerFinish::kCancelled, 503, "overloaded_error"}}) {
    const Script script = {{Content("a")}, {finish, ""}};
    const auto whole = Whole(script);
    EXPECT_EQ(whole->response()->status, status);
    EXPECT_THAT(whole->response()->headers, testing::Contains(std::pair("request-id", "req_2")));
    const OrderedJson body = ParsePythonJson(whole->response()->body, "body").value();
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], type);

    const std::vector<OrderedJson> events = Events(script);
    EXPECT_EQ(events.back(), body);
    EXPECT_EQ(Line(events.at(events.size() - 2)), "0 text_delta a");
    EXPECT_TRUE(Streamed(script)->finished());
  }
}

TEST(AnthropicMessages, TellsErrorsInTheWordsThatClientsLookFor) {
  const auto body = [](const ApiError& error) {
    const HttpResponse response = MessagesErrorResponse(error, "req_2");
    EXPECT_EQ(response.status, error.status);
    EXPECT_THAT(response.headers, testing::Contains(std::pair("request-id", "req_2")));
    return response.body;
  };
  EXPECT_EQ(body(ApiError(400, "no")),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"no"}})");
  EXPECT_EQ(body(ApiError(400, "9 tokens", "context_length_exceeded")),
            R"({"type":"error","error":{"type":"invalid_request_error",)"
            R"("message":"prompt is too long: 9 tokens"}})");
  EXPECT_EQ(body(ApiError(400, "no", "thread_unsupported_request")),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"no",)"
            R"("details":{"error_code":"thread_unsupported_request"}}})");
}

// Any answer that a CompletionParser could tell.
Script RandomScript(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto text = [&] {
    const char* const texts[] = {"", "a", " ", "\n\n", "\"", "é", "鯨", "{", "\\"};
    return std::string(texts[below(9)]);
  };
  Script script;
  for (int i = below(4); i > 0; --i) {
    script.events.push_back(Reasoning(text()));
  }
  for (int i = below(4); i > 0; --i) {
    script.events.push_back(Content(text()));
  }
  const int calls = below(4);
  for (int call = 0; call < calls; ++call) {
    script.events.push_back(Start(call, "f"));
    const std::string value = DumpPythonJson(OrderedJson(text()));
    const bool is_cut = call + 1 == calls && below(4) == 0;
    const std::string arguments = "{\"k\": " + value + (is_cut ? "" : "}");
    const size_t split =
        Utf8Prefix(arguments, random() % arguments.size()).size();  // whole characters
    script.events.push_back(Arguments(call, arguments.substr(0, split)));
    script.events.push_back(Arguments(call, arguments.substr(split)));
    if (!is_cut) {
      script.events.push_back(End(call));
    }
  }
  const AnswerFinish finishes[] = {AnswerFinish::kStop, AnswerFinish::kStopString,
                                   AnswerFinish::kToolCalls, AnswerFinish::kLength};
  script.end = {finishes[below(4)], "x"};
  return script;
}

TEST(AnthropicMessages, StreamsWhatTheWholeAnswerHolds) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Script script = RandomScript(random);
    const OrderedJson message = WholeMessage(script);
    const std::vector<OrderedJson> events = Events(script);
    EXPECT_EQ(DumpPythonJson(BlocksOf(events)), DumpPythonJson(message["content"]));
    const OrderedJson& end = events.at(events.size() - 2);
    EXPECT_EQ(end["delta"]["stop_reason"], message["stop_reason"]);
    EXPECT_EQ(end["delta"]["stop_sequence"], message["stop_sequence"]);
    EXPECT_EQ(end["usage"], message["usage"]);
    for (const OrderedJson& block : message["content"]) {
      EXPECT_NE(block.value("text", "-"), "");
      EXPECT_NE(block.value("thinking", "-"), "");
    }
  }
}

}  // namespace
}  // namespace cachalot
