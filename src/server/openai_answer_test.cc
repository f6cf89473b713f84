#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "server/choice_listener.h"
#include "server/fake_exchange.h"
#include "server/openai_chat.h"
#include "server/openai_completions.h"
#include "server/shared_exchange.h"
#include "server/turn_memory.h"
#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

using Kind = CompletionEvent::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr AnswerUsage kUsage = {
    .prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5, .reasoning_tokens = 2};
constexpr const char* kUsageText =
    R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,)"
    R"("prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}})";

OpenAiHead Head() { return {.id = "chatcmpl-0a", .created = 1700000000, .model = "deep"}; }

AnswerPiece Piece(std::vector<CompletionEvent> events, int64_t choice = 0) {
  return {.choice = choice, .events = std::move(events), .logprobs = {}, .tokens = 1};
}

std::shared_ptr<FakeExchange> NewExchange() { return FakeExchange::Post("/v1", "{}"); }

// The JSON of each event of a stream, "[DONE]" as it is.
std::vector<std::string> DataOf(const FakeExchange& exchange) {
  std::vector<std::string> data;
  const std::string all = exchange.streamed();
  std::string_view rest = all;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    EXPECT_TRUE(rest.starts_with("data: ") && end != rest.npos) << rest;
    if (end == rest.npos) {
      break;
    }
    data.emplace_back(rest.substr(6, end - 6));
    rest.remove_prefix(end + 2);
  }
  return data;
}

// A chunk of a chat.
std::string Chunk(const std::string& choices, const std::string& behind = "") {
  return R"({"id":"chatcmpl-0a","object":"chat.completion.chunk","created":1700000000,"model":"deep",)"
         R"("system_fingerprint":"fp_cachalot","choices":[)" +
         choices + "]" + behind + "}";
}

std::string Delta(const std::string& delta, const std::string& finish_reason = "null",
                  int choice = 0, const std::string& logprobs = "null") {
  return fmt::format(R"({{"index":{},"delta":{},"logprobs":{},"finish_reason":{}}})", choice, delta,
                     logprobs, finish_reason);
}

const std::string kRole = Delta(R"({"role":"assistant","content":""})");

// A chat's answer.
std::string Whole(const std::string& choices) {
  return R"({"id":"chatcmpl-0a","object":"chat.completion","created":1700000000,"model":"deep",)"
         R"("system_fingerprint":"fp_cachalot","choices":[)" +
         choices + R"(],"usage":)" + kUsageText + "}";
}

std::string WholeChoice(const std::string& message, const std::string& finish_reason,
                        int choice = 0, const std::string& logprobs = "null") {
  return fmt::format(R"({{"index":{},"message":{},"logprobs":{},"finish_reason":"{}"}})", choice,
                     message, logprobs, finish_reason);
}

std::string BodyOf(const FakeExchange& exchange) {
  return exchange.response() ? exchange.response()->body : "no response";
}

OpenAiChatRequest Request(bool stream) {
  OpenAiChatRequest request;
  request.stream.stream = stream;
  return request;
}

// Answers `request` with pieces and one end for each choice.
std::shared_ptr<FakeExchange> Answer(const OpenAiChatRequest& request,
                                     const std::vector<AnswerPiece>& pieces,
                                     const std::vector<AnswerFinish>& ends) {
  const auto exchange = NewExchange();
  const auto sink = NewOpenAiChatSink(exchange, Head(), request);
  sink->OnStart(10);
  for (const AnswerPiece& piece : pieces) {
    sink->OnPiece(piece);
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    sink->OnChoiceEnd(static_cast<int64_t>(i), {.finish = ends[i], .stop = {}});
  }
  sink->OnEnd(kUsage);
  return exchange;
}

const std::vector<AnswerPiece>& ThinkAndAnswer() {
  static const std::vector<AnswerPiece> pieces = {
      Piece({}), Piece({{Kind::kReasoning, 0, "Hm"}}),
      Piece({{Kind::kReasoning, 0, "."}, {Kind::kContent, 0, "Good \"day\""}}),
      Piece({{Kind::kContent, 0, " é\n"}})};
  return pieces;
}

const std::vector<AnswerPiece>& TwoCalls() {
  static const std::vector<AnswerPiece> pieces = {
      Piece({{Kind::kCallStart, 0, "find"}, {Kind::kCallArguments, 0, "{\"x\": "}}),
      Piece({{Kind::kCallArguments, 0, "1}"}, {Kind::kCallEnd, 0, ""}}),
      Piece({{Kind::kCallStart, 1, "read"},
             {Kind::kCallArguments, 1, "{}"},
             {Kind::kCallEnd, 1, ""}})};
  return pieces;
}

TEST(ChoiceListener, EchoesAPromptPastIdsWithoutAToken) {
  constexpr int32_t kNoToken = 900;
  std::string echoed;
  ChoiceSettings settings;
  settings.tokenizer = std::make_shared<const Tokenizer>(TinyTokenizer(TinyTokenizerJson()));
  settings.echo = {kTinyFirstByte + 'a', kNoToken, kTinyFirstByte + 'b'};
  ChoiceEvents events;
  events.on_piece = [&](const AnswerPiece& piece) { echoed += piece.events.front().text; };
  const ChoiceListener listener(std::move(settings), std::move(events), RequestClock());
  EXPECT_EQ(echoed, "ab");
}

TEST(ApiError, IsTheClientsWhereItsInputIsBad) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kOutOfRange}) {
    EXPECT_EQ(ApiError(Error{code, "no token"}).status, 400);
  }
  EXPECT_EQ(ApiError(Error{StatusCode::kIoError, "no disk"}).status, 500);
}

TEST(OpenAiChat, AWholeAnswerHasContentAndReasoning) {
  const auto exchange = Answer(Request(false), ThinkAndAnswer(), {AnswerFinish::kStop});
  EXPECT_EQ(BodyOf(*exchange),
            Whole(WholeChoice(R"({"role":"assistant","content":"Good \"day\" é\n","refusal":null,)"
                              R"("reasoning_content":"Hm."})",
                              "stop")));
  EXPECT_EQ(exchange->response()->status, 200);
  EXPECT_EQ(exchange->response()->content_type, "application/json");
  EXPECT_FALSE(exchange->stream());
}

TEST(OpenAiChat, AStreamHasOneChunkForEachPieceOfText) {
  const auto exchange = Answer(Request(true), ThinkAndAnswer(), {AnswerFinish::kStop});
  EXPECT_THAT(
      DataOf(*exchange),
      ElementsAre(Chunk(kRole), Chunk(Delta(R"({"reasoning_content":"Hm"})")),
                  Chunk(Delta(R"({"reasoning_content":"."})")),
                  Chunk(Delta(R"({"content":"Good \"day\""})")),
                  Chunk(Delta(R"({"content":" é\n"})")), Chunk(Delta("{}", "\"stop\"")), "[DONE]"));
  ASSERT_TRUE(exchange->stream());
  EXPECT_EQ(exchange->stream()->content_type, "text/event-stream");
  EXPECT_EQ(exchange->stream()->life_sign, ": alive\n\n");
  EXPECT_TRUE(exchange->finished());
  EXPECT_FALSE(exchange->response());
}

TEST(OpenAiChat, AWholeAnswerOfCallsHasNoContent) {
  const auto exchange = Answer(Request(false), TwoCalls(), {AnswerFinish::kToolCalls});
  EXPECT_EQ(
      BodyOf(*exchange),
      Whole(WholeChoice(
          fmt::format(
              R"({{"role":"assistant","content":null,"refusal":null,"tool_calls":[)"
              R"({{"id":"{}","type":"function","function":{{"name":"find","arguments":"{{\"x\": 1}}"}}}},)"
              R"({{"id":"{}","type":"function","function":{{"name":"read","arguments":"{{}}"}}}}]}})",
              CallId("chatcmpl-0a", 0, 0), CallId("chatcmpl-0a", 0, 1)),
          "tool_calls")));
}

TEST(OpenAiChat, AStreamedCallHasItsNameThenItsArguments) {
  const auto exchange = Answer(Request(true), TwoCalls(), {AnswerFinish::kToolCalls});
  const auto start = [](int call, const std::string& name) {
    return Chunk(Delta(fmt::format(
        R"({{"tool_calls":[{{"index":{},"id":"{}","type":"function","function":{{"name":"{}","arguments":""}}}}]}})",
        call, CallId("chatcmpl-0a", 0, call), name)));
  };
  const auto arguments = [](int call, const std::string& text) {
    return Chunk(Delta(fmt::format(
        R"({{"tool_calls":[{{"index":{},"function":{{"arguments":"{}"}}}}]}})", call, text)));
  };
  EXPECT_THAT(DataOf(*exchange),
              ElementsAre(Chunk(kRole), start(0, "find"), arguments(0, R"({\"x\": )"),
                          arguments(0, "1}"), start(1, "read"), arguments(1, "{}"),
                          Chunk(Delta("{}", "\"tool_calls\"")), "[DONE]"));
}

TEST(OpenAiChat, ContentBeforeCallsStays) {
  std::vector<AnswerPiece> pieces = {Piece({{Kind::kContent, 0, "Wait."}})};
  pieces.push_back(TwoCalls().front());
  const auto exchange = Answer(Request(false), pieces, {AnswerFinish::kLength});
  EXPECT_THAT(BodyOf(*exchange), HasSubstr(R"("content":"Wait.")"));
  EXPECT_THAT(BodyOf(*exchange), HasSubstr(R"("arguments":"{\"x\": ")"));
  EXPECT_THAT(BodyOf(*exchange), HasSubstr(R"("finish_reason":"length")"));
}

TEST(OpenAiChat, AnAnswerOfNothingHasEmptyContent) {
  EXPECT_EQ(BodyOf(*Answer(Request(false), {}, {AnswerFinish::kLength})),
            Whole(WholeChoice(R"({"role":"assistant","content":"","refusal":null})", "length")));
  EXPECT_THAT(DataOf(*Answer(Request(true), {}, {AnswerFinish::kLength})),
              ElementsAre(Chunk(kRole), Chunk(Delta("{}", "\"length\"")), "[DONE]"));
}

TEST(OpenAiChat, FunctionsOfOldAreAnsweredInTheirShape) {
  OpenAiChatRequest request = Request(false);
  request.of_old = true;
  const std::vector<AnswerPiece> pieces(TwoCalls().begin(), TwoCalls().begin() + 2);
  EXPECT_EQ(BodyOf(*Answer(request, pieces, {AnswerFinish::kToolCalls})),
            Whole(WholeChoice(R"({"role":"assistant","content":null,"refusal":null,)"
                              R"("function_call":{"name":"find","arguments":"{\"x\": 1}"}})",
                              "function_call")));
  request.stream.stream = true;
  EXPECT_THAT(
      DataOf(*Answer(request, pieces, {AnswerFinish::kToolCalls})),
      ElementsAre(Chunk(kRole), Chunk(Delta(R"({"function_call":{"name":"find","arguments":""}})")),
                  Chunk(Delta(R"({"function_call":{"arguments":"{\"x\": "}})")),
                  Chunk(Delta(R"({"function_call":{"arguments":"1}"}})")),
                  Chunk(Delta("{}", "\"function_call\"")), "[DONE]"));
}

TEST(OpenAiChat, EveryFinishHasItsName) {
  for (const auto& [finish, name] :
       {std::pair(AnswerFinish::kStop, "stop"), std::pair(AnswerFinish::kStopString, "stop"),
        std::pair(AnswerFinish::kLength, "length"),
        std::pair(AnswerFinish::kToolCalls, "tool_calls")}) {
    EXPECT_THAT(BodyOf(*Answer(Request(false), {}, {finish})),
                HasSubstr(fmt::format(R"("finish_reason":"{}")", name)));
    EXPECT_THAT(Answer(Request(true), {}, {finish})->streamed(),
                HasSubstr(fmt::format(R"("finish_reason":"{}")", name)));
  }
}

TEST(OpenAiChat, AFaultIsAnErrorInPlaceOfTheAnswer) {
  for (const auto& [finish, status, type, code] :
       {std::tuple(AnswerFinish::kFailed, 500, "server_error", "device_failed"),
        std::tuple(AnswerFinish::kDeadline, 504, "server_error", "timeout"),
        std::tuple(AnswerFinish::kCancelled, 503, "service_unavailable_error", "cancelled")}) {
    OpenAiChatRequest request = Request(false);
    request.generation.num_choices = 2;
    const std::vector<AnswerPiece> pieces = {Piece({{Kind::kContent, 0, "a"}}),
                                             Piece({{Kind::kContent, 0, "b"}}, 1)};
    const auto whole = Answer(request, pieces, {finish, AnswerFinish::kStop});
    ASSERT_TRUE(whole->response());
    EXPECT_EQ(whole->response()->status, status);
    EXPECT_THAT(whole->response()->body, HasSubstr(fmt::format(R"("type":"{}")", type)));
    EXPECT_THAT(whole->response()->body, HasSubstr(fmt::format(R"("code":"{}")", code)));

    request.stream.stream = true;
    request.stream.include_usage = true;
    const auto streamed = Answer(request, pieces, {finish, AnswerFinish::kStop});
    const std::vector<std::string> data = DataOf(*streamed);
    ASSERT_EQ(data.size(), 7u);  // two roles, two texts, one end, the error, [DONE]
    EXPECT_THAT(data[4],
                HasSubstr(R"("index":1,"delta":{},"logprobs":null,"finish_reason":"stop")"));
    EXPECT_EQ(data[5], whole->response()->body);
    EXPECT_EQ(data[6], "[DONE]");
    EXPECT_TRUE(streamed->finished());
  }
}

TEST(OpenAiChat, ChoicesInterleaveByTheirIndex) {
  OpenAiChatRequest request = Request(true);
  request.generation.num_choices = 2;
  const std::vector<AnswerPiece> pieces = {Piece({{Kind::kContent, 0, "a"}}, 1),
                                           Piece({{Kind::kContent, 0, "b"}}, 0),
                                           Piece({{Kind::kCallStart, 0, "f"}}, 1)};
  const std::vector<AnswerFinish> ends = {AnswerFinish::kStop, AnswerFinish::kToolCalls};
  const std::string role = R"({"role":"assistant","content":""})";
  EXPECT_THAT(
      DataOf(*Answer(request, pieces, ends)),
      ElementsAre(
          Chunk(Delta(role, "null", 1)), Chunk(Delta(R"({"content":"a"})", "null", 1)),
          Chunk(Delta(role, "null", 0)), Chunk(Delta(R"({"content":"b"})", "null", 0)),
          Chunk(Delta(
              fmt::format(
                  R"({{"tool_calls":[{{"index":0,"id":"{}","type":"function","function":{{"name":"f","arguments":""}}}}]}})",
                  CallId("chatcmpl-0a", 1, 0)),
              "null", 1)),
          Chunk(Delta("{}", "\"stop\"", 0)), Chunk(Delta("{}", "\"tool_calls\"", 1)), "[DONE]"));
  request.stream.stream = false;
  EXPECT_EQ(
      BodyOf(*Answer(request, pieces, ends)),
      Whole(
          WholeChoice(R"({"role":"assistant","content":"b","refusal":null})", "stop", 0) + "," +
          WholeChoice(
              fmt::format(
                  R"({{"role":"assistant","content":"a","refusal":null,"tool_calls":[{{"id":"{}",)"
                  R"("type":"function","function":{{"name":"f","arguments":""}}}}]}})",
                  CallId("chatcmpl-0a", 1, 0)),
              "tool_calls", 1)));
}

TEST(OpenAiChat, UsageComesLastWhereItIsAskedFor) {
  OpenAiChatRequest request = Request(true);
  request.stream.include_usage = true;
  const std::vector<AnswerPiece> pieces = {Piece({{Kind::kContent, 0, "a"}})};
  EXPECT_THAT(DataOf(*Answer(request, pieces, {AnswerFinish::kStop})),
              ElementsAre(Chunk(kRole, R"(,"usage":null)"),
                          Chunk(Delta(R"({"content":"a"})"), R"(,"usage":null)"),
                          Chunk(Delta("{}", "\"stop\""), R"(,"usage":null)"),
                          Chunk("", R"(,"usage":)" + std::string(kUsageText)), "[DONE]"));
  request.stream.continuous_usage = true;
  const std::vector<std::string> data = DataOf(*Answer(request, pieces, {AnswerFinish::kStop}));
  ASSERT_EQ(data.size(), 5u);
  EXPECT_THAT(data[1],
              HasSubstr(R"("usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11,)"));
  EXPECT_EQ(data[3], Chunk("", R"(,"usage":)" + std::string(kUsageText)));
}

TEST(OpenAiChat, ProgressOfThePromptHasChunksWithoutChoices) {
  for (const bool wanted : {false, true}) {
    OpenAiChatRequest request = Request(true);
    request.return_progress = wanted;
    const auto exchange = NewExchange();
    const auto sink = NewOpenAiChatSink(exchange, Head(), request);
    sink->OnStart(10);
    EXPECT_TRUE(exchange->stream());
    EXPECT_THAT(exchange->pieces(), IsEmpty());
    sink->OnPrompt(6, 4);
    if (wanted) {
      EXPECT_THAT(
          DataOf(*exchange),
          ElementsAre(Chunk("", R"(,"prompt_progress":{"total":10,"cache":4,"processed":6})")));
    } else {
      EXPECT_THAT(exchange->pieces(), IsEmpty());
    }
  }
}

TEST(OpenAiChat, LogprobsHaveTextAndBytesOfTokens) {
  OpenAiChatRequest request = Request(false);
  request.generation.top_logprobs = 1;
  std::vector<AnswerPiece> pieces = {Piece({}), Piece({{Kind::kContent, 0, "é"}})};
  pieces[0].logprobs = {{.chosen = {1, -0.5f, "\xC3"}, .top = {{2, -kInfinity, "a"}}}};
  pieces[1].logprobs = {{.chosen = {3, -1, "\xA9"}, .top = {}}};
  const std::string first = R"({"token":"�","logprob":-0.5,"bytes":[195],)"
                            R"("top_logprobs":[{"token":"a","logprob":-9999.0,"bytes":[97]}]})";
  const std::string second = R"({"token":"�","logprob":-1.0,"bytes":[169],"top_logprobs":[]})";
  const std::string both = fmt::format(R"({{"content":[{},{}],"refusal":null}})", first, second);
  EXPECT_EQ(
      BodyOf(*Answer(request, pieces, {AnswerFinish::kStop})),
      Whole(WholeChoice(R"({"role":"assistant","content":"é","refusal":null})", "stop", 0, both)));
  EXPECT_THAT(BodyOf(*Answer(request, {}, {AnswerFinish::kStop})),
              HasSubstr(R"("logprobs":{"content":[],"refusal":null})"));

  request.stream.stream = true;
  EXPECT_THAT(DataOf(*Answer(request, pieces, {AnswerFinish::kStop})),
              ElementsAre(Chunk(kRole), Chunk(Delta(R"({"content":"é"})", "null", 0, both)),
                          Chunk(Delta("{}", "\"stop\"")), "[DONE]"));
  pieces.pop_back();
  EXPECT_THAT(DataOf(*Answer(request, pieces, {AnswerFinish::kStop})),
              ElementsAre(Chunk(kRole),
                          Chunk(Delta("{}", "\"stop\"", 0,
                                      R"({"content":[)" + first + R"(],"refusal":null})")),
                          "[DONE]"));
}

// What a client makes of a stream: deltas put together in the shape of a message.
OrderedJson JoinDeltas(const std::vector<std::string>& data, size_t num_choices) {
  OrderedJson messages = OrderedJson::array();
  for (size_t i = 0; i < num_choices; ++i) {
    messages.push_back(
        {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", OrderedJson::array()}});
  }
  for (const std::string& text : data) {
    if (text == "[DONE]") {
      continue;
    }
    const OrderedJson chunk = ParseOrderedJson(text, "chunk").value();
    for (const OrderedJson& choice : chunk["choices"]) {
      OrderedJson& message = messages[choice["index"].get<size_t>()];
      for (const auto& [key, value] : choice["delta"].items()) {
        if (value.is_string() && key != "role") {
          message[key] = message[key].get<std::string>() + value.get<std::string>();
        }
      }
      for (const OrderedJson& call : choice["delta"].value("tool_calls", OrderedJson::array())) {
        OrderedJson& calls = message["tool_calls"];
        const OrderedJson& function = call["function"];
        if (call.contains("id")) {
          EXPECT_EQ(call["index"].get<size_t>(), calls.size());
          calls.push_back({{"id", call["id"]}, {"type", call["type"]}, {"function", function}});
          continue;
        }
        OrderedJson& arguments = calls[call["index"].get<size_t>()]["function"]["arguments"];
        arguments = arguments.get<std::string>() + function["arguments"].get<std::string>();
      }
      if (!choice["finish_reason"].is_null()) {
        message["finish_reason"] = choice["finish_reason"];
      }
    }
  }
  return messages;
}

TEST(OpenAiChat, AStreamPutTogetherIsTheWholeAnswer) {
  std::mt19937 random(7);
  const auto below = [&random](size_t bound) { return random() % bound; };
  constexpr const char* kTexts[] = {"a", "é ", "\"", "\\", "\n", "{\"x\": [1]}", "😀", "｜"};
  for (int round = 0; round < 200; ++round) {
    const size_t num_choices = 1 + below(3);
    std::vector<int> calls(num_choices, 0);
    std::vector<AnswerPiece> pieces;
    for (size_t i = below(20); i > 0; --i) {
      AnswerPiece piece = Piece({}, static_cast<int64_t>(below(num_choices)));
      int& num_calls = calls[static_cast<size_t>(piece.choice)];
      for (size_t j = below(4); j > 0; --j) {
        const std::string text = kTexts[below(std::size(kTexts))];
        switch (below(4)) {
          case 0:
            piece.events.push_back({Kind::kReasoning, 0, text});
            break;
          case 1:
            piece.events.push_back({Kind::kContent, 0, text});
            break;
          case 2:
            piece.events.push_back({Kind::kCallStart, num_calls++, "f"});
            break;
          default:
            if (num_calls > 0) {
              piece.events.push_back({Kind::kCallArguments, num_calls - 1, text});
            }
        }
      }
      pieces.push_back(std::move(piece));
    }
    OpenAiChatRequest request = Request(false);
    request.generation.num_choices = static_cast<int64_t>(num_choices);
    const std::vector<AnswerFinish> ends(num_choices, AnswerFinish::kStop);
    const OrderedJson whole =
        ParseOrderedJson(BodyOf(*Answer(request, pieces, ends)), "body").value();
    request.stream.stream = true;
    const OrderedJson joined = JoinDeltas(DataOf(*Answer(request, pieces, ends)), num_choices);
    for (size_t i = 0; i < num_choices; ++i) {
      const OrderedJson& message = whole["choices"][i]["message"];
      EXPECT_EQ(joined[i]["content"],
                message["content"].is_null() ? OrderedJson("") : message["content"]);
      EXPECT_EQ(joined[i]["reasoning_content"],
                message.value("reasoning_content", OrderedJson("")));
      EXPECT_EQ(joined[i]["tool_calls"], message.value("tool_calls", OrderedJson::array()));
      EXPECT_EQ(joined[i]["finish_reason"], whole["choices"][i]["finish_reason"]);
    }
  }
}

OpenAiCompletionsRequest TextRequest(size_t num_prompts, int64_t num_choices, bool stream) {
  OpenAiCompletionsRequest request;
  request.prompts.resize(num_prompts);
  for (GenerationRequest& prompt : request.prompts) {
    prompt.num_choices = num_choices;
  }
  request.stream.stream = stream;
  return request;
}

std::string Text(const std::string& text, int choice, const std::string& finish_reason,
                 const std::string& logprobs = "null") {
  return fmt::format(R"({{"text":"{}","index":{},"logprobs":{},"finish_reason":{}}})", text, choice,
                     logprobs, finish_reason);
}

std::string TextBody(const std::string& choices, const std::string& behind = "") {
  return R"({"id":"chatcmpl-0a","object":"text_completion","created":1700000000,"model":"deep",)"
         R"("system_fingerprint":"fp_cachalot","choices":[)" +
         choices + "]" + behind + "}";
}

AnswerPiece TextPiece(const std::string& text, int64_t choice = 0) {
  return Piece({{Kind::kContent, 0, text}}, choice);
}

// Two prompts of two choices each, whose answers come in turns.
std::shared_ptr<FakeExchange> AnswerTwoPrompts(const OpenAiCompletionsRequest& request) {
  const auto exchange = NewExchange();
  const auto answer = std::make_shared<OpenAiCompletionsAnswer>(exchange, Head(), request);
  const auto first = OpenAiCompletionsAnswer::SinkOf(answer, 0);
  const auto second = OpenAiCompletionsAnswer::SinkOf(answer, 1);
  first->OnStart(4);
  second->OnStart(6);
  second->OnPiece(TextPiece("c", 0));
  first->OnPiece(TextPiece("a", 0));
  first->OnPiece(TextPiece("b", 1));
  first->OnPiece(TextPiece("a", 0));
  second->OnPiece(TextPiece("d", 1));
  first->OnChoiceEnd(0, {.finish = AnswerFinish::kLength, .stop = {}});
  first->OnChoiceEnd(1, {.finish = AnswerFinish::kStopString, .stop = "."});
  first->OnEnd({.prompt_tokens = 4, .cached_tokens = 1, .completion_tokens = 3});
  EXPECT_FALSE(exchange->response() || exchange->finished());
  second->OnChoiceEnd(0, {});
  second->OnChoiceEnd(1, {});
  second->OnEnd(
      {.prompt_tokens = 6, .cached_tokens = 3, .completion_tokens = 2, .reasoning_tokens = 2});
  return exchange;
}

TEST(OpenAiCompletions, ChoicesOfAllPromptsAreOneList) {
  EXPECT_EQ(BodyOf(*AnswerTwoPrompts(TextRequest(2, 2, false))),
            TextBody(Text("aa", 0, "\"length\"") + "," + Text("b", 1, "\"stop\"") + "," +
                         Text("c", 2, "\"stop\"") + "," + Text("d", 3, "\"stop\""),
                     R"(,"usage":)" + std::string(kUsageText)));
}

TEST(OpenAiCompletions, AStreamHasChunksOfAllPrompts) {
  OpenAiCompletionsRequest request = TextRequest(2, 2, true);
  request.stream.include_usage = true;
  const auto exchange = AnswerTwoPrompts(request);
  std::vector<std::string> expected;
  for (const std::string& choice :
       {Text("c", 2, "null"), Text("a", 0, "null"), Text("b", 1, "null"), Text("a", 0, "null"),
        Text("d", 3, "null"), Text("", 0, "\"length\""), Text("", 1, "\"stop\""),
        Text("", 2, "\"stop\""), Text("", 3, "\"stop\"")}) {
    expected.push_back(TextBody(choice, R"(,"usage":null)"));
  }
  expected.push_back(TextBody("", R"(,"usage":)" + std::string(kUsageText)));
  expected.push_back("[DONE]");
  EXPECT_EQ(DataOf(*exchange), expected);
  EXPECT_TRUE(exchange->finished());
}

TEST(OpenAiCompletions, LogprobsAreParallelLists) {
  const std::vector<LogprobEntry> entries = {
      {.chosen = {1, std::numeric_limits<float>::quiet_NaN(), "é"}, .top = {}},
      {.chosen = {2, -0.5f, "\xE2\x82"}, .top = {{3, -0.25f, "x"}, {2, -0.5f, "\xE2\x82"}}},
      {.chosen = {4, -kInfinity, "\xAC"}, .top = {{3, -0.25f, "x"}}},
      {.chosen = {5, -1, "y"}, .top = {}}};
  for (const bool stream : {false, true}) {
    OpenAiCompletionsRequest request = TextRequest(1, 1, stream);
    request.prompts[0].top_logprobs = 1;
    const auto exchange = NewExchange();
    const auto sink = OpenAiCompletionsAnswer::SinkOf(
        std::make_shared<OpenAiCompletionsAnswer>(exchange, Head(), request), 0);
    sink->OnStart(1);
    AnswerPiece piece = TextPiece("é€");
    piece.logprobs.assign(entries.begin(), entries.begin() + 3);
    sink->OnPiece(piece);
    piece.events.clear();
    piece.logprobs.assign(entries.begin() + 3, entries.end());
    sink->OnPiece(piece);
    sink->OnChoiceEnd(0, {});
    sink->OnEnd(kUsage);
    if (stream) {
      EXPECT_THAT(
          DataOf(*exchange),
          ElementsAre(
              TextBody(Text(
                  "é€", 0, "null",
                  R"({"tokens":["é","bytes:\\xe2\\x82","bytes:\\xac"],"token_logprobs":[null,-0.5,-9999.0],)"
                  R"("top_logprobs":[null,{"x":-0.25,"bytes:\\xe2\\x82":-0.5},{"x":-0.25,"bytes:\\xac":-9999.0}],)"
                  R"("text_offset":[0,1,1]})")),
              TextBody(
                  Text("", 0, "\"stop\"",
                       R"({"tokens":["y"],"token_logprobs":[-1.0],"top_logprobs":[{"y":-1.0}],)"
                       R"("text_offset":[2]})")),
              "[DONE]"));
    } else {
      EXPECT_THAT(BodyOf(*exchange), HasSubstr(R"("token_logprobs":[null,-0.5,-9999.0,-1.0])"));
      EXPECT_THAT(BodyOf(*exchange), HasSubstr(R"("text_offset":[0,1,1,2])"));
    }
  }
}

TEST(OpenAiCompletions, AFaultOfOnePromptIsAnErrorOfAll) {
  for (const bool stream : {false, true}) {
    const auto exchange = NewExchange();
    const auto answer =
        std::make_shared<OpenAiCompletionsAnswer>(exchange, Head(), TextRequest(2, 1, stream));
    const auto first = OpenAiCompletionsAnswer::SinkOf(answer, 0);
    const auto second = OpenAiCompletionsAnswer::SinkOf(answer, 1);
    first->OnStart(1);
    second->OnStart(1);
    first->OnChoiceEnd(0, {.finish = AnswerFinish::kDeadline, .stop = {}});
    first->OnEnd({});
    second->OnPiece(TextPiece("a"));
    second->OnChoiceEnd(0, {});
    second->OnEnd({});
    if (stream) {
      const std::vector<std::string> data = DataOf(*exchange);
      ASSERT_EQ(data.size(), 4u);
      EXPECT_THAT(data[2], HasSubstr(R"({"error":{"message":"the answer was not complete)"));
      EXPECT_EQ(data[3], "[DONE]");
    } else {
      EXPECT_EQ(exchange->response()->status, 504);
    }
  }
}

TEST(OpenAiCompletions, APromptThatCannotStartEndsTheAnswer) {
  const ApiError error(400, "too long", "context_length_exceeded", "prompt");
  for (const bool stream : {false, true}) {
    const auto exchange = NewExchange();
    const auto answer =
        std::make_shared<OpenAiCompletionsAnswer>(exchange, Head(), TextRequest(2, 1, stream));
    const auto first = OpenAiCompletionsAnswer::SinkOf(answer, 0);
    first->OnStart(1);
    answer->Fail(error);
    first->OnPiece(TextPiece("a"));
    first->OnChoiceEnd(0, {});
    first->OnEnd({});
    const std::string body = DumpJson(ErrorBody(Dialect::kOpenAi, error));
    if (stream) {
      EXPECT_THAT(DataOf(*exchange), ElementsAre(body, "[DONE]"));
    } else {
      EXPECT_EQ(exchange->response()->status, 400);
      EXPECT_EQ(BodyOf(*exchange), body);
    }
  }
  const auto exchange = NewExchange();
  OpenAiCompletionsAnswer(exchange, Head(), TextRequest(2, 1, true)).Fail(error);
  EXPECT_EQ(exchange->response()->status, 400);
  EXPECT_FALSE(exchange->stream());
}

TEST(SharedExchange, EachAnswerHearsThatTheClientHasGone) {
  const auto exchange = NewExchange();
  const auto listeners = CloseListeners::Of(*exchange);
  std::vector<int> told;
  SharedExchange(exchange, listeners).OnClose([&] { told.push_back(1); });
  SharedExchange(exchange, listeners).OnClose([&] { told.push_back(2); });
  EXPECT_THAT(told, IsEmpty());
  exchange->Close();
  EXPECT_THAT(told, ElementsAre(1, 2));
  listeners->Close();
  EXPECT_THAT(told, ElementsAre(1, 2));
  SharedExchange(exchange, listeners).OnClose([&] { told.push_back(3); });
  EXPECT_THAT(told, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace cachalot
