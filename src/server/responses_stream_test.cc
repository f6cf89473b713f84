#include "server/responses_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/python_json.h"
#include "server/fake_exchange.h"
#include "server/responses_input.h"

namespace cachalot {
namespace {

using Kind = CompletionEvent::Kind;
using testing::ElementsAre;

ResponsesRequest RequestOf(const std::string& body) {
  const auto json = ParsePythonJson(body, "body");
  RequestDefaults defaults;
  defaults.vocab_size = 1000;
  auto request = ReadResponsesRequest(JsonFields(*json), defaults);
  EXPECT_TRUE(request) << request.error().message;
  return *request;
}

CompletionEvent Reasoning(std::string text) { return {Kind::kReasoning, 0, std::move(text)}; }
CompletionEvent Content(std::string text) { return {Kind::kContent, 0, std::move(text)}; }
CompletionEvent CallStart(int call, std::string name) {
  return {Kind::kCallStart, call, std::move(name)};
}
CompletionEvent Arguments(int call, std::string text) {
  return {Kind::kCallArguments, call, std::move(text)};
}
CompletionEvent CallEnd(int call) { return {Kind::kCallEnd, call, ""}; }

struct Told {
  std::vector<OrderedJson> events;  // of a stream
  OrderedJson response;             // the last one's, or the whole answer
};

std::vector<OrderedJson> EventsOf(const FakeExchange& exchange) {
  std::vector<OrderedJson> events;
  for (const std::string& piece : exchange.pieces()) {
    const size_t data = piece.find("\ndata: ");
    EXPECT_TRUE(piece.starts_with("event: ") && piece.ends_with("\n\n")) << piece;
    const auto event = ParsePythonJson(piece.substr(data + 7), "event");
    EXPECT_TRUE(event) << piece;
    events.push_back(*event);
    EXPECT_EQ(piece.substr(7, data - 7), (*event)["type"].get<std::string>());
    EXPECT_EQ((*event)["sequence_number"], OrderedJson(events.size() - 1));
  }
  return events;
}

constexpr AnswerUsage kUsage = {
    .prompt_tokens = 20, .cached_tokens = 16, .completion_tokens = 7, .reasoning_tokens = 3};

// One event a piece.
std::shared_ptr<FakeExchange> Answer(ResponsesRequest request,
                                     const std::vector<AnswerPiece>& pieces, AnswerFinish finish) {
  auto exchange = FakeExchange::Post("/v1/responses", "");
  ResponsesSink sink(exchange, std::move(request),
                     {"resp_0abc", "whale", 1700000000,
                      [](int64_t call) { return fmt::format("call_{}", call); }});
  sink.OnStart(kUsage.prompt_tokens);
  for (const AnswerPiece& piece : pieces) {
    sink.OnPiece(piece);
  }
  sink.OnChoiceEnd(0, {finish, ""});
  sink.OnEnd(kUsage);
  return exchange;
}

std::vector<AnswerPiece> Pieces(const std::vector<CompletionEvent>& events) {
  std::vector<AnswerPiece> pieces;
  for (const CompletionEvent& event : events) {
    pieces.push_back({0, {event}, {}});
  }
  return pieces;
}

Told Tell(std::string body, const std::vector<CompletionEvent>& events,
          AnswerFinish finish = AnswerFinish::kStop) {
  body.insert(1, "\"stream\": true, ");
  const auto exchange = Answer(RequestOf(body), Pieces(events), finish);
  EXPECT_TRUE(exchange->finished());
  EXPECT_FALSE(exchange->response());
  Told told;
  told.events = EventsOf(*exchange);
  told.response = told.events.back()["response"];
  return told;
}

// "type" or "type@output_index" of each, "response." left out.
std::vector<std::string> Types(const Told& told) {
  std::vector<std::string> types;
  for (const OrderedJson& event : told.events) {
    std::string type = event["type"].get<std::string>().substr(sizeof("response.") - 1);
    if (event.contains("output_index")) {
      type += fmt::format("@{}", event["output_index"].get<int>());
    }
    types.push_back(std::move(type));
  }
  return types;
}

OrderedJson Parse(const std::string& text) {
  auto json = ParsePythonJson(text, "expected");
  EXPECT_TRUE(json) << text;
  return *json;
}

constexpr const char* kPlain = R"({"input": "hi"})";

constexpr const char* kTools = R"({"input": "hi", "include": ["reasoning.encrypted_content"],
  "tools": [{"type": "function", "name": "look"}, {"type": "custom", "name": "patch"},
            {"type": "local_shell"},
            {"type": "namespace", "name": "sea", "description": "",
             "tools": [{"type": "function", "name": "dive"}]}]})";

TEST(ResponsesStream, TellsOfATextFromItsBeginningToItsEnd) {
  const Told told = Tell(kPlain, {Content("Wha"), Content("les.")});
  EXPECT_THAT(Types(told),
              ElementsAre("created", "in_progress", "output_item.added@0", "content_part.added@0",
                          "output_text.delta@0", "output_text.delta@0", "output_text.done@0",
                          "content_part.done@0", "output_item.done@0", "completed"));
  EXPECT_EQ(told.events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(told.events[0]["response"]["usage"], nullptr);
  EXPECT_EQ(told.events[2]["item"],
            Parse(R"({"id": "msg_0abc_0", "type": "message", "status": "in_progress",
                      "role": "assistant", "content": []})"));
  EXPECT_EQ(told.events[4], Parse(R"({"type": "response.output_text.delta", "sequence_number": 4,
                      "item_id": "msg_0abc_0", "output_index": 0, "content_index": 0,
                      "delta": "Wha", "logprobs": []})"));
  EXPECT_EQ(told.events[8]["item"],
            Parse(R"({"id": "msg_0abc_0", "type": "message", "status": "completed",
                      "role": "assistant", "content": [{"type": "output_text", "annotations": [],
                      "logprobs": [], "text": "Whales."}]})"));
}

TEST(ResponsesStream, HasTheWholeResponseInItsLastEvent) {
  const Told told =
      Tell(R"({"input": "hi", "instructions": "Be brief.", "temperature": 0.5, "user": "ann",
               "metadata": {"a": "b"}, "max_output_tokens": 40, "store": true,
               "reasoning": {"effort": "low"}, "prompt_cache_key": "k",
               "tools": [{"type": "function", "name": "f", "parameters":
                          {"properties": {"n": {"maximum": 123456789012345678901234567890}}}}]})",
           {Content("Ja.")});
  const OrderedJson expected =
      Parse(R"({"id": "resp_0abc", "object": "response", "created_at": 1700000000,
          "status": "completed", "background": false, "error": null, "incomplete_details": null,
          "model": "whale",
          "output": [{"id": "msg_0abc_0", "type": "message", "status": "completed",
                      "role": "assistant", "content": [{"type": "output_text", "annotations": [],
                      "logprobs": [], "text": "Ja."}]}],
          "usage": {"input_tokens": 20,
                    "input_tokens_details": {"cached_tokens": 16, "cache_write_tokens": 0},
                    "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3},
                    "total_tokens": 27},
          "instructions": "Be brief.", "max_output_tokens": 40, "metadata": {"a": "b"},
          "parallel_tool_calls": true, "previous_response_id": null,
          "reasoning": {"effort": "low", "summary": null}, "store": false, "temperature": 0.5,
          "text": {"format": {"type": "text"}}, "tool_choice": "auto",
          "tools": [{"type": "function", "name": "f", "parameters":
                     {"properties": {"n": {"maximum": 123456789012345678901234567890}}}}],
          "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": "ann",
          "prompt_cache_key": "k"})");
  EXPECT_EQ(DumpPythonJson(told.response), DumpPythonJson(expected));
}

TEST(ResponsesStream, KeepsAliveByAnEventThatClientsPassOver) {
  ResponsesRequest request = RequestOf(R"({"input": "hi", "stream": true})");
  const auto exchange = Answer(std::move(request), {}, AnswerFinish::kStop);
  EXPECT_EQ(exchange->stream()->life_sign, kResponsesLifeSign);
  EXPECT_TRUE(exchange->stream()->life_sign.ends_with("\n\n"));
}

TEST(ResponsesStream, TellsReasoningAsItsTextBeforeTheMessage) {
  const Told told = Tell(kPlain, {Reasoning("Hm"), Reasoning("m."), Content("Yes.")});
  EXPECT_THAT(
      Types(told),
      ElementsAre("created", "in_progress", "output_item.added@0", "content_part.added@0",
                  "reasoning_text.delta@0", "reasoning_text.delta@0", "reasoning_text.done@0",
                  "content_part.done@0", "output_item.done@0", "output_item.added@1",
                  "content_part.added@1", "output_text.delta@1", "output_text.done@1",
                  "content_part.done@1", "output_item.done@1", "completed"));
  EXPECT_EQ(told.response["output"][0],
            Parse(R"({"id": "rs_0abc_0", "type": "reasoning", "summary": [],
                      "content": [{"type": "reasoning_text", "text": "Hmm."}]})"));
}

TEST(ResponsesStream, TellsReasoningAsASummaryWhereOneIsAskedFor) {
  const Told told = Tell(R"({"input": "hi", "reasoning": {"summary": "auto"},
                             "include": ["reasoning.encrypted_content"]})",
                         {Reasoning("Hm"), Reasoning("m."), Content("Yes.")});
  const std::vector<std::string> types = Types(told);
  EXPECT_THAT(std::vector(types.begin() + 2, types.begin() + 9),
              ElementsAre("output_item.added@0", "reasoning_summary_part.added@0",
                          "reasoning_summary_text.delta@0", "reasoning_summary_text.delta@0",
                          "reasoning_summary_text.done@0", "reasoning_summary_part.done@0",
                          "output_item.done@0"));
  EXPECT_EQ(told.events[4]["summary_index"], 0);
  const OrderedJson& item = told.response["output"][0];
  EXPECT_EQ(item["summary"], Parse(R"([{"type": "summary_text", "text": "Hmm."}])"));
  EXPECT_FALSE(item.contains("content"));
  EXPECT_EQ(UnsealReasoning(item["encrypted_content"].get<std::string>()), "Hmm.");
}

TEST(ResponsesStream, TellsCallsOneAfterTheOther) {
  const Told told =
      Tell(kTools,
           {Content("Look:"), CallStart(0, "look"), Arguments(0, "{\"a\""), Arguments(0, ": 1}"),
            CallEnd(0), CallStart(1, "sea.dive"), Arguments(1, "{}"), CallEnd(1)},
           AnswerFinish::kToolCalls);
  const std::vector<std::string> types = Types(told);
  EXPECT_THAT(
      std::vector(types.begin() + 7, types.end()),
      ElementsAre("output_item.done@0", "output_item.added@1", "function_call_arguments.delta@1",
                  "function_call_arguments.delta@1", "function_call_arguments.done@1",
                  "output_item.done@1", "output_item.added@2", "function_call_arguments.delta@2",
                  "function_call_arguments.done@2", "output_item.done@2", "completed"));
  EXPECT_EQ(told.response["output"][1],
            Parse(R"({"id": "fc_0abc_1", "type": "function_call", "status": "completed",
                      "call_id": "call_0", "name": "look", "arguments": "{\"a\": 1}"})"));
  EXPECT_EQ(told.response["output"][2],
            Parse(R"({"id": "fc_0abc_2", "type": "function_call", "status": "completed",
                      "call_id": "call_1", "name": "dive", "namespace": "sea",
                      "arguments": "{}"})"));
}

TEST(ResponsesStream, TellsOfACustomToolsInputWithoutItsQuotes) {
  const Told told = Tell(kTools,
                         {CallStart(0, "patch"), Arguments(0, "{\"input\": \"*** Begin\\"),
                          Arguments(0, "n+\\\"a\\\""), Arguments(0, "\"}"), CallEnd(0)},
                         AnswerFinish::kToolCalls);
  EXPECT_THAT(Types(told),
              ElementsAre("created", "in_progress", "output_item.added@0",
                          "custom_tool_call_input.delta@0", "custom_tool_call_input.delta@0",
                          "custom_tool_call_input.done@0", "output_item.done@0", "completed"));
  EXPECT_EQ(told.events[5]["input"], "*** Begin\n+\"a\"");
  EXPECT_EQ(told.response["output"][0],
            Parse(R"({"id": "ctc_0abc_0", "type": "custom_tool_call", "status": "completed",
                      "call_id": "call_0", "name": "patch", "input": "*** Begin\n+\"a\""})"));
}

TEST(ResponsesStream, TellsACallOfTheLocalShellAsAnAction) {
  const auto action = [](const char* arguments) {
    const Told told =
        Tell(kTools, {CallStart(0, "local_shell"), Arguments(0, arguments), CallEnd(0)},
             AnswerFinish::kToolCalls);
    EXPECT_THAT(Types(told), ElementsAre("created", "in_progress", "output_item.added@0",
                                         "output_item.done@0", "completed"));
    EXPECT_EQ(told.response["output"][0]["type"], "local_shell_call");
    EXPECT_EQ(told.response["output"][0]["call_id"], "call_0");
    return told.response["output"][0]["action"];
  };
  EXPECT_EQ(action(R"({"command": ["ls", "-l"], "timeout_ms": 5, "x": 1})"),
            Parse(R"({"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5})"));
  EXPECT_EQ(action(R"({"command": "ls | wc"})"),
            Parse(R"({"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}})"));
  EXPECT_EQ(action(R"({"command": [1], "env": {"A": NaN}})"),
            Parse(R"({"type": "exec", "command": [], "env": {}})"));
}

TEST(ResponsesStream, IsIncompleteWhereTheLengthEndsIt) {
  const Told told = Tell(kTools, {Content("a"), CallStart(0, "look"), Arguments(0, "{\"b\": ")},
                         AnswerFinish::kLength);
  EXPECT_EQ(Types(told).back(), "incomplete");
  EXPECT_EQ(told.response["status"], "incomplete");
  EXPECT_EQ(told.response["incomplete_details"], Parse(R"({"reason": "max_output_tokens"})"));
  EXPECT_EQ(told.response["output"][0]["status"], "completed");
  EXPECT_EQ(told.response["output"][1]["status"], "incomplete");
  EXPECT_EQ(told.response["output"][1]["arguments"], "{\"b\": ");
}

TEST(ResponsesStream, DoesNotTellTheCallThatAFaultBrokeAsDone) {
  const Told told = Tell(kTools, {CallStart(0, "look"), Arguments(0, "{")}, AnswerFinish::kFailed);
  EXPECT_THAT(Types(told), ElementsAre("created", "in_progress", "output_item.added@0",
                                       "function_call_arguments.delta@0", "failed"));
  EXPECT_EQ(told.response["status"], "failed");
  EXPECT_EQ(told.response["error"]["code"], "server_error");
  EXPECT_EQ(told.response["output"][0]["status"], "incomplete");
}

TEST(ResponsesStream, AnswersAFaultByItsStatusWhereNothingWasStreamed) {
  const std::pair<AnswerFinish, int> kFaults[] = {{AnswerFinish::kFailed, 500},
                                                  {AnswerFinish::kCancelled, 503},
                                                  {AnswerFinish::kDeadline, 504}};
  for (const auto& [finish, status] : kFaults) {
    const auto exchange = Answer(RequestOf(kPlain), Pieces({Content("a")}), finish);
    EXPECT_EQ(exchange->response()->status, status);
    EXPECT_TRUE(Parse(exchange->response()->body)["error"]["message"].is_string());
  }
}

TEST(ResponsesStream, TellsByAnEventThatTheContextIsFullAndByAStatusAllElse) {
  const auto refuse = [](const char* body, const char* code) {
    auto exchange = FakeExchange::Post("/v1/responses", "");
    ResponsesSink(exchange, RequestOf(body), {"resp_0abc", "whale", 1700000000, nullptr})
        .Refuse(ApiError(400, "too long", code));
    return exchange;
  };
  constexpr const char* kStreamed = R"({"input": "hi", "stream": true})";
  const auto full = refuse(kStreamed, "context_length_exceeded");
  EXPECT_FALSE(full->response());
  EXPECT_TRUE(full->finished());
  const std::vector<OrderedJson> events = EventsOf(*full);
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[2]["type"], "response.failed");
  EXPECT_EQ(events[2]["response"]["error"],
            Parse(R"({"code": "context_length_exceeded", "message": "too long"})"));
  EXPECT_EQ(refuse(kPlain, "context_length_exceeded")->response()->status, 400);
  const auto other = refuse(kStreamed, "");
  EXPECT_EQ(other->response()->status, 400);
  EXPECT_FALSE(other->stream());
}

TEST(ResponsesStream, GivesLogprobsOfTheMessageAlone) {
  const LogprobEntry thought = {{5, -1.0F, "t"}, {}};
  const LogprobEntry first = {{6, -0.5F, "\xC3"}, {{6, -0.5F, "\xC3"}, {7, -INFINITY, "x"}}};
  const LogprobEntry second = {{8, -0.25F, "\xA9"}, {}};
  const std::vector<AnswerPiece> pieces = {{0, {Reasoning("t")}, {thought}},
                                           {0, {}, {thought}},
                                           {0, {Content("a")}, {}},
                                           {0, {}, {first}},
                                           {0, {Content("é")}, {second}}};
  const auto exchange =
      Answer(RequestOf(R"({"input": "hi", "include": ["message.output_text.logprobs"]})"), pieces,
             AnswerFinish::kStop);
  const OrderedJson response = Parse(exchange->response()->body);
  EXPECT_EQ(response["output"][1]["content"][0]["logprobs"], Parse(R"([
      {"token": "�", "logprob": -0.5, "bytes": [195], "top_logprobs": [
        {"token": "�", "logprob": -0.5, "bytes": [195]},
        {"token": "x", "logprob": -9999.0, "bytes": [120]}]},
      {"token": "�", "logprob": -0.25, "bytes": [169], "top_logprobs": []}])"));
}

// What deltas of an item add up to, and what its last events and the response say of it.
TEST(ResponsesStream, AddsUpToTheItemsOfItsResponseAndOfTheWholeAnswer) {
  const std::vector<CompletionEvent> events = {Reasoning("a"),
                                               Reasoning("\nb"),
                                               Content("c"),
                                               Content("\"é"),
                                               CallStart(0, "patch"),
                                               Arguments(0, "{\"input\": \"\\ud83d"),
                                               Arguments(0, "\\ude00"),
                                               Arguments(0, "!\"}"),
                                               CallEnd(0),
                                               CallStart(1, "look"),
                                               Arguments(1, "{"),
                                               Arguments(1, "}"),
                                               CallEnd(1),
                                               CallStart(2, "unknown"),
                                               Arguments(2, "{\"x\"")};
  for (const AnswerFinish finish : {AnswerFinish::kToolCalls, AnswerFinish::kLength}) {
    for (size_t n = 0; n <= events.size(); ++n) {
      const std::vector<CompletionEvent> some(events.begin(),
                                              events.begin() + static_cast<std::ptrdiff_t>(n));
      const Told told = Tell(kTools, some, finish);
      std::vector<std::string> joined;
      for (const OrderedJson& event : told.events) {
        const std::string type = event["type"];
        const size_t at = event.value("output_index", joined.size());
        if (type.ends_with("item.added")) {
          ASSERT_EQ(at, joined.size());
          joined.emplace_back();
        } else if (type.ends_with(".delta")) {
          joined.at(at) += event["delta"].get<std::string>();
        } else if (type.ends_with("item.done")) {
          EXPECT_EQ(event["item"], told.response["output"].at(at));
        }
      }
      ASSERT_EQ(joined.size(), told.response["output"].size());
      for (size_t i = 0; i < joined.size(); ++i) {
        const OrderedJson& item = told.response["output"][i];
        const char* whole = item.contains("input") ? "input" : "arguments";
        EXPECT_EQ(joined[i], item.contains("content") ? item["content"][0]["text"] : item[whole]);
      }
      const auto exchange = Answer(RequestOf(kTools), Pieces(some), finish);
      EXPECT_EQ(Parse(exchange->response()->body), told.response);
    }
  }
}

std::string InputOf(const std::vector<std::string_view>& pieces) {
  CustomToolInput input;
  std::string text;
  for (const std::string_view piece : pieces) {
    text += input.Push(piece);
  }
  return text + input.Finish();
}

TEST(CustomToolInput, IsTheSameWhereverItsArgumentsAreSplit) {
  const std::string text = "a\"\\/\b\f\n\r\t\x01é\xF0\x9F\x98\x80z";
  const std::string_view arguments =
      "{ \"input\" : \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001é\\uD83D\\uDE00z\", \"more\": \"x\"}";
  for (size_t a = 0; a <= arguments.size(); ++a) {
    for (size_t b = a; b <= arguments.size(); b += 3) {
      EXPECT_EQ(InputOf({arguments.substr(0, a), arguments.substr(a, b - a), arguments.substr(b)}),
                text);
    }
  }
}

TEST(CustomToolInput, ReplacesHalvesOfSurrogatePairs) {
  EXPECT_EQ(InputOf({R"({"input": "\ud83d\ud83d\ude00"})"}), "�\xF0\x9F\x98\x80");
  EXPECT_EQ(InputOf({R"({"input": "\ud83dx\ude00"})"}), "�x�");
  EXPECT_EQ(InputOf({R"({"input": "\ud83d\n"})"}), "�\n");
  EXPECT_EQ(InputOf({R"({"input": "\ud83d)"}), "�");
}

TEST(CustomToolInput, MakesDoWithArgumentsOfAnotherShape) {
  EXPECT_EQ(InputOf({R"({"why": "so", "input": "x"})"}), "x");
  EXPECT_EQ(InputOf({R"({"patch": "p\n"})"}), "p\n");
  EXPECT_EQ(InputOf({R"({"a": "1", "b": "2"})"}), R"({"a": "1", "b": "2"})");
  EXPECT_EQ(InputOf({R"({"input": 5})"}), R"({"input": 5})");
  EXPECT_EQ(InputOf({"{}"}), "{}");
  EXPECT_EQ(InputOf({"{\"inp"}), "");
}

}  // namespace
}  // namespace cachalot
