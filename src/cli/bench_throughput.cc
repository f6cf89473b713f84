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
  Crowd(ModelRunner& runner, int64_t batch) : runner_(runner) {
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

  ModelRunner& runner_;
  std::vector<RequestSlot> slots_;
  std::mt19937 random_{20260401};
};

// The least time that the machine's limits allow for steps of these costs.
void SetLimit(const cpu::MachineLimits& machine, double tokens, StepCost cost,
              ThroughputResult* result) {
  const double memory = cost.bytes / machine.stream_bytes_per_second;
  const double fma = cost.flops / machine.fma_flops_per_second;
  result->limit = memory > fma ? "memory" : "fma";
  result->limit_tokens_per_second = tokens / std::max(memory, fma);
}

StepCost CostOfPrefill(const ModelConfig& config, int64_t count) {
  StepCost total;
  for (int64_t done = 0; done < count; done += kThroughputStepTokens) {
    const int64_t step = std::min(kThroughputStepTokens, count - done);
    const StepCost cost = CostOfStep(config, step, done + step == count ? 1 : 0);
    total.bytes += cost.bytes;
    total.flops += cost.flops;
  }
  return total;
}

template <typename Work>
Status Repeat(int64_t repetitions, double tokens, const Work& work, ThroughputResult* result) {
  for (int64_t repetition = 0; repetition < repetitions; ++repetition) {
    const auto begin = std::chrono::steady_clock::now();
    CACHALOT_RETURN_IF_ERROR(work());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    result->tokens_per_second.push_back(tokens / passed.count());
  }
  return {};
}

int64_t Largest(const std::vector<int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

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
  // A warm-up and every test of a depth go on from one another.
  int64_t context = Largest(options.depths) + kThroughputStepTokens;
  for (const auto* counts : {&options.prompts, &options.generates}) {
    for (const int64_t count : *counts) {
      context += (options.repetitions + 1) * count;
    }
  }
  for (const int64_t threads : options.threads) {
    ModelFlags with_threads = flags;
    with_threads.num_threads = static_cast<int>(threads);
    CACHALOT_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa(flags.isa));
    if (isa < cpu::Isa::kAvx2) {
      return MakeError(StatusCode::kUnsupported,
                       "bench needs AVX2: the limits are measured with it");
    }
    cpu::MachineLimits machine;
    {
      ThreadPool pool(static_cast<int>(threads));
      machine = cpu::MeasureLimits(pool, isa);
    }
    CACHALOT_ASSIGN_OR_RETURN(const LoadedModel loaded,
                              LoadModel(with_threads,
                                        {.max_context = context,
                                         .max_requests = Largest(options.batches),
                                         .max_step_tokens = kThroughputStepTokens},
                                        /*warm=*/true));
    ModelRunner& runner = *loaded.runner;
    for (const int64_t depth : options.depths) {
      for (const int64_t batch : options.batches) {
        Crowd crowd(runner, batch);
        CACHALOT_RETURN_IF_ERROR(crowd.Prefill(std::max<int64_t>(depth, 1)));
        for (const int64_t count : options.prompts) {
          ThroughputResult result = {fmt::format("pp{}", count), threads, depth, batch, {}, {}, 0};
          const auto tokens = static_cast<double>(count * batch);
          StepCost cost = CostOfPrefill(runner.config(), count);
          cost.bytes *= static_cast<double>(batch);
          cost.flops *= static_cast<double>(batch);
          SetLimit(machine, tokens, cost, &result);
          CACHALOT_RETURN_IF_ERROR(crowd.Prefill(count));
          CACHALOT_RETURN_IF_ERROR(Repeat(
              options.repetitions, tokens, [&] { return crowd.Prefill(count); }, &result));
          report(result);
        }
        for (const int64_t count : options.generates) {
          ThroughputResult result = {fmt::format("tg{}", count), threads, depth, batch, {}, {}, 0};
          SetLimit(machine, static_cast<double>(batch), CostOfStep(runner.config(), batch, batch),
                   &result);
          CACHALOT_RETURN_IF_ERROR(crowd.Decode(std::min<int64_t>(count, 8)));
          CACHALOT_RETURN_IF_ERROR(Repeat(
              options.repetitions, static_cast<double>(count * batch),
              [&] { return crowd.Decode(count); }, &result));
          report(result);
        }
      }
    }
  }
  return {};
}

}  // namespace cachalot
