#include "backends/cpu/ops/experts/vector.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/context.h"
#include "backends/cpu/ops/linear/vector.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

struct Kernels {
  const LinearKernel* linear;
  void (*activate)(const ActivateTask& task);
};

// Bounds the scratch memory: about 200 KB a token on the published shapes.
constexpr int64_t kMaxTokens = 512;

// Columns are shared out so that each thread packs its own for the next product.
constexpr int64_t kColumns = 32;

// One token's way through an expert is a visit; those of one expert are neighbours, in rising
// token order, and those of the shared expert come last.
struct Visits {
  std::vector<int32_t> token;
  std::vector<float> weight;
  std::vector<int64_t> of_slot;  // the visit of [token][slot]; the shared one in slot k
};

// All visits of one expert.
struct Job {
  const ExpertWeights* expert;
  int64_t first;
  int64_t count;
};

// Tokens [begin, begin + tokens) of the call.
std::vector<Job> PlanJobs(const ExpertsParams& params, int64_t begin, int64_t tokens,
                          Visits& visits) {
  const int64_t slots = params.experts.shape[1];
  const int32_t* experts = params.experts.As<int32_t>() + begin * slots;
  const float* weights = params.weights.As<float>() + begin * slots;
  std::vector<int64_t> counts(params.routed.size());
  for (int64_t i = 0; i < tokens * slots; ++i) {
    ++counts[static_cast<size_t>(experts[i])];
  }
  std::vector<Job> jobs;
  std::vector<int64_t> next(counts.size());
  int64_t first = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    next[e] = first;
    if (counts[e] > 0) {
      jobs.push_back({&params.routed[e], first, counts[e]});
    }
    first += counts[e];
  }
  jobs.push_back({params.shared, first, tokens});

  const auto total = static_cast<size_t>(tokens * (slots + 1));
  visits.token.resize(total);
  visits.weight.assign(total, 1.0F);
  visits.of_slot.resize(total);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t slot = 0; slot <= slots; ++slot) {
      const bool routed = slot < slots;
      const int64_t i = t * slots + slot;
      const int64_t visit = routed ? next[static_cast<size_t>(experts[i])]++ : first + t;
      visits.token[static_cast<size_t>(visit)] = static_cast<int32_t>(t);
      visits.weight[static_cast<size_t>(visit)] = routed ? weights[i] : 1.0F;
      visits.of_slot[static_cast<size_t>(t * (slots + 1) + slot)] = visit;
    }
  }
  return jobs;
}

Range ColumnsOf(int64_t total, int thread, const ThreadPool& pool) {
  const Range part = Range::Part((total + kColumns - 1) / kColumns, thread, pool.num_threads());
  return {part.begin * kColumns, std::min(part.end * kColumns, total)};
}

LinearTask ProductOf(const Matrix& w, Range rows, const Job& job, uint8_t* scratch) {
  return {.values = w.values.raw(),
          .scales = w.scales.raw(),
          .cols = w.cols,
          .row_begin = rows.begin,
          .row_end = rows.end,
          .tokens = job.count,
          .scratch = scratch};
}

// Tokens [begin, begin + tokens) of a call.
class Pass {
 public:
  Pass(const ExpertsParams& params, int64_t begin, int64_t tokens, Context& context,
       const Kernels& kernels)
      : params_(params),
        context_(context),
        kernels_(kernels),
        tokens_(tokens),
        hidden_(params.x.shape[1]),
        slots_(params.experts.shape[1]),
        inner_(std::max(params.routed[0].w1.rows, params.shared->w1.rows)),
        x_(params.x.As<float>() + begin * hidden_),
        y_(params.y.As<float>() + begin * hidden_),
        jobs_(PlanJobs(params, begin, tokens, visits_)) {
    const int64_t visits = tokens * (slots_ + 1);
    int64_t largest_job = 0;
    for (const Job& job : jobs_) {
      largest_job = std::max(largest_job, job.count);
    }
    gates_ = context.scratch().Reserve<float>(2 * largest_job * inner_ + visits * hidden_);
    ups_ = gates_ + largest_job * inner_;
    outputs_ = ups_ + largest_job * inner_;

    const ExpertWeights& routed = params.routed[0];
    const ExpertWeights& shared = *params.shared;
    routed_x_bytes_ = KernelOf(routed.w1).packed_bytes(hidden_);
    shared_x_bytes_ = KernelOf(shared.w1).packed_bytes(hidden_);
    inner_bytes_ = std::max(KernelOf(routed.w2).packed_bytes(routed.w2.cols),
                            KernelOf(shared.w2).packed_bytes(shared.w2.cols));
    routed_x_ = context.packed_inputs().Reserve<uint8_t>(
        tokens * (routed_x_bytes_ + shared_x_bytes_) + visits * inner_bytes_);
    shared_x_ = routed_x_ + tokens * routed_x_bytes_;
    inners_ = shared_x_ + tokens * shared_x_bytes_;
  }

  void Run() {
    ThreadPool& pool = context_.pool();
    if (tokens_ < pool.num_threads()) {
      PackTokens(0, tokens_);
    } else {
      pool.ParallelFor(tokens_, [&](int64_t begin, int64_t end) { PackTokens(begin, end); });
    }
    // Every thread takes its rows of every expert: no thread waits, however the tokens are spread.
    pool.Run([&](int thread) {
      uint8_t* scratch = context_.thread_scratch(thread).Reserve<uint8_t>(kLinearScratchBytes);
      for (const Job& job : jobs_) {
        GateAndUp(job, ColumnsOf(job.expert->w1.rows, thread, pool), scratch);
      }
    });
    pool.Run([&](int thread) {
      uint8_t* scratch = context_.thread_scratch(thread).Reserve<uint8_t>(kLinearScratchBytes);
      const Range columns = ColumnsOf(hidden_, thread, pool);
      for (const Job& job : jobs_) {
        Down(job, columns, scratch);
      }
      SumSlots(columns);
    });
  }

 private:
  const LinearKernel& KernelOf(const Matrix& w) const {
    return kernels_.linear[static_cast<size_t>(w.format)];
  }
  bool IsShared(const Job& job) const { return job.expert == params_.shared; }

  void PackTokens(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t) {
      PackTask task = {.x = x_ + t * hidden_, .cols = hidden_, .begin = 0, .end = hidden_};
      task.packed = routed_x_ + t * routed_x_bytes_;
      KernelOf(params_.routed[0].w1).pack(task);
      task.packed = shared_x_ + t * shared_x_bytes_;
      KernelOf(params_.shared->w1).pack(task);
    }
  }

  // Columns of what lies between an expert's products, packed for the second. Threads may be at
  // different jobs: in gates and ups each has its own columns.
  void GateAndUp(const Job& job, Range columns, uint8_t* scratch) const {
    const ExpertWeights& expert = *job.expert;
    LinearTask task = ProductOf(expert.w1, columns, job, scratch);
    task.x = IsShared(job) ? shared_x_ : routed_x_;
    task.x_stride = IsShared(job) ? shared_x_bytes_ : routed_x_bytes_;
    task.x_rows = visits_.token.data() + job.first;
    task.y_stride = inner_;
    task.y = gates_;
    KernelOf(expert.w1).multiply(task);
    task.values = expert.w3.values.raw();
    task.scales = expert.w3.scales.raw();
    task.y = ups_;
    KernelOf(expert.w3).multiply(task);
    kernels_.activate({.g = gates_,
                       .u = ups_,
                       .stride = inner_,
                       .weights = visits_.weight.data() + job.first,
                       .rows = job.count,
                       .begin = columns.begin,
                       .end = columns.end,
                       .limit = static_cast<float>(params_.limit)});
    for (int64_t i = 0; i < job.count; ++i) {
      KernelOf(expert.w2).pack({.x = gates_ + i * inner_,
                                .cols = expert.w2.cols,
                                .begin = columns.begin,
                                .end = columns.end,
                                .packed = inners_ + (job.first + i) * inner_bytes_});
    }
  }

  void Down(const Job& job, Range columns, uint8_t* scratch) const {
    LinearTask task = ProductOf(job.expert->w2, columns, job, scratch);
    task.x = inners_ + job.first * inner_bytes_;
    task.x_stride = inner_bytes_;
    task.y = outputs_ + job.first * hidden_;
    task.y_stride = hidden_;
    KernelOf(job.expert->w2).multiply(task);
  }

  void SumSlots(Range columns) const {
    for (int64_t t = 0; t < tokens_; ++t) {
      const int64_t* of_slot = visits_.of_slot.data() + t * (slots_ + 1);
      float* sum = y_ + t * hidden_;
      std::copy(outputs_ + of_slot[0] * hidden_ + columns.begin,
                outputs_ + of_slot[0] * hidden_ + columns.end, sum + columns.begin);
      for (int64_t slot = 1; slot <= slots_; ++slot) {
        const float* output = outputs_ + of_slot[slot] * hidden_;
        for (int64_t c = columns.begin; c < columns.end; ++c) {
          sum[c] += output[c];
        }
      }
    }
  }

  const ExpertsParams& params_;
  Context& context_;
  const Kernels& kernels_;
  const int64_t tokens_;
  const int64_t hidden_;
  const int64_t slots_;
  const int64_t inner_;
  const float* x_;
  float* y_;
  Visits visits_;
  std::vector<Job> jobs_;
  float* gates_;    // [visits of a job][inner]
  float* ups_;      // likewise
  float* outputs_;  // [visit][hidden]
  int64_t routed_x_bytes_;
  int64_t shared_x_bytes_;
  int64_t inner_bytes_;
  uint8_t* routed_x_;  // [token]: packed for the routed experts, and for the shared one
  uint8_t* shared_x_;
  uint8_t* inners_;  // [visit]: packed for w2
};

void RunExperts(const ExpertsParams& params, Context& context, const Kernels& kernels) {
  const int64_t tokens = params.x.shape[0];
  for (int64_t begin = 0; begin < tokens; begin += kMaxTokens) {
    Pass(params, begin, std::min(kMaxTokens, tokens - begin), context, kernels).Run();
  }
}

}  // namespace

void Avx2Experts(const ExpertsParams& params, Context& context) {
  RunExperts(params, context, {avx2::kLinearKernels, avx2::Activate});
}

void Avx512Experts(const ExpertsParams& params, Context& context) {
  RunExperts(params, context, {avx512::kLinearKernels, avx512::Activate});
}

void AmxExperts(const ExpertsParams& params, Context& context) {
  RunExperts(params, context, {amx::kLinearKernels, avx512::Activate});
}

}  // namespace cachalot::cpu
