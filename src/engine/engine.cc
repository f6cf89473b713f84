#include "engine/engine.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "engine/cache_plan.h"
#include "scheduler/trace.h"

namespace cachalot {
namespace {

// A window page is several times as large as the history of the same tokens, and one in so many is
// worth keeping (PrefixIndex's landmarks).
constexpr double kWindowShare = 1.0 / 8;

Ticks Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status CheckOptions(const EngineOptions& options) {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t most;
  } numbers[] = {{"requests at once", options.max_running, 1, 1 << 16},
                 {"tokens of prompts in a step", options.chunked_prefill_size, 1, 1 << 20},
                 {"waiting requests", options.max_waiting, 0, int64_t{1} << 32},
                 {"bytes of cache", options.cache_bytes, 1, int64_t{1} << 50},
                 {"bytes of host cache", options.host_cache_bytes, 0, int64_t{1} << 50}};
  for (const auto& number : numbers) {
    if (number.value < number.least || number.value > number.most) {
      return MakeError(StatusCode::kInvalidArgument, "{} {}, expected {} to {}", number.value,
                       number.name, number.least, number.most);
    }
  }
  return {};
}

}  // namespace

std::array<int64_t, 2> HostSlotsFor(int64_t bytes, const std::array<int64_t, 2>& part_bytes) {
  std::array<int64_t, 2> slots = {};
  for (size_t part = 0; part < slots.size(); ++part) {
    constexpr int64_t kMost = 1 << 20;
    slots[part] = std::min(bytes / 2 / std::max<int64_t>(part_bytes[part], 1), kMost);
  }
  return slots;
}

Result<std::unique_ptr<Engine>> Engine::New(Device& device, ModelConfig config, Weights weights,
                                            const EngineOptions& options) {
  CACHALOT_RETURN_IF_ERROR(CheckOptions(options));
  StepLoopOptions loop_options;
  SchedulerOptions& scheduler = loop_options.scheduler;
  scheduler.chunk_tokens = RoundUpTo(options.chunked_prefill_size, kPageTokens);
  scheduler.max_context = options.max_context > 0 ? options.max_context : config.max_position;
  scheduler.prefix.enabled = options.prefix_cache;
  const int64_t step_tokens = scheduler.chunk_tokens + options.max_running;
  const CacheShape shape = CacheShapeOf(config);
  CACHALOT_ASSIGN_OR_RETURN(
      const CachePlan plan,
      PlanForBytes(shape, RowLayoutsOf(device, shape), {.max_requests = options.max_running},
                   options.cache_bytes, kWindowShare, step_tokens));
  scheduler.geometry = plan.geometry;
  const ModelConfig model_config = config;
  CACHALOT_ASSIGN_OR_RETURN(Executor executor,
                            Executor::New(device, std::move(config), std::move(weights), plan,
                                          {.max_context = scheduler.max_context,
                                           .max_requests = options.max_running,
                                           .max_step_tokens = step_tokens,
                                           .graph = options.graph,
                                           .capture_sizes = options.capture_sizes}));
  if (options.prefix_cache) {
    const CachePools& pools = executor.pools();
    scheduler.prefix.host_slots =
        HostSlotsFor(options.host_cache_bytes,
                     {pools.part_bytes(PagePart::kHistory), pools.part_bytes(PagePart::kWindow)});
  }
  CACHALOT_RETURN_IF_ERROR(CheckSchedulerOptions(scheduler));
  loop_options.plan_ahead = options.plan_ahead;
  loop_options.before_plan = options.before_plan;
  auto loop =
      std::make_unique<StepLoop>(std::make_unique<Executor>(std::move(executor)), loop_options);
  if (options.on_trace) {
    options.on_trace(TraceHeader(scheduler));
    loop->scheduler().Observe(
        [on_trace = options.on_trace](const SchedulerEvent& event) { on_trace(TraceLine(event)); });
  }
  return std::unique_ptr<Engine>(
      new Engine(std::move(loop), plan, model_config, scheduler, options.max_waiting));
}

Engine::Engine(std::unique_ptr<StepLoop> loop, const CachePlan& plan, const ModelConfig& config,
               const SchedulerOptions& scheduler, int64_t max_waiting)
    : plan_(plan),
      config_(config),
      scheduler_options_(scheduler),
      max_waiting_(max_waiting),
      loop_(std::move(loop)),
      thread_([this] { Run(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

Result<RequestId> Engine::Submit(EngineRequest request) {
  CACHALOT_RETURN_IF_ERROR(CheckSamplingParams(request.sampling));
  CACHALOT_RETURN_IF_ERROR(CheckSamplingIds(request.sampling, config_.vocab_size));
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= config_.vocab_size) {
      return MakeError(StatusCode::kInvalidArgument,
                       "token {} of the prompt is {}, expected 0 to {}", i, request.prompt[i],
                       config_.vocab_size - 1);
    }
  }
  if (request.top_logprobs &&
      (*request.top_logprobs < 0 || *request.top_logprobs > kMaxTopLogprobs)) {
    return MakeError(StatusCode::kInvalidArgument, "top_logprobs is {}, expected 0 to {}",
                     *request.top_logprobs, kMaxTopLogprobs);
  }
  if (request.timeout && !(*request.timeout >= 0 && *request.timeout < 1e9)) {
    return MakeError(StatusCode::kInvalidArgument, "timeout is {} seconds, expected 0 to 1e9",
                     *request.timeout);
  }
  CACHALOT_CHECK(request.listener != nullptr);
  RequestSpec spec;
  spec.prompt = request.prompt;
  spec.max_new_tokens = request.max_new_tokens;
  CACHALOT_RETURN_IF_ERROR(CheckRequest(scheduler_options_, spec));

  RequestId id;
  {
    const std::lock_guard lock(mutex_);
    const int64_t waiting = static_cast<int64_t>(arrivals_.size()) + stats_.scheduler.waiting;
    if (waiting >= max_waiting_) {
      return MakeError(StatusCode::kResourceExhausted, "the queue is full: {} requests wait",
                       waiting);
    }
    id = RequestId(next_id_++);
    arrivals_.push_back({id, std::move(request), Now()});
  }
  arrived_.notify_one();
  return id;
}

void Engine::Cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  arrived_.notify_one();
}

void Engine::Drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !busy_ && arrivals_.empty(); });
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string Engine::LeakReport() {
  Drain();
  std::string report;
  std::unique_lock lock(mutex_);
  bool done = false;
  calls_.push_back([&] {
    report = loop_->scheduler().LeakReport();
    done = true;
  });
  arrived_.notify_one();
  idle_.wait(lock, [&] { return done; });
  return report;
}

bool Engine::TakeArrivals() {
  std::unique_lock lock(mutex_);
  const auto something = [&] {
    return stopping_ || !arrivals_.empty() || !cancelled_.empty() || !calls_.empty();
  };
  if (!busy_) {
    arrived_.wait(lock, something);
  }
  for (const auto& call : std::exchange(calls_, {})) {
    call();
  }
  std::vector<Arrival> arrivals = std::exchange(arrivals_, {});
  const std::vector<RequestId> cancelled = std::exchange(cancelled_, {});
  const bool stopping = stopping_;
  busy_ = busy_ || !arrivals.empty();
  // What is on its way counts as waiting until the loop's own count has it.
  stats_.scheduler.waiting += static_cast<int64_t>(arrivals.size());
  idle_.notify_all();
  lock.unlock();
  for (Arrival& arrival : arrivals) {
    loop_->Submit(arrival.id, std::move(arrival.request), arrival.at);
  }
  for (const RequestId id : cancelled) {
    loop_->Cancel(id);
  }
  return !stopping;
}

void Engine::Run() {
  bool goes_on = true;
  while (goes_on) {
    goes_on = TakeArrivals();
    if (!goes_on) {
      loop_->CancelAll();
    }
    bool busy = loop_->Step(Now());
    while (busy && !goes_on) {
      busy = loop_->Step(Now());
    }
    const std::lock_guard lock(mutex_);
    stats_ = {.scheduler = loop_->scheduler().stats(),
              .prefix = loop_->scheduler().index().stats(),
              .graph = loop_->executor().graph_stats(),
              .times = loop_->times(),
              .host_bytes_moved = loop_->host_bytes_moved()};
    busy_ = busy;
    if (!busy) {
      idle_.notify_all();
    }
  }
}

}  // namespace cachalot
