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

// Bounds the scratch memory: about 230 KB a token on the published shapes.
constexpr int64_t kMaxTokens = 512;

// Columns are shared out in whole cache lines.
constexpr int64_t kColumns = 16;

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

LinearTask ProductOf(const Matrix& w, Range rows, const Job& job, float* scratch) {
  return {.values = w.values.raw(),
          .scales = w.scales.raw(),
          .cols = w.cols,
          .row_begin = rows.begin,
          .row_end = rows.end,
          .tokens = job.count,
          .scratch = scratch};
}

void RunTokens(const ExpertsParams& params, int64_t begin, int64_t tokens, Context& context,
               const Kernels& kernels) {
  const int64_t hidden = params.x.shape[1];
  const int64_t slots = params.experts.shape[1];
  const int64_t inner = std::max(params.routed[0].w1.rows, params.shared->w1.rows);
  Visits visits;
  const std::vector<Job> jobs = PlanJobs(params, begin, tokens, visits);
  const int64_t total = tokens * (slots + 1);
  // gates and ups [visit][inner], outputs [visit][hidden]
  float* gates = context.scratch().Reserve<float>(total * (2 * inner + hidden));
  float* ups = gates + total * inner;
  float* outputs = ups + total * inner;
  const float* x = params.x.As<float>() + begin * hidden;
  float* y = params.y.As<float>() + begin * hidden;
  ThreadPool& pool = context.pool();

  // Every thread takes its rows of every expert: no thread waits, however the tokens are spread.
  pool.Run([&](int thread) {
    float* scratch = context.thread_scratch(thread).Reserve<float>(kLinearScratch);
    for (const Job& job : jobs) {
      const ExpertWeights& expert = *job.expert;
      const Range rows = ColumnsOf(expert.w1.rows, thread, pool);
      LinearTask task = ProductOf(expert.w1, rows, job, scratch);
      task.x = x;
      task.x_rows = visits.token.data() + job.first;
      task.x_stride = hidden;
      task.y_stride = inner;
      task.y = gates + job.first * inner;
      kernels.linear[static_cast<size_t>(expert.w1.format)](task);
      task.values = expert.w3.values.raw();
      task.scales = expert.w3.scales.raw();
      task.y = ups + job.first * inner;
      kernels.linear[static_cast<size_t>(expert.w3.format)](task);
      kernels.activate({.g = gates + job.first * inner,
                        .u = task.y,
                        .stride = inner,
                        .weights = visits.weight.data() + job.first,
                        .rows = job.count,
                        .begin = rows.begin,
                        .end = rows.end,
                        .limit = static_cast<float>(params.limit)});
    }
  });

  pool.Run([&](int thread) {
    float* scratch = context.thread_scratch(thread).Reserve<float>(kLinearScratch);
    const Range columns = ColumnsOf(hidden, thread, pool);
    for (const Job& job : jobs) {
      const Matrix& w2 = job.expert->w2;
      LinearTask task = ProductOf(w2, columns, job, scratch);
      task.x = gates + job.first * inner;
      task.x_stride = inner;
      task.y = outputs + job.first * hidden;
      task.y_stride = hidden;
      kernels.linear[static_cast<size_t>(w2.format)](task);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t* of_slot = visits.of_slot.data() + t * (slots + 1);
      float* sum = y + t * hidden;
      std::copy(outputs + of_slot[0] * hidden + columns.begin,
                outputs + of_slot[0] * hidden + columns.end, sum + columns.begin);
      for (int64_t slot = 1; slot <= slots; ++slot) {
        const float* output = outputs + of_slot[slot] * hidden;
        for (int64_t c = columns.begin; c < columns.end; ++c) {
          sum[c] += output[c];
        }
      }
    }
  });
}

void RunExperts(const ExpertsParams& params, Context& context, const Kernels& kernels) {
  const int64_t tokens = params.x.shape[0];
  for (int64_t begin = 0; begin < tokens; begin += kMaxTokens) {
    RunTokens(params, begin, std::min(kMaxTokens, tokens - begin), context, kernels);
  }
}

}  // namespace

void Avx2Experts(const ExpertsParams& params, Context& context) {
  RunExperts(params, context, {avx2::kLinearKernels, avx2::Activate});
}

void Avx512Experts(const ExpertsParams& params, Context& context) {
  RunExperts(params, context, {avx512::kLinearKernels, avx512::Activate});
}

}  // namespace cachalot::cpu
