#include "server/generator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <random>
#include <utility>

#include "io/utf8.h"
#include "metrics/server_metrics.h"
#include "sampling/seed.h"
#include "server/choice_listener.h"
#include "server/effort.h"
#include "server/encode_prompt.h"

namespace cachalot {
namespace {

constexpr int64_t kTurnMemoryBytes = int64_t{64} << 20;
constexpr size_t kMaxShownBytes = 100;  // of a model's name in an error

FinishedReason ReasonOf(AnswerFinish finish) {
  switch (finish) {
    case AnswerFinish::kStop:
    case AnswerFinish::kStopString:
    case AnswerFinish::kToolCalls:
      return FinishedReason::kStop;
    case AnswerFinish::kLength:
      return FinishedReason::kLength;
    case AnswerFinish::kCancelled:
      return FinishedReason::kAbort;
    case AnswerFinish::kDeadline:
      return FinishedReason::kTimeout;
    case AnswerFinish::kFailed:
      break;
  }
  return FinishedReason::kError;
}

std::string_view NameOf(AnswerFinish finish) {
  switch (finish) {
    case AnswerFinish::kStop:
      return "stop";
    case AnswerFinish::kStopString:
      return "stop_string";
    case AnswerFinish::kToolCalls:
      return "tool_calls";
    case AnswerFinish::kLength:
      return "length";
    case AnswerFinish::kCancelled:
      return "cancelled";
    case AnswerFinish::kDeadline:
      return "deadline";
    case AnswerFinish::kFailed:
      break;
  }
  return "failed";
}

// Between the engine's thread and the sink's: one request's choices, on their way.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Engine& engine, ServerMetrics& metrics, std::shared_ptr<HttpExchange> exchange,
             std::shared_ptr<AnswerSink> sink, int64_t num_choices)
      : engine_(engine),
        metrics_(metrics),
        exchange_(std::move(exchange)),
        sink_(std::move(sink)),
        left_(num_choices) {}

  // Choices that the engine has taken; cancelled at once where the client has gone meanwhile.
  void Submitted(RequestId id) {
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
    if (cancelled_) {
      engine_.Cancel(id);
    }
  }
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const RequestId id : ids_) {
      engine_.Cancel(id);
    }
  }

  // What is told before Open waits for it, and is lost without it: all choices are taken or none is.
  void Open(int64_t prompt_tokens) {
    const std::lock_guard lock(mutex_);
    exchange_->Post(
        [self = shared_from_this(), prompt_tokens] { self->sink_->OnStart(prompt_tokens); });
    for (auto& work : std::exchange(held_, {})) {
      exchange_->Post(std::move(work));
    }
    open_ = true;
  }
  void Tell(std::function<void(AnswerSink& sink)> what) {
    auto work = [self = shared_from_this(), what = std::move(what)] { what(*self->sink_); };
    const std::lock_guard lock(mutex_);
    if (open_) {
      exchange_->Post(std::move(work));
    } else {
      held_.emplace_back(std::move(work));
    }
  }
  void ChoiceEnded(int64_t choice, const AnswerEnd& end, const AnswerUsage& usage,
                   const RequestClock& clock) {
    AnswerUsage total;
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      usage_.prompt_tokens = usage.prompt_tokens;
      if (choice == 0) {  // the others find what it has left
        usage_.cached_tokens = usage.cached_tokens;
        clock_ = clock;
      }
      usage_.completion_tokens += usage.completion_tokens;
      usage_.reasoning_tokens += usage.reasoning_tokens;
      is_last = --left_ == 0;
      total = usage_;
    }
    if (is_last) {
      Record(end, total);
    }
    Tell([choice, end](AnswerSink& sink) { sink.OnChoiceEnd(choice, end); });
    if (is_last) {
      Tell([total](AnswerSink& sink) { sink.OnEnd(total); });
    }
  }

 private:
  // For metrics and the log: a request ends as its last choice does.
  void Record(const AnswerEnd& end, const AnswerUsage& usage) {
    const auto since_arrival = [&](const std::optional<RequestClock::Clock::time_point>& when) {
      return when ? std::optional(Seconds(*when - clock_.arrived)) : std::nullopt;
    };
    RequestTimes times;
    times.reason = ReasonOf(end.finish);
    times.queued_seconds = since_arrival(clock_.first_step);
    times.first_token_seconds = since_arrival(clock_.first_token);
    times.total_seconds = Seconds(RequestClock::Clock::now() - clock_.arrived);
    times.prompt_tokens = usage.prompt_tokens;
    times.completion_tokens = usage.completion_tokens;
    metrics_.OnRequestEnd(times);
    exchange_->Annotate("prompt", std::to_string(usage.prompt_tokens));
    exchange_->Annotate("cached", std::to_string(usage.cached_tokens));
    exchange_->Annotate("answer", std::to_string(usage.completion_tokens));
    if (times.first_token_seconds) {
      exchange_->Annotate("ttft", fmt::format("{:.3f}", *times.first_token_seconds));
    }
    exchange_->Annotate("end", std::string(NameOf(end.finish)));
  }

  Engine& engine_;
  ServerMetrics& metrics_;
  const std::shared_ptr<HttpExchange> exchange_;
  const std::shared_ptr<AnswerSink> sink_;
  std::mutex mutex_;
  std::vector<RequestId> ids_;
  std::vector<std::function<void()>> held_;
  AnswerUsage usage_;
  RequestClock clock_;  // of the first choice
  int64_t left_;
  bool open_ = false;
  bool cancelled_ = false;
};

ChoiceEvents EventsTo(const std::shared_ptr<Generation>& generation, int64_t choice) {
  ChoiceEvents events;
  events.on_prompt = [generation, choice](int64_t done, int64_t cached) {
    if (choice == 0) {
      generation->Tell([done, cached](AnswerSink& to) { to.OnPrompt(done, cached); });
    }
  };
  events.on_piece = [generation](AnswerPiece piece) {
    generation->Tell([piece = std::move(piece)](AnswerSink& to) { to.OnPiece(piece); });
  };
  events.on_end = [generation, choice](const AnswerEnd& end, const AnswerUsage& usage,
                                       const RequestClock& clock) {
    generation->ChoiceEnded(choice, end, usage, clock);
  };
  return events;
}

EngineRequest EngineRequestOf(const GenerationRequest& request, const std::vector<int32_t>& prompt,
                              int64_t choice, int64_t max_context) {
  EngineRequest engine;
  engine.prompt = prompt;
  engine.sampling = request.sampling;
  engine.sampling.seed = ChoiceSeed(request.sampling.seed, choice);
  engine.max_new_tokens = request.max_new_tokens.value_or(max_context);
  engine.top_logprobs = request.top_logprobs;
  engine.prompt_logprobs = request.echo && request.top_logprobs.has_value();
  engine.priority =
      static_cast<int32_t>(std::clamp<int64_t>(request.priority, INT32_MIN, INT32_MAX));
  engine.timeout = request.timeout_seconds;
  return engine;
}

}  // namespace

Result<std::unique_ptr<Generator>> Generator::New(Engine& engine, ServedModel model,
                                                  ServerMetrics& metrics) {
  CACHALOT_ASSIGN_OR_RETURN(
      Constraints constraints,
      Constraints::New(*model.tokenizer, model.defaults.sampling, model.defaults.vocab_size));
  return std::unique_ptr<Generator>(
      new Generator(engine, std::move(model), metrics, std::move(constraints)));
}

Generator::Generator(Engine& engine, ServedModel model, ServerMetrics& metrics,
                     Constraints constraints)
    : engine_(engine),
      model_(std::move(model)),
      metrics_(metrics),
      constraints_(std::move(constraints)),
      turns_(std::make_shared<TurnMemory>(kTurnMemoryBytes)) {}

ApiResult<std::string> Generator::ModelName(const JsonFields& fields) const {
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> name, fields.Text("model"));
  if (!name || name->empty() || *name == model_.name) {
    return model_.name;
  }
  if (!model_.any_name) {
    return tl::unexpected(ApiError(404,
                                   fmt::format("no model \"{}\" here, expected \"{}\"",
                                               Utf8Prefix(*name, kMaxShownBytes), model_.name),
                                   "model_not_found", "model"));
  }
  return *name;
}

ThinkingMode Generator::ModeOf(const GenerationRequest& request) const {
  const auto* chat = std::get_if<ChatInput>(&request.input);
  const bool thinks = chat != nullptr && chat->thinking.enabled.value_or(model_.thinks_by_default);
  return thinks ? ThinkingMode::kThinking : ThinkingMode::kChat;
}

ApiResult<std::vector<int32_t>> Generator::PromptOf(const GenerationRequest& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
    return *ids;
  }
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    CACHALOT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, model_.tokenizer->Encode(*text));
    return ids;
  }
  const auto& chat = std::get<ChatInput>(request.input);
  PromptOptions options;
  options.thinking_mode = ModeOf(request);
  CACHALOT_ASSIGN_OR_RETURN(options.reasoning_effort,
                            EffortLevel(model_.wording, chat.thinking.effort));
  std::vector<Message> messages = chat.messages;
  for (Message& message : messages) {
    message.written = turns_->Find(message);
  }
  CACHALOT_ASSIGN_OR_RETURN(const Prompt prompt, EncodeMessages(messages, options, model_.wording));
  CACHALOT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, EncodePrompt(*model_.tokenizer, prompt));
  return ids;
}

ApiResult<int64_t> Generator::CountPromptTokens(const GenerationRequest& request) const {
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptOf(request));
  return static_cast<int64_t>(prompt.size());
}

ApiStatus Generator::Start(GenerationRequest request, const std::string& answer_id,
                           std::shared_ptr<HttpExchange> exchange,
                           std::shared_ptr<AnswerSink> sink) {
  RequestClock clock;
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptOf(request));
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  if (prompt_tokens >= engine_.max_context()) {
    // An answer that the context cuts short is no fault of the client's: many ask for the most.
    return tl::unexpected(ApiError(
        400,
        fmt::format("the prompt has {} tokens, but the context, the answer included, is {} tokens",
                    prompt_tokens, engine_.max_context()),
        "context_length_exceeded", "messages"));
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<AnswerRules> rules,
                            constraints_.RulesOf(request, ModeOf(request)));
  ChoiceSettings settings = SettingsOf(request, answer_id, prompt);
  const auto generation = std::make_shared<Generation>(engine_, metrics_, exchange, std::move(sink),
                                                       request.num_choices);
  exchange->OnClose([weak = std::weak_ptr(generation)] {
    if (const auto kept = weak.lock()) {
      kept->Cancel();
    }
  });
  for (int64_t choice = 0; choice < request.num_choices; ++choice) {
    settings.choice = choice;
    EngineRequest submitted = EngineRequestOf(request, prompt, choice, engine_.max_context());
    submitted.listener =
        std::make_unique<ChoiceListener>(settings, EventsTo(generation, choice), clock);
    if (rules) {
      submitted.constraint = constraints_.NewConstraint(*rules);
    }
    const auto id = engine_.Submit(std::move(submitted));
    if (!id) {
      generation->Cancel();
      return tl::unexpected(ApiError(id.error()));
    }
    generation->Submitted(*id);
  }
  generation->Open(prompt_tokens);
  return {};
}

ChoiceSettings Generator::SettingsOf(const GenerationRequest& request, const std::string& answer_id,
                                     const std::vector<int32_t>& prompt) const {
  ChoiceSettings settings;
  settings.answer_id = answer_id;
  settings.tokenizer = model_.tokenizer;
  settings.stop = request.stop;
  settings.metrics = &metrics_;
  if (const auto* chat = std::get_if<ChatInput>(&request.input); chat != nullptr) {
    settings.chat = ModeOf(request);
    settings.parallel_calls = chat->tools.parallel;
    settings.think_close = constraints_.think_close();
    settings.turns = turns_;
  }
  if (request.echo) {
    settings.echo = prompt;
    settings.echo_logprobs = request.top_logprobs.has_value();
  }
  return settings;
}

RequestDefaults Generator::NewDefaults() const {
  RequestDefaults defaults = model_.defaults;
  thread_local std::random_device random;
  defaults.sampling.seed = uint64_t{random()} << 32 | random();
  return defaults;
}

std::string NewId(std::string_view prefix) {
  thread_local std::random_device random;
  std::string id(prefix);
  for (int i = 0; i < 4; ++i) {
    id += fmt::format("{:08x}", random());
  }
  return id;
}

}  // namespace cachalot
