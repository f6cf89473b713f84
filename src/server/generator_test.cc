// From a request to an answer, with models/calf.
#include "server/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "backends/cpu/cpu_device.h"
#include "metrics/server_metrics.h"
#include "server/effort.h"
#include "server/fake_exchange.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using Kind = CompletionEvent::Kind;

const std::string kCalf = CACHALOT_SOURCE_DIR "/models/calf";

// Everything that was told of one answer.
class Listener final : public AnswerSink {
 public:
  void OnStart(int64_t prompt_tokens) override { prompt_tokens_ = prompt_tokens; }
  void OnPiece(const AnswerPiece& piece) override {
    EXPECT_GE(prompt_tokens_, 0) << "a piece before the start";
    for (const CompletionEvent& event : piece.events) {
      AppendEvent(events, event);
    }
    tokens += piece.tokens;
    logprobs += static_cast<int64_t>(piece.logprobs.size());
  }
  void OnChoiceEnd(int64_t /*choice*/, const AnswerEnd& choice_end) override { end = choice_end; }
  void OnEnd(const AnswerUsage& total) override {
    usage = total;
    done_.set_value();
  }

  void Wait() { done_.get_future().wait(); }
  std::string Text(Kind kind) const {
    std::string text;
    for (const CompletionEvent& event : events) {
      text += event.kind == kind ? event.text : "";
    }
    return text;
  }

  std::vector<CompletionEvent> events;
  int64_t tokens = 0;
  int64_t logprobs = 0;
  AnswerEnd end;
  AnswerUsage usage;

 private:
  int64_t prompt_tokens_ = -1;
  std::promise<void> done_;
};

class GeneratorScene : public testing::Test {
 protected:
  static constexpr int64_t kContext = 1024;

  void SetUp() override {
    ModelConfig config = *LoadModelConfig(kCalf);
    Weights weights = *Weights::Load(kCalf, config);
    ServedModel model;
    model.name = "calf";
    model.any_name = false;
    model.tokenizer =
        std::make_shared<const Tokenizer>(*Tokenizer::Load(kCalf + "/tokenizer.json"));
    model.wording = *LoadPromptWording(kCalf);
    model.defaults.vocab_size = config.vocab_size;
    model.defaults.sampling.temperature = 0;
    model.defaults.sampling.stop_ids = {static_cast<int32_t>(config.eos_token)};
    EngineOptions options;
    options.max_running = 4;
    options.max_context = kContext;
    options.cache_bytes = 64 << 20;
    options.max_waiting = 2;
    engine_ = *Engine::New(*device_, std::move(config), std::move(weights), options);
    generator_ = *Generator::New(*engine_, std::move(model), metrics_);
  }
  void TearDown() override {
    engine_->Drain();
    EXPECT_EQ(engine_->LeakReport(), "");
  }

  GenerationRequest Ask(std::vector<Message> messages, int64_t most = 60) const {
    GenerationRequest request;
    request.input = ChatInput{.messages = std::move(messages), .thinking = {}, .tools = {}};
    request.sampling = generator_->NewDefaults().sampling;
    request.max_new_tokens = most;
    return request;
  }
  static Message User(std::string text) {
    return {.role = Role::kUser, .content = std::move(text)};
  }
  static Message WithAlarm() {
    Message system;
    system.role = Role::kSystem;
    system.tools = {*ParseOrderedJson(
        R"({"name": "set_alarm", "description": "Set an alarm", "parameters": {"type": "object",
            "properties": {"hour": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["hour", "label"]}})",
        "tool")};
    return system;
  }

  std::shared_ptr<Listener> Answer(GenerationRequest request,
                                   const std::string& id = "chatcmpl-1") {
    auto listener = std::make_shared<Listener>();
    const ApiStatus started =
        generator_->Start(std::move(request), id, FakeExchange::Post("/v1/x", "{}"), listener);
    EXPECT_TRUE(started) << started.error().message;
    listener->Wait();
    return listener;
  }

  const std::unique_ptr<Device> device_ = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
  ServerMetrics metrics_{{.version = "1", .device = "cpu", .model = "calf"}};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Generator> generator_;
};

TEST_F(GeneratorScene, Answers) {
  GenerationRequest request = Ask({User("What is the capital of France?")});
  request.top_logprobs = 1;
  const auto heard = Answer(std::move(request));
  EXPECT_THAT(heard->Text(Kind::kContent), HasSubstr("Paris"));
  EXPECT_EQ(heard->end.finish, AnswerFinish::kStop);
  EXPECT_EQ(heard->tokens, heard->usage.completion_tokens);
  EXPECT_EQ(heard->logprobs, heard->usage.completion_tokens);
  EXPECT_EQ(heard->usage.reasoning_tokens, 0);

  GenerationRequest stopped = Ask({User("What is the capital of France?")});
  stopped.stop = {"Par"};
  const auto cut = Answer(std::move(stopped));
  EXPECT_THAT(cut->Text(Kind::kContent), Not(HasSubstr("Par")));
  EXPECT_EQ(cut->end.finish, AnswerFinish::kStopString);
  EXPECT_EQ(cut->end.stop, "Par");
  EXPECT_THAT(metrics_.Text(), HasSubstr("finished_reason=\"stop\"} 2"));
}

TEST_F(GeneratorScene, ThinksAsLongAsItMay) {
  GenerationRequest request = Ask({User("What is 91 + 30?")}, 200);
  std::get<ChatInput>(request.input).thinking = {.enabled = true, .effort = "low", .budget = 5};
  const auto heard = Answer(std::move(request));
  EXPECT_EQ(heard->usage.reasoning_tokens, 5);
  EXPECT_NE(heard->Text(Kind::kReasoning), "");
  EXPECT_NE(heard->Text(Kind::kContent), "");
}

TEST_F(GeneratorScene, WritesWhatASchemaAllows) {
  GenerationRequest request = Ask({User("Who are you?")}, 100);
  request.format.kind = AnswerFormat::Kind::kJsonSchema;
  request.format.schema = *ParseOrderedJson(
      R"({"type": "object", "properties": {"kind": {"enum": ["calf", "cow"]}}, "required": ["kind"]})",
      "schema");
  const auto heard = Answer(std::move(request));
  EXPECT_EQ(heard->end.finish, AnswerFinish::kStop);
  const auto json = ParseJson(heard->Text(Kind::kContent), "answer");
  ASSERT_TRUE(json);
  EXPECT_THAT((*json)["kind"].get<std::string>(), testing::AnyOf("calf", "cow"));
}

// A call comes back as a client has read and written it again; the prompt has it as the model wrote it.
TEST_F(GeneratorScene, RemembersTheTokensOfItsCalls) {
  const std::vector<Message> messages = {WithAlarm(), User("Set an alarm at 7 for school.")};
  GenerationRequest request = Ask(messages);
  std::get<ChatInput>(request.input).tools.choice = ToolPolicy::Choice::kRequired;
  std::vector<int32_t> whole = *generator_->PromptOf(request);
  const auto heard = Answer(std::move(request), "chatcmpl-7");
  ASSERT_EQ(heard->end.finish, AnswerFinish::kToolCalls);
  EXPECT_EQ(heard->Text(Kind::kCallStart), "set_alarm");
  const auto arguments = ParseJson(heard->Text(Kind::kCallArguments), "arguments");
  ASSERT_TRUE(arguments);

  Message call;
  call.role = Role::kAssistant;
  call.tool_calls = {{.id = CallId("chatcmpl-7", 0, 0),
                      .name = "set_alarm",
                      .arguments = DumpJson(*arguments, 4)}};
  std::vector<Message> next = messages;
  next.push_back(call);
  next.push_back({.role = Role::kTool, .content = "done", .tool_call_id = call.tool_calls[0].id});
  const std::vector<int32_t> prompt = *generator_->PromptOf(Ask(next));
  const int64_t kept = heard->usage.completion_tokens;
  ASSERT_GT(prompt.size(), whole.size() + static_cast<size_t>(kept));
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), prompt.begin()));
  EXPECT_EQ(prompt[whole.size() + static_cast<size_t>(kept)], 1);  // the end of its sentence

  next[2].tool_calls[0].arguments = R"({"other": 8})";
  EXPECT_NE(*generator_->PromptOf(Ask(next)), prompt);
}

TEST_F(GeneratorScene, RefusesWhatCannotRun) {
  std::string words;
  for (int i = 0; i < kContext; ++i) {
    words += "lake ";
  }
  const auto start = [&](GenerationRequest request) {
    return generator_->Start(std::move(request), "a-1", FakeExchange::Post("/v1/x", "{}"),
                             std::make_shared<Listener>());
  };
  const ApiStatus too_long = start(Ask({User(words)}));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().status, 400);
  EXPECT_EQ(too_long.error().code, "context_length_exceeded");
  EXPECT_THAT(too_long.error().message, HasSubstr("1024"));

  GenerationRequest no_schema = Ask({User("Hi")});
  no_schema.format = {AnswerFormat::Kind::kJsonSchema, OrderedJson(false)};
  EXPECT_EQ(start(std::move(no_schema)).error().status, 400);

  Message nameless = WithAlarm();
  nameless.tools[0]["name"] = 1;
  GenerationRequest forced = Ask({nameless, User("Hi")});
  std::get<ChatInput>(forced.input).tools.choice = ToolPolicy::Choice::kRequired;
  EXPECT_EQ(start(std::move(forced)).error().status, 400);

  GenerationRequest odd = Ask({User("Hi")});
  std::get<ChatInput>(odd.input).thinking = {.enabled = true, .effort = "much", .budget = {}};
  EXPECT_EQ(start(std::move(odd)).error().param, "reasoning_effort");

  const OrderedJson other = {{"model", "whale"}};
  EXPECT_EQ(generator_->ModelName(JsonFields(other)).error().status, 404);
}

// All of the choices are taken, or none is, and then nobody hears of any.
TEST_F(GeneratorScene, TakesAllChoicesOrNone) {
  GenerationRequest request = Ask({User("Tell me a story about a fox.")}, 300);
  request.num_choices = 100;
  const auto listener = std::make_shared<Listener>();
  const ApiStatus started =
      generator_->Start(std::move(request), "a-1", FakeExchange::Post("/v1/x", "{}"), listener);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().status, 429);
  engine_->Drain();
  EXPECT_TRUE(listener->events.empty());
}

TEST_F(GeneratorScene, EndsWithItsClient) {
  const auto exchange = FakeExchange::Post("/v1/x", "{}");
  const auto listener = std::make_shared<Listener>();
  ASSERT_TRUE(generator_->Start(Ask({User("Tell me a story about a fox.")}, 900), "a-1", exchange,
                                listener));
  exchange->Close();
  listener->Wait();
  EXPECT_EQ(listener->end.finish, AnswerFinish::kCancelled);
}

TEST(Effort, IsTheNearestLevelThatTheWordingHas) {
  PromptWording wording;
  EXPECT_EQ(EffortLevel(wording, "high").value(), "");
  wording.effort_prefixes = {{"high", ""}, {"max", "Think."}, {"zen", "Om."}};
  for (const auto& [said, level] : {std::pair("", ""),
                                    {"minimal", "high"},
                                    {"low", "high"},
                                    {"medium", "high"},
                                    {"high", "high"},
                                    {"xhigh", "high"},
                                    {"max", "max"},
                                    {"zen", "zen"}}) {
    EXPECT_EQ(EffortLevel(wording, said).value(), level) << said;
  }
  EXPECT_THAT(EffortLevel(wording, std::string(1000, 'x')).error().message,
              HasSubstr(std::string(100, 'x') + "\", expected none, minimal"));
}

}  // namespace
}  // namespace cachalot
