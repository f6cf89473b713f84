#include "engine/engine.h"

#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"
#include "engine/cache_plan.h"
#include "model/place_weights.h"
#include "scheduler/trace.h"

namespace cachalot {
namespace {

// A window page is several times as large as the history of the same tokens, and one in so many is
// worth keeping (PrefixIndex's landmarks).
constexpr double kWindowShare = 1.0 / 8;

// Where all requests wait for the disk, how soon one that is overdue ends.
constexpr std::chrono::milliseconds kDeadlineInterval(20);

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
                 {"waiting requests", options.max_waiting, 1, 1 << 29},
                 {"tokens of context", options.max_context, 0, int64_t{1} << 40},
                 {"bytes of cache", options.cache_bytes, 0, int64_t{1} << 50},
                 {"tokens of cache", options.cache_tokens, 0, int64_t{1} << 40},
                 {"bytes of host cache", options.host_cache_bytes, 0, int64_t{1} << 50}};
  for (const auto& number : numbers) {
    if (number.value < number.least || number.value > number.most) {
      return MakeError(StatusCode::kInvalidArgument, "{} {}, expected {} to {}", number.value,
                       number.name, number.least, number.most);
    }
  }
  if (options.state == StateKind::kPaged && options.prefix_cache) {
    return MakeError(StatusCode::kUnsupported,
                     "paged state together with a prefix cache, which needs the state of prefixes: "
                     "expected one of them alone");
  }
  return {};
}

// Tokens of a step at most.
int64_t StepTokensOf(const EngineOptions& options) {
  return RoundUpTo(options.chunked_prefill_size, kPageTokens) + options.max_running;
}

// What is on disk is good for these weights, rows and kernels alone.
Result<std::unique_ptr<DiskTier>> OpenDisk(const EngineOptions& options, const Executor& executor,
                                           const Device& device,
                                           const std::array<int64_t, 2>& part_bytes,
                                           SchedulerOptions& scheduler) {
  PrefixOptions& prefix = scheduler.prefix;
  if (prefix.host_slots[0] == 0 || prefix.host_slots[1] == 0) {
    return MakeError(StatusCode::kInvalidArgument,
                     "a disk cache is read by way of the host cache, which needs {} bytes at least",
                     2 * std::max(part_bytes[0], part_bytes[1]));
  }
  if (options.on_trace) {
    return MakeError(StatusCode::kUnsupported,
                     "no trace together with a disk cache: it could not be replayed");
  }
  DiskTierOptions disk;
  disk.folder = options.disk_cache_folder;
  disk.max_bytes = options.disk_cache_bytes;
  disk.part_bytes = part_bytes;
  const std::string weights = HexOf(PageKey{executor.weights().Fingerprint()});
  disk.root = RootKey(
      fmt::format("{} on {}, rows {} {}", weights, device.name(), part_bytes[0], part_bytes[1]));
  CACHALOT_ASSIGN_OR_RETURN(prefix.disk_slots, PlanSlabs(disk));
  prefix.root = disk.root;
  return DiskTier::Open(disk);
}

std::vector<CachePoolUse> UseOf(const CacheAllocator& cache) {
  std::vector<CachePoolUse> uses;
  for (const CachePool pool : kCachePools) {
    const PageAllocator& pages = cache.allocator(pool);
    if (pages.num_pages() > 0) {
      uses.push_back(
          {NameOf(pool), pages.num_pages(), pages.num_pages() - pages.available_pages()});
    }
  }
  return uses;
}

}  // namespace

Result<CachePlan> PlanCache(const Device& device, const ModelConfig& config,
                            const EngineOptions& options) {
  CACHALOT_RETURN_IF_ERROR(CheckOptions(options));
  const CacheShape shape = CacheShapeOf(ConfigOn(device, config));
  const CacheRows rows = RowLayoutsOf(device, shape);
  const int64_t step_tokens = StepTokensOf(options);
  const CacheOptions cache = {
      .max_requests = options.max_running, .step_tokens = step_tokens, .state = options.state};
  if (options.cache_tokens == 0) {
    return PlanForBytes(shape, rows, cache, options.cache_bytes, kWindowShare);
  }
  const auto share = static_cast<int64_t>(kWindowShare * static_cast<double>(options.cache_tokens));
  return PlanForTokens(shape, rows, cache, options.cache_tokens,
                       std::max(share, WindowTokensFor(shape, options.max_running, step_tokens)));
}

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
  CACHALOT_ASSIGN_OR_RETURN(const CachePlan plan, PlanCache(device, config, options));
  StepLoopOptions loop_options;
  SchedulerOptions& scheduler = loop_options.scheduler;
  scheduler.chunk_tokens = RoundUpTo(options.chunked_prefill_size, kPageTokens);
  scheduler.max_context = options.max_context > 0 ? options.max_context : config.max_position;
  // The queue's bound is the engine's; retracted requests are beside it.
  scheduler.max_waiting = options.max_waiting + options.max_running;
  scheduler.prefix.enabled = options.prefix_cache;
  scheduler.geometry = plan.geometry;
  const ModelConfig model_config = config;
  CACHALOT_ASSIGN_OR_RETURN(Executor executor,
                            Executor::New(device, std::move(config), std::move(weights), plan,
                                          {.max_context = scheduler.max_context,
                                           .max_requests = options.max_running,
                                           .max_step_tokens = StepTokensOf(options),
                                           .graph = options.graph,
                                           .capture_sizes = options.capture_sizes}));
  const std::array<int64_t, 2> part_bytes = {executor.pools().part_bytes(PagePart::kHistory),
                                             executor.pools().part_bytes(PagePart::kWindow)};
  std::unique_ptr<DiskTier> disk;
  if (options.prefix_cache) {
    scheduler.prefix.host_slots = HostSlotsFor(options.host_cache_bytes, part_bytes);
    if (!options.disk_cache_folder.empty()) {
      CACHALOT_ASSIGN_OR_RETURN(disk, OpenDisk(options, executor, device, part_bytes, scheduler));
    }
  }
  CACHALOT_RETURN_IF_ERROR(CheckSchedulerOptions(scheduler));
  loop_options.plan_ahead = options.plan_ahead;
  loop_options.before_plan = options.before_plan;
  loop_options.disk = disk.get();
  std::unique_ptr<Engine> engine(
      new Engine(plan, model_config, scheduler, options.max_waiting, std::move(disk)));
  loop_options.on_fetched = [engine = engine.get()](int64_t fetch, bool ok) {
    {
      const std::lock_guard lock(engine->mutex_);
      engine->fetched_.emplace_back(fetch, ok);
    }
    engine->arrived_.notify_one();
  };
  engine->loop_ =
      std::make_unique<StepLoop>(std::make_unique<Executor>(std::move(executor)), loop_options);
  if (options.on_trace) {
    options.on_trace(TraceHeader(scheduler));
    engine->loop_->scheduler().Observe(
        [on_trace = options.on_trace](const SchedulerEvent& event) { on_trace(TraceLine(event)); });
  }
  engine->thread_ = std::thread([engine = engine.get()] { engine->Run(); });
  return engine;
}

Engine::Engine(const CachePlan& plan, const ModelConfig& config, const SchedulerOptions& scheduler,
               int64_t max_waiting, std::unique_ptr<DiskTier> disk)
    : plan_(plan),
      config_(config),
      scheduler_options_(scheduler),
      max_waiting_(max_waiting),
      disk_(std::move(disk)) {}

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
    if (stopping_) {
      return MakeError(StatusCode::kResourceExhausted,
                       "the engine takes no more requests: it ends");
    }
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
    return stopping_ || !arrivals_.empty() || !cancelled_.empty() || !calls_.empty() ||
           !fetched_.empty();
  };
  if (!busy_) {
    arrived_.wait(lock, something);
  } else if (waits_) {
    arrived_.wait_for(lock, kDeadlineInterval, something);
  }
  for (const auto& call : std::exchange(calls_, {})) {
    call();
  }
  std::vector<Arrival> arrivals = std::exchange(arrivals_, {});
  const std::vector<RequestId> cancelled = std::exchange(cancelled_, {});
  const std::vector<std::pair<int64_t, bool>> fetched = std::exchange(fetched_, {});
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
  for (const auto& [fetch, ok] : fetched) {
    loop_->Fetched(fetch, ok);
  }
  return !stopping;
}

void Engine::Run() {
  NameThisThread("engine");
  bool stops = false;
  for (auto turn = StepLoop::Turn::kIdle; !stops || turn != StepLoop::Turn::kIdle;) {
    if (!TakeArrivals() && !std::exchange(stops, true)) {
      loop_->CancelAll();
    }
    BeginTurn();
    turn = loop_->Step(Now());
    PublishStats(turn);
  }
}

void Engine::BeginTurn() {
  const std::lock_guard lock(mutex_);
  turn_began_ = Now();
}

double Engine::step_seconds() const {
  const std::lock_guard lock(mutex_);
  return turn_began_ == 0 ? 0 : static_cast<double>(Now() - turn_began_) * 1e-9;
}

void Engine::PublishStats(StepLoop::Turn turn) {
  const std::lock_guard lock(mutex_);
  turn_began_ = 0;
  stats_ = {.scheduler = loop_->scheduler().stats(),
            .pools = UseOf(loop_->scheduler().cache()),
            .prefix = loop_->scheduler().index().stats(),
            .graph = loop_->executor().graph_stats(),
            .times = loop_->times(),
            .host_bytes_moved = loop_->host_bytes_moved(),
            .disk = disk_ ? disk_->stats() : DiskTierStats()};
  busy_ = turn != StepLoop::Turn::kIdle;
  waits_ = turn == StepLoop::Turn::kWaits;
  if (!busy_) {
    idle_.notify_all();
  }
}

}  // namespace cachalot
