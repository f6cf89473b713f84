#include "backends/cpu/ops/indexer/vector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "backends/cpu/ops/indexer/select.h"
#include "backends/cpu/ops/store_rows/vector.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// Tokens that use a block of decoded entries together, and a bound on the scores that they hold.
constexpr int64_t kGroupTokens = 64;
constexpr int64_t kGroupScores = int64_t{1} << 22;

// Consecutive tokens of one request, all with more complete entries than are selected.
struct Group {
  int64_t request;
  int64_t first_token;
  int64_t tokens;
  int64_t first_position;

  int64_t entries(int64_t token) const { return (first_position + token + 1) / 4; }
  int64_t most_entries() const { return entries(tokens - 1); }
};

class GroupScores {
 public:
  GroupScores(const IndexerParams& params, Context& context, const IndexerKernels& kernels,
              const Group& group)
      : params_(params),
        context_(context),
        kernels_(kernels),
        group_(group),
        heads_(params.q.shape[1]),
        width_(params.q.shape[2]) {
    const int64_t rows = group.tokens * heads_;
    queries_ =
        context.scratch().Reserve<float>(rows * (width_ + 1) + group.tokens * group.most_entries());
    weights_ = queries_ + rows * width_;
    scores_ = weights_ + rows;
  }

  void PrepareQueriesAndWeights() {
    const int64_t first_row = group_.first_token * heads_;
    const double scale =
        1 / std::sqrt(static_cast<double>(width_)) / std::sqrt(static_cast<double>(heads_));
    const float* weights = params_.weights.As<float>() + first_row;
    context_.pool().ParallelFor(group_.tokens * heads_, [&](int64_t begin, int64_t end) {
      kernels_.prepare({params_.q.As<float>() + (first_row + begin) * width_, end - begin,
                        params_.keys.layout, queries_ + begin * width_});
      std::transform(weights + begin, weights + end, weights_ + begin,
                     [&](float weight) { return static_cast<float>(weight * scale); });
    });
  }

  void Score() {
    const int64_t entries = group_.most_entries();
    const int64_t blocks = (entries + kBlockEntries - 1) / kBlockEntries;
    ThreadPool& pool = context_.pool();
    pool.Run([&](int thread) {
      float* memory = context_.thread_scratch(thread).Reserve<float>((16 + kBlockEntries) * width_);
      const Range part = Range::Part(blocks, thread, pool.num_threads());
      for (int64_t block = part.begin; block < part.end; ++block) {
        const int64_t first = block * kBlockEntries;
        const int64_t count = std::min(kBlockEntries, entries - first);
        std::array<const void*, kBlockEntries> rows;
        for (int64_t i = 0; i < count; ++i) {
          rows[static_cast<size_t>(i)] = KeyRow(first + i);
        }
        kernels_.score({params_.keys.layout, rows.data(), count, queries_, weights_, group_.tokens,
                        heads_, memory, memory + 16 * width_, scores_ + first, entries});
      }
    });
  }

  void Select() {
    const int64_t stride = group_.most_entries();
    ThreadPool& pool = context_.pool();
    const auto select = [&](int thread, int threads) {
      auto* keys = context_.thread_scratch(thread).Reserve<uint32_t>(stride);
      const Range part = Range::Part(group_.tokens, thread, threads);
      for (int64_t token = part.begin; token < part.end; ++token) {
        SelectLargest(
            scores_ + token * stride, group_.entries(token), params_.top_k, keys,
            params_.selected.As<int32_t>() + (group_.first_token + token) * params_.top_k);
      }
    };
    if (group_.tokens == 1) {
      select(0, 1);
    } else {
      pool.Run([&](int thread) { select(thread, pool.num_threads()); });
    }
  }

 private:
  const void* KeyRow(int64_t entry) const {
    const int32_t* pages = params_.pages.As<int32_t>() + group_.request * params_.pages.shape[1];
    return params_.keys.row(PagedRow(pages, params_.page_entries, entry));
  }

  const IndexerParams& params_;
  Context& context_;
  const IndexerKernels& kernels_;
  const Group& group_;
  const int64_t heads_;
  const int64_t width_;
  float* queries_;  // [tokens, heads, width]
  float* weights_;  // [tokens, heads]
  float* scores_;   // [tokens, most_entries]
};

void SelectAll(int64_t entries, int64_t top_k, int32_t* selected) {
  std::iota(selected, selected + entries, 0);
  std::fill(selected + entries, selected + top_k, -1);
}

void Run(const IndexerParams& params, Context& context, const IndexerKernels& kernels) {
  for (int64_t b = 0; b < params.requests.start_pos.num_elements(); ++b) {
    const int64_t end = params.requests.query_starts.As<int32_t>()[b + 1];
    int64_t token = params.requests.query_starts.As<int32_t>()[b];
    int64_t position = params.requests.start_pos.As<int32_t>()[b];
    for (; token < end && (position + 1) / 4 <= params.top_k; ++token, ++position) {
      SelectAll((position + 1) / 4, params.top_k,
                params.selected.As<int32_t>() + token * params.top_k);
    }
    while (token < end) {
      const int64_t most = (position + std::min(kGroupTokens, end - token)) / 4;
      const int64_t tokens =
          std::min(std::clamp<int64_t>(kGroupScores / most, 1, kGroupTokens), end - token);
      const Group group = {b, token, tokens, position};
      GroupScores scores(params, context, kernels, group);
      scores.PrepareQueriesAndWeights();
      scores.Score();
      scores.Select();
      token += tokens;
      position += tokens;
    }
  }
}

}  // namespace

const char* VectorIndexerSupports(const IndexerParams& params) {
  return RowsUnsupported(params.keys.layout);
}
void Avx2Indexer(const IndexerParams& params, Context& context) {
  Run(params, context, avx2::Indexer());
}
void Avx512Indexer(const IndexerParams& params, Context& context) {
  Run(params, context, avx512::Indexer());
}

}  // namespace cachalot::cpu
