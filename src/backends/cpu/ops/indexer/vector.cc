#include "backends/cpu/ops/indexer/vector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/cpu/ops/store_rows/vector.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// Tokens that use a block of decoded keys together.
constexpr int64_t kWaveTokens = 32;
// Candidates that a token gathers beside its top_k before the smallest are dropped.
constexpr int64_t kSlack = 2048;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
int64_t Blocks(int64_t entries) { return (entries + kBlockEntries - 1) / kBlockEntries; }

int64_t QueryBytes(const RowLayout& layout) {
  const int64_t width = layout.width;
  switch (layout.format) {
    case RowFormat::kFp4:
      return RoundUp(width + width / 32 * 8, 64);
    case RowFormat::kInt8:
      return RoundUp(2 * width + 4, 64);
    default:
      return 4 * width;
  }
}

// Consecutive tokens of one request, all with more complete entries than are selected.
struct Group {
  int64_t request;
  int64_t first_token;
  int64_t tokens;
  int64_t first_position;
  int64_t first_in_wave = 0;

  int64_t most_entries() const { return (first_position + tokens) / 4; }
};

// Tokens that go through together: the threads prepare the queries, then each scores its part of
// every request's entries and keeps the largest, then the parts of each token are put together.
class Wave {
 public:
  Wave(const IndexerParams& params, Context& context, const IndexerKernels& kernels)
      : params_(params),
        context_(context),
        kernels_(kernels),
        threads_(context.pool().num_threads()),
        heads_(params.q.shape[1]),
        width_(params.q.shape[2]),
        query_bytes_(QueryBytes(params.keys.layout)) {}

  int64_t room() const { return kWaveTokens - tokens_; }

  void Add(Group group) {
    group.first_in_wave = tokens_;
    tokens_ += group.tokens;
    groups_.push_back(group);
  }

  void Run() {
    if (tokens_ == 0) {
      return;
    }
    TakeMemory();
    context_.pool().Run([&](int thread) { Prepare(thread); });
    context_.pool().Run([&](int thread) { Score(thread); });
    context_.pool().ParallelFor(tokens_, [&](int64_t begin, int64_t end) { Select(begin, end); });
    groups_.clear();
    tokens_ = 0;
  }

 private:
  void TakeMemory() {
    int64_t most = 0;
    for (const Group& group : groups_) {
      most = std::max(most, group.most_entries());
    }
    const int64_t part = (Blocks(most) + threads_ - 1) / threads_ * kBlockEntries;
    capacity_ = std::min(params_.top_k + kSlack, part) + kBlockEntries;
    const int64_t lists = threads_ * tokens_;
    const int64_t stride = capacity_ + 8;
    const int64_t merged = threads_ * params_.top_k + 8;
    queries_ = context_.scratch().Reserve<uint8_t>(
        tokens_ * heads_ * (query_bytes_ + 4) + lists * 2 * stride * 4 + tokens_ * 2 * merged * 4);
    weights_ = reinterpret_cast<float*>(queries_ + tokens_ * heads_ * query_bytes_);
    auto* ints = reinterpret_cast<int32_t*>(weights_ + tokens_ * heads_);
    const auto lists_of = [&](std::vector<Candidates>& candidates, int64_t count, int64_t each) {
      candidates.clear();
      for (int64_t i = 0; i < count; ++i, ints += 2 * each) {
        candidates.push_back({ints, ints + each, 0, kNothingBeaten});
      }
    };
    lists_of(candidates_, lists, stride);
    lists_of(merged_, tokens_, merged);
  }

  void Prepare(int thread) {
    const double scale =
        1 / std::sqrt(static_cast<double>(width_)) / std::sqrt(static_cast<double>(heads_));
    auto* turned = context_.thread_scratch(thread).Reserve<float>(width_);
    for (const Group& group : groups_) {
      const Range part = Range::Part(group.tokens * heads_, thread, threads_);
      const int64_t from = group.first_token * heads_ + part.begin;
      const int64_t to = group.first_in_wave * heads_ + part.begin;
      const int64_t rows = part.end - part.begin;
      kernels_.prepare({params_.q.As<float>() + from * width_, rows, params_.keys.layout, turned,
                        queries_ + to * query_bytes_, query_bytes_});
      const float* weights = params_.weights.As<float>() + from;
      std::transform(weights, weights + rows, weights_ + to,
                     [&](float weight) { return static_cast<float>(weight * scale); });
    }
  }

  void Score(int thread) {
    const int64_t decoded_bytes = 16 * width_ * 4;
    auto* memory = context_.thread_scratch(thread).Reserve<uint8_t>(
        decoded_bytes + kBlockEntries * (width_ + 1) * 4);
    for (const Group& group : groups_) {
      const int64_t entries = group.most_entries();
      const Range part = Range::Part(Blocks(entries), thread, threads_);
      Candidates* candidates = CandidatesOf(thread, group.first_in_wave);
      for (int64_t block = part.begin; block < part.end; ++block) {
        const int64_t first = block * kBlockEntries;
        const int64_t count = std::min(kBlockEntries, entries - first);
        std::array<const void*, kBlockEntries> rows;
        FindRows(group.request, first, count, rows);
        const int64_t first_row = group.first_in_wave * heads_;
        kernels_.score({.layout = params_.keys.layout,
                        .rows = rows.data(),
                        .count = count,
                        .first_entry = first,
                        .queries = queries_ + first_row * query_bytes_,
                        .query_bytes = query_bytes_,
                        .weights = weights_ + first_row,
                        .first_position = group.first_position,
                        .tokens = group.tokens,
                        .heads = heads_,
                        .decoded = memory,
                        .keys = memory + decoded_bytes,
                        .candidates = candidates,
                        .capacity = capacity_,
                        .top_k = params_.top_k});
      }
      for (int64_t token = 0; token < group.tokens; ++token) {
        kernels_.keep(candidates[token], params_.top_k);
      }
    }
  }

  // The threads' parts follow each other in rising order of entries, so ties stay in theirs.
  void Select(int64_t begin, int64_t end) {
    for (const Group& group : groups_) {
      const int64_t first = std::max(begin, group.first_in_wave);
      const int64_t last = std::min(end, group.first_in_wave + group.tokens);
      for (int64_t token = first; token < last; ++token) {
        Candidates& all = merged_[static_cast<size_t>(token)];
        for (int thread = 0; thread < threads_; ++thread) {
          const Candidates& part = *CandidatesOf(thread, token);
          std::copy_n(part.keys, part.count, all.keys + all.count);
          std::copy_n(part.entries, part.count, all.entries + all.count);
          all.count += part.count;
        }
        kernels_.keep(all, params_.top_k);
        const int64_t row = group.first_token + token - group.first_in_wave;
        std::copy_n(all.entries, params_.top_k,
                    params_.selected.As<int32_t>() + row * params_.top_k);
      }
    }
  }

  // The rows of entries first, first + 1, ...; those of a page lie one after the other.
  void FindRows(int64_t request, int64_t first, int64_t count,
                std::array<const void*, kBlockEntries>& rows) const {
    const int32_t* pages = params_.pages.As<int32_t>() + request * params_.pages.shape[1];
    const int64_t row_bytes = params_.keys.layout.bytes();
    for (int64_t i = 0; i < count;) {
      const int64_t in_page = (first + i) % params_.page_entries;
      const int64_t stop = std::min(count, i + params_.page_entries - in_page);
      const auto* row = static_cast<const uint8_t*>(
          params_.keys.row(PagedRow(pages, params_.page_entries, first + i)));
      for (; i < stop; ++i, row += row_bytes) {
        rows[static_cast<size_t>(i)] = row;
      }
    }
  }
  Candidates* CandidatesOf(int thread, int64_t token) {
    return candidates_.data() + thread * tokens_ + token;
  }

  const IndexerParams& params_;
  Context& context_;
  const IndexerKernels& kernels_;
  const int threads_;
  const int64_t heads_;
  const int64_t width_;
  const int64_t query_bytes_;
  int64_t tokens_ = 0;
  std::vector<Group> groups_;
  uint8_t* queries_ = nullptr;          // [tokens, heads, query_bytes]
  float* weights_ = nullptr;            // [tokens, heads]
  int64_t capacity_ = 0;                // of a thread's candidates for a token
  std::vector<Candidates> candidates_;  // [threads, tokens]
  std::vector<Candidates> merged_;      // [tokens]
};

void SelectAll(int64_t entries, int64_t top_k, int32_t* selected) {
  std::iota(selected, selected + entries, 0);
  std::fill(selected + entries, selected + top_k, -1);
}

void Run(const IndexerParams& params, Context& context, const IndexerKernels& kernels) {
  Wave wave(params, context, kernels);
  for (int64_t b = 0; b < params.requests.start_pos.num_elements(); ++b) {
    const int64_t end = params.requests.query_starts.As<int32_t>()[b + 1];
    int64_t token = params.requests.query_starts.As<int32_t>()[b];
    int64_t position = params.requests.start_pos.As<int32_t>()[b];
    for (; token < end && (position + 1) / 4 <= params.top_k; ++token, ++position) {
      SelectAll((position + 1) / 4, params.top_k,
                params.selected.As<int32_t>() + token * params.top_k);
    }
    while (token < end) {
      const int64_t tokens = std::min(wave.room(), end - token);
      wave.Add({b, token, tokens, position});
      token += tokens;
      position += tokens;
      if (wave.room() == 0) {
        wave.Run();
      }
    }
  }
  wave.Run();
  FillBeyondRequests(params.requests, params.selected, -1);
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
