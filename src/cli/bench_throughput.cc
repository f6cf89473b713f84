#include "cli/bench_throughput.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/check.h"
#include "checkpoint/footprint.h"

namespace cachalot {
namespace {

// Requests of equal length that grow together.
class Crowd {
 public:
  Crowd(Device& device, ModelRunner& runner, int64_t batch) : device_(device), runner_(runner) {
    for (int64_t i = 0; i < batch; ++i) {
      const auto slot = runner.Open();
      CACHALOT_CHECK(slot.has_value());
      slots_.push_back(*slot);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (const RequestSlot slot : slots_) {
      runner_.Close(slot);
    }
  }

  int64_t length() const { return runner_.length(slots_.front()); }

  // `count` tokens for each request that nobody runs.
  Status Fill(int64_t count) {
    for (const RequestSlot slot : slots_) {
      CACHALOT_RETURN_IF_ERROR(runner_.FillWithNoise(device_, slot, count));
    }
    return {};
  }

  // `count` tokens for each request, one request after the other, in steps of kThroughputStepTokens; logits
  // of each last token.
  Status Prefill(int64_t count) {
    std::vector<float> logits;
    for (const RequestSlot slot : slots_) {
      int64_t last = 0;
      for (int64_t done = 0; done < count; done += last) {
        last = std::min(kThroughputStepTokens, count - done);
        const std::vector<int32_t> ids = RandomIds(last);
        const RequestTokens step = {slot, ids};
        CACHALOT_RETURN_IF_ERROR(runner_.Forward({&step, 1}));
      }
      CACHALOT_RETURN_IF_ERROR(runner_.Logits(last - 1, last, &logits));
    }
    return {};
  }

  // `count` steps of one token for each request, with logits.
  Status Decode(int64_t count) {
    const auto batch = static_cast<int64_t>(slots_.size());
    std::vector<float> logits;
    for (int64_t step = 0; step < count; ++step) {
      const std::vector<int32_t> ids = RandomIds(batch);
      std::vector<RequestTokens> tokens;
      for (size_t i = 0; i < slots_.size(); ++i) {
        tokens.push_back({slots_[i], std::span(ids).subspan(i, 1)});
      }
      CACHALOT_RETURN_IF_ERROR(runner_.Forward(tokens));
      CACHALOT_RETURN_IF_ERROR(runner_.Logits(0, batch, &logits));
    }
    return {};
  }

 private:
  std::vector<int32_t> RandomIds(int64_t count) {
    std::uniform_int_distribution<int32_t> any(
        0, static_cast<int32_t>(runner_.config().vocab_size) - 1);
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) {
      id = any(random_);
    }
    return ids;
  }

  Device& device_;
  ModelRunner& runner_;
  std::vector<RequestSlot> slots_;
  std::mt19937 random_{20260401};
};

// The least time that the machine's limits allow for steps of these costs.
void SetLimit(const cpu::MachineLimits& machine, double tokens, StepCost cost,
              ThroughputResult* result) {
  const OperatorCost work{cost.bytes, cost.flops};
  result->limit = machine.Binding(work);
  result->limit_tokens_per_second = tokens / machine.SecondsFor(work);
}

void Add(const StepCost& cost, double times, StepCost* total) {
  total->bytes += times * cost.bytes;
  total->flops += times * cost.flops;
}

// Of `batch` requests that each have `position` tokens, one after the other.
StepCost CostOfPrefill(const ModelConfig& config, int64_t batch, int64_t position, int64_t count) {
  StepCost total;
  for (int64_t done = 0; done < count; done += kThroughputStepTokens) {
    const int64_t step = std::min(kThroughputStepTokens, count - done);
    Add(CostOfStep(config, step, done + step == count ? 1 : 0), static_cast<double>(batch), &total);
    Add(CostOfAttention(config, position + done, step), static_cast<double>(batch), &total);
  }
  return total;
}

// Of one step.
StepCost CostOfDecode(const ModelConfig& config, int64_t batch, int64_t position) {
  StepCost total = CostOfStep(config, batch, batch);
  Add(CostOfAttention(config, position, 1), static_cast<double>(batch), &total);
  return total;
}

int64_t Largest(const std::vector<int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// A warm-up and every test of a depth go on from one another.
int64_t LongestContext(const ThroughputOptions& options) {
  int64_t context = Largest(options.depths) + kThroughputStepTokens;
  for (const auto* counts : {&options.prompts, &options.generates}) {
    for (const int64_t count : *counts) {
      context += (options.repetitions + 1) * count;
    }
  }
  return context;
}

// All tests of one number of threads.
class Bench {
 public:
  Bench(const LoadedModel& loaded, const ThroughputOptions& options,
        const cpu::MachineLimits& machine, int64_t threads, OperatorProfile* profile,
        const std::function<void(const ThroughputResult&)>& report)
      : device_(*loaded.device),
        runner_(*loaded.runner),
        options_(options),
        machine_(machine),
        threads_(threads),
        profile_(profile),
        report_(report) {}

  Status Run() {
    for (const int64_t depth : options_.depths) {
      for (const int64_t batch : options_.batches) {
        Crowd crowd(device_, runner_, batch);
        CACHALOT_RETURN_IF_ERROR(crowd.Fill(depth));
        for (const int64_t count : options_.prompts) {
          CACHALOT_RETURN_IF_ERROR(TestPrefill(crowd, depth, batch, count));
        }
        for (const int64_t count : options_.generates) {
          CACHALOT_RETURN_IF_ERROR(TestDecode(crowd, depth, batch, count));
        }
      }
    }
    return {};
  }

 private:
  Status TestPrefill(Crowd& crowd, int64_t depth, int64_t batch, int64_t count) {
    ThroughputResult result = NewResult(fmt::format("pp{}", count), depth, batch);
    const auto tokens = static_cast<double>(count * batch);
    CACHALOT_RETURN_IF_ERROR(crowd.Prefill(count));
    const int64_t middle = crowd.length() + (options_.repetitions - 1) * count / 2;
    SetLimit(machine_, tokens, CostOfPrefill(runner_.config(), batch, middle, count), &result);
    return Repeat(
        tokens, [&] { return crowd.Prefill(count); }, &result);
  }

  Status TestDecode(Crowd& crowd, int64_t depth, int64_t batch, int64_t count) {
    ThroughputResult result = NewResult(fmt::format("tg{}", count), depth, batch);
    CACHALOT_RETURN_IF_ERROR(crowd.Decode(std::min<int64_t>(count, 8)));
    const int64_t middle = crowd.length() + options_.repetitions * count / 2;
    SetLimit(machine_, static_cast<double>(batch), CostOfDecode(runner_.config(), batch, middle),
             &result);
    return Repeat(
        static_cast<double>(count * batch), [&] { return crowd.Decode(count); }, &result);
  }

  ThroughputResult NewResult(std::string test, int64_t depth, int64_t batch) const {
    ThroughputResult result;
    result.test = std::move(test);
    result.threads = threads_;
    result.depth = depth;
    result.batch = batch;
    result.machine = machine_;
    return result;
  }

  template <typename Work>
  Status Repeat(double tokens, const Work& work, ThroughputResult* result) {
    profile_->Clear();
    for (int64_t repetition = 0; repetition < options_.repetitions; ++repetition) {
      const auto begin = std::chrono::steady_clock::now();
      CACHALOT_RETURN_IF_ERROR(work());
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      result->tokens_per_second.push_back(tokens / passed.count());
      result->seconds += passed.count();
    }
    result->profile = profile_->times();
    report_(*result);
    return {};
  }

  Device& device_;
  ModelRunner& runner_;
  const ThroughputOptions& options_;
  const cpu::MachineLimits machine_;
  const int64_t threads_;
  OperatorProfile* profile_;
  const std::function<void(const ThroughputResult&)>& report_;
};

}  // namespace

double ThroughputResult::median() const {
  CACHALOT_CHECK(!tokens_per_second.empty());
  std::vector<double> sorted = tokens_per_second;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

Status RunThroughput(const ModelFlags& flags, const ThroughputOptions& options,
                     const std::function<void(const ThroughputResult&)>& report) {
  CACHALOT_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa(flags.isa));
  if (isa < cpu::Isa::kAvx2) {
    return MakeError(StatusCode::kUnsupported, "bench needs AVX2: the limits are measured with it");
  }
  for (const int64_t threads : options.threads) {
    cpu::MachineLimits machine;
    {
      ThreadPool pool(static_cast<int>(threads));
      machine = cpu::MeasureLimits(pool, isa);
    }
    OperatorProfile profile;
    ModelFlags with_threads = flags;
    with_threads.num_threads = static_cast<int>(threads);
    CACHALOT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(with_threads));
    if (options.profile) {
      device = ProfiledDevice(std::move(device), &profile);
    }
    CACHALOT_ASSIGN_OR_RETURN(const LoadedModel loaded,
                              LoadModel(std::move(device), flags,
                                        {.max_context = LongestContext(options),
                                         .max_requests = Largest(options.batches),
                                         .max_step_tokens = kThroughputStepTokens},
                                        /*warm=*/true));
    Bench bench(loaded, options, machine, threads, &profile, report);
    CACHALOT_RETURN_IF_ERROR(bench.Run());
  }
  return {};
}

}  // namespace cachalot
