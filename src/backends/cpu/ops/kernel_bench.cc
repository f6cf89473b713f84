#include "backends/cpu/ops/kernel_bench.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>

#include "backends/cpu/ops/attention/problems.h"
#include "backends/cpu/ops/bounds.h"
#include "backends/cpu/ops/compressor/problems.h"
#include "backends/cpu/ops/experts/problems.h"
#include "backends/cpu/ops/hc_head/problems.h"
#include "backends/cpu/ops/hc_post/problems.h"
#include "backends/cpu/ops/hc_pre/problems.h"
#include "backends/cpu/ops/indexer/problems.h"
#include "backends/cpu/ops/linear/problems.h"
#include "backends/cpu/ops/moe_gate/problems.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/rms_norm/problems.h"
#include "backends/cpu/ops/rope/problems.h"
#include "backends/cpu/ops/store_rows/problems.h"
#include "numeric/difference.h"

namespace cachalot::cpu {
namespace {

// Tokens of a large problem that go through the reference, which is slow.
constexpr int64_t kCheckedTokens = 1;

// Reads so much else that nothing of a problem is left in any cache.
class CacheFlusher {
 public:
  CacheFlusher()
      : words_(
            static_cast<size_t>(std::max<int64_t>(64 << 20, 2 * ::sysconf(_SC_LEVEL3_CACHE_SIZE))) /
                sizeof(uint64_t),
            0x5A) {}

  void Flush(ThreadPool& pool) {
    constexpr int64_t kLine = 64 / sizeof(uint64_t);
    pool.ParallelFor(static_cast<int64_t>(words_.size()) / kLine, [&](int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t line = begin; line < end; ++line) {
        sum += words_[static_cast<size_t>(line * kLine)];
      }
      sum_ += sum;
    });
  }

 private:
  std::vector<uint64_t> words_;
  std::atomic<uint64_t> sum_ = 0;
};

// What the reference left of the tokens that are checked.
struct Wanted {
  int64_t tokens = 0;
  int64_t begin = 0;  // the first of those that are checked
  std::vector<std::vector<float>> values;
  std::vector<std::string> bytes;
};

class Bench {
 public:
  Bench(const KernelBenchOptions& options, const std::function<void(const KernelResult&)>& report)
      : options_(options), report_(report) {
    for (const int64_t threads : options.threads) {
      ThreadPool pool(static_cast<int>(threads));
      const CallerPin pin(pool);
      machine_[threads] = MeasureLimits(pool, DetectIsa());
    }
  }

  template <typename Params>
  void Add(const char* op, std::span<const Variant<Params>> variants,
           std::vector<Problem<Params>> large, std::vector<Problem<Params>> small) {
    if (!options_.op.empty() && options_.op != op) {
      return;
    }
    for (const Problem<Params>& problem : large) {
      Run(op, variants, problem, options_.check_all ? kAllTokens : kCheckedTokens);
    }
    if (options_.test_problems) {
      for (const Problem<Params>& problem : small) {
        Run(op, variants, problem, kAllTokens);
      }
    }
  }

 private:
  static constexpr int64_t kAllTokens = std::numeric_limits<int64_t>::max();

  bool Takes(Isa isa) const {
    if (options_.isas.empty()) {
      return isa != Isa::kRef && isa <= DetectIsa();
    }
    return std::find(options_.isas.begin(), options_.isas.end(), isa) != options_.isas.end();
  }

  // The rows of an output that belong to the tokens from `begin` on.
  static Output From(int64_t begin, const Output& output) {
    if (begin == 0) {
      return output;
    }
    return {output.name, output.tensor.Rows(begin, output.tensor.shape[0]), {}};
  }

  template <typename Params>
  Wanted RunReference(const Variant<Params>& reference, const Problem<Params>& problem,
                      int64_t checked) const {
    const auto made = problem.Make();
    Wanted wanted;
    wanted.tokens = made->tokens;
    wanted.begin = std::max<int64_t>(0, made->tokens - checked);
    Context context(AvailableCores(), Isa::kRef);
    reference.run(wanted.begin == 0 ? made->params
                                    : Slice(made->params, wanted.begin, made->tokens, made->data),
                  context);
    for (const Output& output : made->outputs) {
      wanted.values.push_back(ValuesOf(From(wanted.begin, output)));
      wanted.bytes.push_back(BytesOf(From(wanted.begin, output)));
    }
    return wanted;
  }

  template <typename Params>
  static void Compare(const Case<Params>& made, const Problem<Params>& problem,
                      const Wanted& wanted, Isa isa, KernelResult* result) {
    double worst = -1;
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      const Output found = From(wanted.begin, made.outputs[i]);
      const bool exact = found.pool.empty() && found.tensor.dtype != DType::kF32;
      const double bound = exact ? 0 : BoundOf(result->op, found.name, problem.format, isa);
      double error = RelativeError(ValuesOf(found), wanted.values[i]);
      if (bound == 0) {
        error = BytesOf(found) == wanted.bytes[i] ? 0 : std::numeric_limits<double>::infinity();
      }
      if (std::isnan(error)) {
        error = std::numeric_limits<double>::infinity();
      }
      const double share = bound > 0 ? error / bound : error;
      if (share > worst) {
        worst = share;
        result->error = error;
        result->bound = bound;
      }
    }
  }

  template <typename Params>
  double MedianSeconds(const Variant<Params>& variant, const Params& params, Context& context) {
    std::vector<double> seconds;
    for (int64_t repetition = 0; repetition < options_.repetitions; ++repetition) {
      flusher_.Flush(context.pool());
      const auto begin = std::chrono::steady_clock::now();
      variant.run(params, context);
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      seconds.push_back(passed.count());
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  template <typename Params>
  void Run(const char* op, std::span<const Variant<Params>> variants,
           const Problem<Params>& problem, int64_t checked) {
    if (problem.name.find(options_.problem) == std::string::npos) {
      return;
    }
    std::unique_ptr<Wanted> wanted;
    for (const Variant<Params>& variant : variants) {
      if (!Takes(variant.isa)) {
        continue;
      }
      const auto made = problem.Make();
      if (made->tokens == 0 || variant.supports(made->params) != nullptr) {
        continue;
      }
      if (wanted == nullptr) {
        wanted = std::make_unique<Wanted>(RunReference(variants.back(), problem, checked));
      }
      KernelResult result;
      result.op = op;
      result.problem = problem.name;
      result.variant = variant.name;
      result.cost = CostOf(made->params);
      result.tokens = wanted->tokens;
      result.tokens_checked = wanted->tokens - wanted->begin;
      for (const int64_t threads : options_.threads) {
        Context context(static_cast<int>(threads), variant.isa);
        const CallerPin pin(context.pool());
        variant.run(made->params, context);
        if (threads == options_.threads.front()) {  // later runs may go on from their own output
          Compare(*made, problem, *wanted, variant.isa, &result);
        }
        result.threads = threads;
        result.machine = machine_.at(threads);
        result.seconds = MedianSeconds(variant, made->params, context);
        report_(result);
      }
    }
  }

  const KernelBenchOptions& options_;
  const std::function<void(const KernelResult&)>& report_;
  std::map<int64_t, MachineLimits> machine_;
  CacheFlusher flusher_;
};

}  // namespace

std::vector<std::string> BenchedOperators() {
  return {"linear",  "experts",  "attention", "indexer",  "compressor", "hc_pre",
          "hc_post", "rms_norm", "hc_head",   "moe_gate", "rope",       "store_rows"};
}

void BenchKernels(const KernelBenchOptions& options,
                  const std::function<void(const KernelResult&)>& report) {
  Bench bench(options, report);
  bench.Add("linear", LinearVariants(), LargeLinearProblems(), LinearProblems());
  bench.Add("experts", ExpertsVariants(), LargeExpertsProblems(), ExpertsProblems());
  bench.Add("attention", AttentionVariants(), LargeAttentionProblems(), AttentionProblems());
  bench.Add("indexer", IndexerVariants(), LargeIndexerProblems(), IndexerProblems());
  bench.Add("compressor", CompressorVariants(), {}, CompressorProblems());
  bench.Add("hc_pre", HcPreVariants(), LargeHcPreProblems(), HcPreProblems());
  bench.Add("hc_post", HcPostVariants(), LargeHcPostProblems(), HcPostProblems());
  bench.Add("rms_norm", RmsNormVariants(), LargeRmsNormProblems(), RmsNormProblems());
  bench.Add("hc_head", HcHeadVariants(), {}, HcHeadProblems());
  bench.Add("moe_gate", MoeGateVariants(), LargeMoeGateProblems(), MoeGateProblems());
  bench.Add("rope", RopeVariants(), {}, RopeProblems());
  bench.Add("store_rows", StoreRowsVariants(), {}, StoreRowsProblems());
}

}  // namespace cachalot::cpu
