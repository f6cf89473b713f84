#include "cli/generate_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sampling/seed.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

RequestDefaults Defaults() {
  RequestDefaults defaults;
  defaults.vocab_size = 100;
  defaults.sampling.temperature = 0.6;
  defaults.sampling.top_p = 0.95;
  defaults.sampling.seed = 40;
  defaults.sampling.stop_ids = {1};
  defaults.sampling.banned_ids = std::make_shared<const std::vector<int32_t>>(1, 99);
  return defaults;
}

Result<GenerateRequest> Parse(std::string_view line) {
  return ParseGenerateRequest(line, "in.jsonl: line 7", 7, Defaults());
}

// A good request with these fields.
Result<GenerateRequest> With(const std::string& fields) {
  return Parse(R"({"id": "a", "prompt": "p", )" + fields + "}");
}

TEST(GenerateRequest, TakesTheDefaultsWhereALineSaysNothing) {
  const auto request = Parse(R"({"id": "a", "prompt": "Once"})").value();
  EXPECT_EQ(std::get<std::string>(request.id), "a");
  EXPECT_EQ(std::get<std::string>(request.input), "Once");
  EXPECT_EQ(request.sampling.temperature, 0.6);
  EXPECT_EQ(request.sampling.top_p, 0.95);
  EXPECT_EQ(request.sampling.seed, ChoiceSeed(40, 7));
  EXPECT_THAT(request.sampling.stop_ids, ElementsAre(1));
  EXPECT_THAT(*request.sampling.banned_ids, ElementsAre(99));
  EXPECT_FALSE(request.max_new_tokens);
  EXPECT_FALSE(request.top_logprobs);
  EXPECT_FALSE(request.timeout_seconds);
  EXPECT_EQ(request.num_choices, 1);
  EXPECT_FALSE(request.echo);
}

TEST(GenerateRequest, ReadsEveryField) {
  const auto request = With(R"(
      "max_tokens": 64, "min_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 20,
      "min_p": 0.1, "seed": -3, "frequency_penalty": 1.5, "presence_penalty": -1,
      "repetition_penalty": 1.1, "logit_bias": {"5": -100, "17": 2.5}, "stop": ["x", "yz"],
      "stop_token_ids": [4, 6], "n": 128, "logprobs": true, "top_logprobs": 20, "echo": true,
      "priority": -2, "timeout": 1.5, "user": {"name": "unknown fields are ignored"},
      "best_of": null)")
                           .value();
  EXPECT_EQ(request.max_new_tokens, 64);
  EXPECT_EQ(request.sampling.min_new_tokens, 3);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 20);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(request.sampling.frequency_penalty, 1.5);
  EXPECT_EQ(request.sampling.presence_penalty, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(LogitBias{5, -100}, LogitBias{17, 2.5}));
  EXPECT_THAT(request.stop, ElementsAre("x", "yz"));
  EXPECT_THAT(request.sampling.stop_ids, ElementsAre(1, 4, 6));
  EXPECT_EQ(request.num_choices, 128);
  EXPECT_EQ(request.top_logprobs, 20);
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.timeout_seconds, 1.5);
}

TEST(GenerateRequest, KnowsOtherSpellings) {
  EXPECT_EQ(With(R"("max_completion_tokens": 5)")->max_new_tokens, 5);
  EXPECT_EQ(With(R"("max_new_tokens": 6, "max_tokens": null)")->max_new_tokens, 6);
  EXPECT_THAT(With(R"("stop": "x")")->stop, ElementsAre("x"));
  EXPECT_EQ(With(R"("logprobs": 0)")->top_logprobs, 0);
  EXPECT_EQ(With(R"("logprobs": 5)")->top_logprobs, 5);
  EXPECT_EQ(With(R"("logprobs": true)")->top_logprobs, 0);
  EXPECT_FALSE(With(R"("logprobs": false)")->top_logprobs);
  EXPECT_EQ(With(R"("top_k": -1)")->sampling.top_k, 0);
  EXPECT_THAT(With(R"("ignore_eos": true, "stop_token_ids": [4])")->sampling.stop_ids,
              ElementsAre(4));
}

TEST(GenerateRequest, ReadsTokenIds) {
  const auto request = Parse(R"({"id": -12, "token_ids": [0, 99, 5]})").value();
  EXPECT_EQ(std::get<int64_t>(request.id), -12);
  EXPECT_THAT(std::get<std::vector<int32_t>>(request.input), ElementsAre(0, 99, 5));
}

TEST(GenerateRequest, ReadsMessagesWithTools) {
  const auto request = Parse(R"({"id": 1, "messages": [{"role": "user", "content": "Hi"}],
      "tools": [{"type": "function", "function": {"name": "f"}}], "thinking": true,
      "reasoning_effort": "high"})")
                           .value();
  const auto& chat = std::get<ChatInput>(request.input);
  ASSERT_EQ(chat.messages.size(), 2U);  // the tools' system message is first
  EXPECT_EQ(chat.messages[0].tools.size(), 1U);
  EXPECT_EQ(chat.messages[1].content, "Hi");
  EXPECT_EQ(chat.thinking.enabled, true);
  EXPECT_EQ(chat.thinking.effort, "high");
  EXPECT_EQ(std::get<ChatInput>(Parse(R"({"id": 1, "messages": [{"role": "user"}]})")->input)
                .thinking.enabled,
            std::nullopt);
}

struct FaultCase {
  const char* fields;
  const char* message;
};

TEST(GenerateRequest, FaultsNameTheFieldTheValueAndWhatWasExpected) {
  for (const auto& [fields, message] : {
           FaultCase{R"("max_tokens": 0)", "max_tokens is 0, expected an integer of 1 or more"},
           FaultCase{R"("max_tokens": 1.5)", "max_tokens is 1.5, expected an integer of 1 or more"},
           FaultCase{R"("max_tokens": 1, "max_new_tokens": 1)",
                     "max_new_tokens stands beside max_tokens, expected one of them"},
           FaultCase{R"("max_tokens": 4, "min_tokens": 5)",
                     "min_tokens is 5, expected at most the 4 of max_tokens"},
           FaultCase{R"("min_tokens": -1)", "min_tokens is -1, expected an integer of 0 or more"},
           FaultCase{R"("temperature": "hot")", "temperature is \"hot\", expected a number"},
           FaultCase{R"("temperature": NaN)", "temperature is nan, expected 0 to 100"},
           FaultCase{R"("temperature": -0.1)", "temperature is -0.1, expected 0 to 100"},
           FaultCase{R"("top_p": 1.1)", "top_p is 1.1, expected 0 to 1"},
           FaultCase{R"("top_k": -2)", "top_k is -2, expected an integer of -1 or more"},
           FaultCase{R"("min_p": true)", "min_p is true, expected a number"},
           FaultCase{R"("seed": 1e3)", "seed is 1000.0, expected an integer"},
           FaultCase{R"("seed": 9223372036854775808)",
                     "seed is 9223372036854775808, expected an integer"},
           FaultCase{R"("seed": 99999999999999999999999)",
                     "seed is 99999999999999999999999, expected an integer"},
           FaultCase{R"("frequency_penalty": 3)", "frequency_penalty is 3, expected -2 to 2"},
           FaultCase{R"("presence_penalty": -3)", "presence_penalty is -3, expected -2 to 2"},
           FaultCase{R"("repetition_penalty": 0)",
                     "repetition_penalty is 0, expected above 0 and at most 10"},
           FaultCase{R"("logit_bias": [1])",
                     "logit_bias is [1], expected an object of token ids and biases"},
           FaultCase{R"("logit_bias": {"x": 1})",
                     "a key of logit_bias is \"x\", expected a token id from 0 to 99"},
           FaultCase{R"("logit_bias": {"1 ": 1})",
                     "a key of logit_bias is \"1 \", expected a token id from 0 to 99"},
           FaultCase{R"("logit_bias": {"100": 1})",
                     "a key of logit_bias is \"100\", expected a token id from 0 to 99"},
           FaultCase{R"("logit_bias": {"3": "1"})", "logit_bias.3 is \"1\", expected a number"},
           FaultCase{R"("logit_bias": {"3": 101})",
                     "logit_bias of token 3 is 101, expected -100 to 100"},
           FaultCase{R"("stop": 1)",
                     "stop is 1, expected a string that is not empty, or a list of such"},
           FaultCase{R"("stop": ["a", ""])",
                     "stop is \"\", expected a string that is not empty, or"},
           FaultCase{
               R"("stop": ["", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", ""])",
               "stop has 17 strings, expected at most 16"},
           FaultCase{R"("stop_token_ids": 5)", "stop_token_ids is 5, expected a list of token ids"},
           FaultCase{R"("stop_token_ids": [5, 100])",
                     "stop_token_ids[1] is 100, expected a token id from 0 to 99"},
           FaultCase{R"("ignore_eos": 1)", "ignore_eos is 1, expected true or false"},
           FaultCase{R"("n": 0)", "n is 0, expected an integer from 1 to 128"},
           FaultCase{R"("n": 129)", "n is 129, expected an integer from 1 to 128"},
           FaultCase{R"("logprobs": 21)", "logprobs is 21, expected an integer from 0 to 20"},
           FaultCase{R"("logprobs": "all")",
                     "logprobs is \"all\", expected true, false or an integer from 0 to 20"},
           FaultCase{R"("top_logprobs": 2)",
                     "top_logprobs is 2, expected \"logprobs\": true beside it"},
           FaultCase{R"("logprobs": true, "top_logprobs": 21)",
                     "top_logprobs is 21, expected an integer from 0 to 20"},
           FaultCase{R"("echo": "yes")", "echo is \"yes\", expected true or false"},
           FaultCase{R"("priority": "x")", "priority is \"x\", expected an integer"},
           FaultCase{R"("timeout": 0)", "timeout is 0, expected seconds above 0"},
           FaultCase{R"("timeout": Infinity)", "timeout is Infinity, expected seconds above 0"},
           FaultCase{R"("tools": [])", "tools is [], expected it beside messages alone"},
           FaultCase{R"("thinking": false)",
                     "thinking is false, expected it beside messages alone"},
           FaultCase{R"("token_ids": [1])",
                     "more than one of prompt, token_ids, messages, expected exactly one"},
       }) {
    const auto request = With(fields);
    ASSERT_FALSE(request) << fields;
    EXPECT_THAT(request.error().message, StartsWith(std::string("in.jsonl: line 7: ") + message));
  }
}

TEST(GenerateRequest, FaultsOfTheLineItself) {
  for (const auto& [line, message] : {
           FaultCase{"[]", "array, expected an object"},
           FaultCase{"{", "JSON damaged at byte 1 of 1"},
           FaultCase{"{} {}", "JSON damaged at byte 3 of 5"},
           FaultCase{"\"\xFF\"", "JSON is not valid UTF-8"},
           FaultCase{R"({"prompt": "p"})", "id is missing, expected a string or an integer"},
           FaultCase{R"({"id": 1.0, "prompt": "p"})", "id is 1.0, expected a string or an integer"},
           FaultCase{R"({"id": 9223372036854775808, "prompt": "p"})",
                     "id is 9223372036854775808, expected a string or an integer"},
           FaultCase{R"({"id": 1})", "none of prompt, token_ids, messages, expected exactly one"},
           FaultCase{R"({"id": 1, "prompt": ["p"]})", "prompt is [\"p\"], expected a string"},
           FaultCase{R"({"id": 1, "token_ids": []})", "token_ids is [], expected at least one"},
           FaultCase{R"({"id": 1, "token_ids": [1, -1]})",
                     "token_ids[1] is -1, expected a token id from 0 to 99"},
           FaultCase{R"({"id": 1, "token_ids": [1.0]})", "token_ids[0] is 1.0, expected"},
           FaultCase{R"({"id": 1, "token_ids": [18446744073709551615]})",
                     "token_ids[0] is 18446744073709551615, expected"},
           FaultCase{R"({"id": 1, "messages": [{"role": "robot"}]})",
                     "messages[0].role is \"robot\", expected one of"},
           FaultCase{R"({"id": 1, "messages": [{"role": "user"}], "thinking": "yes"})",
                     "thinking is \"yes\", expected true or false"},
       }) {
    const auto request = Parse(line);
    ASSERT_FALSE(request) << line;
    EXPECT_THAT(request.error().message, StartsWith(std::string("in.jsonl: line 7: ") + message));
  }
}

TEST(GenerateRequest, ShowsAtMostAHundredBytesOfAValue) {
  const std::string euros = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
      text += "€";
    }
    return text;
  }();
  const std::string message = With("\"temperature\": \"" + euros + "\"").error().message;
  // The quote and 33 characters of three bytes.
  EXPECT_EQ(message,
            "in.jsonl: line 7: temperature is \"" + euros.substr(0, 99) + "…, expected a number");
  EXPECT_LT(Parse(R"({"id": 1, "messages": [{"role": ")" + euros + "\"}]}").error().message.size(),
            300U);
  EXPECT_LT(With("\"logit_bias\": {\"" + euros + "\": 1}").error().message.size(), 300U);
  EXPECT_LT(With("\"logit_bias\": {\"1\": \"" + euros + "\"}").error().message.size(), 300U);
}

TEST(GenerateRequest, RefusesDeepNestingAndHugeLines) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_THAT(With("\"user\": " + deep).error().message, HasSubstr("nested deeper than 512"));
  EXPECT_EQ(Parse(std::string(kMaxRequestBytes + 1, ' ')).error().message,
            "in.jsonl: line 7: 67108865 bytes, expected at most 67108864");
}

TEST(GenerateRequests, AreTheLinesThatAreNotBlank) {
  const auto requests = ParseGenerateRequests(
                            "{\"id\": 1, \"prompt\": \"a\"}\r\n\n  \t\r\n"
                            "{\"id\": \"1\", \"prompt\": \"b\"}",
                            "in.jsonl", Defaults())
                            .value();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(std::get<std::string>(requests[1].input), "b");
  EXPECT_EQ(requests[0].sampling.seed, ChoiceSeed(40, 1));
  EXPECT_EQ(requests[1].sampling.seed, ChoiceSeed(40, 4));
  EXPECT_TRUE(ParseGenerateRequests("", "in.jsonl", Defaults())->empty());
}

TEST(GenerateRequests, FaultsNameTheLine) {
  const auto message = [](std::string_view text) {
    return ParseGenerateRequests(text, "in.jsonl", Defaults()).error().message;
  };
  EXPECT_THAT(message("{\"id\": 1, \"prompt\": \"a\"}\n\n{\"id\": 2}\n"),
              StartsWith("in.jsonl: line 3: none of prompt"));
  EXPECT_EQ(message("{\"id\": \"x\", \"prompt\": \"a\"}\n\n{\"id\": \"x\", \"prompt\": \"b\"}"),
            "in.jsonl: line 3: id is \"x\", which line 1 has, expected one of its own");
}

TEST(GenerateRequests, AreReadFromAFile) {
  const std::string path = testing::TempDir() + "requests.jsonl";
  std::ofstream(path) << "{\"id\": 1, \"prompt\": \"a\"}\n";
  EXPECT_EQ(ReadGenerateRequests(path, Defaults())->size(), 1U);
  std::ofstream(path) << "";
  EXPECT_TRUE(ReadGenerateRequests(path, Defaults())->empty());
  EXPECT_THAT(ReadGenerateRequests("/no/such/file", Defaults()).error().message,
              HasSubstr("/no/such/file: cannot open"));
}

}  // namespace
}  // namespace cachalot
