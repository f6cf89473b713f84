#include "backends/cpu/ops/attention/vector.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "backends/cpu/ops/store_rows/vector.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// Tokens of a request that a thread takes together, and how many decoded rows it keeps for them:
// their windows are nearly the same, and so are their entries where all are seen.
constexpr int64_t kChunkTokens = 16;
constexpr int64_t kWindowRows = 256;
constexpr int64_t kEntryRows = 512;

// Where one thread keeps decoded rows; the state of its heads is behind them.
struct Sizes {
  explicit Sizes(const AttentionParams& params)
      : heads(params.q.shape[1]), width(params.q.shape[2]), stride(width + 16) {}

  static constexpr int64_t Rows(int64_t rows) { return rows + kScoreKeys - 1; }
  int64_t entries_at() const { return Rows(kWindowRows) * stride; }
  int64_t state_at() const { return entries_at() + Rows(kEntryRows) * stride; }
  int64_t floats() const { return state_at() + heads * (stride + kBlockKeys + 3); }

  int64_t heads;
  int64_t width;
  int64_t stride;  // not a power of two, which would crowd a few sets of the cache
};

// Decoded rows of consecutive indices, kept from token to token as far as there is room.
class DecodedRows {
 public:
  DecodedRows(float* memory, int64_t stride, int64_t room, const RowLayout& layout,
              void (*decode)(const DecodeKeys&))
      : memory_(memory),
        stride_(stride),
        room_(room),
        layout_(layout),
        row_bytes_(layout.bytes()),
        decode_(decode) {}

  // Rows first, first + 1, ...; row_of(index) is where one is stored. At most kBlockKeys.
  template <typename RowOf>
  const float* Consecutive(int64_t first, int64_t count, const RowOf& row_of) {
    if (first < begin_ || first > end_ || first + count > begin_ + room_) {
      begin_ = first;
      end_ = first;
    }
    if (first + count > end_) {
      Decode(end_, first + count - end_, memory_ + (end_ - begin_) * stride_, row_of);
      end_ = first + count;
    }
    return memory_ + (first - begin_) * stride_;
  }

  // Rows of any indices, which are not kept.
  template <typename RowOf>
  const float* Block(int64_t first, int64_t count, const RowOf& row_of) {
    begin_ = 0;
    end_ = 0;
    Decode(first, count, memory_, row_of);
    return memory_;
  }

 private:
  template <typename RowOf>
  void Decode(int64_t first, int64_t count, float* out, const RowOf& row_of) {
    std::array<const void*, kBlockKeys> rows;
    for (int64_t i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i)] = row_of(first + i);
    }
    decode_({layout_, rows.data(), count, row_bytes_, out, stride_});
  }

  float* memory_;
  int64_t stride_;
  int64_t room_;
  const RowLayout& layout_;
  int64_t row_bytes_;
  void (*decode_)(const DecodeKeys&);
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// Consecutive tokens of one request.
struct Chunk {
  int64_t request;
  int64_t first_token;
  int64_t tokens;
  int64_t first_position;
};

// One thread's way through some heads of a chunk.
class ChunkAttention {
 public:
  ChunkAttention(const AttentionParams& params, const AttentionKernels& kernels, const Chunk& chunk,
                 Range heads, float* memory)
      : params_(params),
        kernels_(kernels),
        chunk_(chunk),
        sizes_(params),
        heads_(heads),
        state_(memory + sizes_.state_at()),
        // A single token has no use for rows again, and does best in memory that is still cached.
        window_(memory, sizes_.stride, chunk.tokens > 1 ? kWindowRows : kBlockKeys,
                params.window.layout, kernels.decode),
        entries_(chunk.tokens > 1 ? memory + sizes_.entries_at() : memory, sizes_.stride,
                 chunk.tokens > 1 ? kEntryRows : kBlockKeys, params.entries.layout,
                 kernels.decode) {}

  void Run() {
    for (int64_t i = 0; i < chunk_.tokens; ++i) {
      const int64_t token = chunk_.first_token + i;
      const AttentionHeads heads = HeadsOf(token);
      kernels_.begin(heads);
      AttendWindow(token, heads);
      if (params_.ratio > 0) {
        AttendEntries(token, (chunk_.first_position + i + 1) / params_.ratio, heads);
      }
      kernels_.finish(heads);
    }
  }

 private:
  AttentionHeads HeadsOf(int64_t token) const {
    const int64_t count = heads_.end - heads_.begin;
    const int64_t first = (token * sizes_.heads + heads_.begin) * sizes_.width;
    float* top = state_ + count * sizes_.stride;
    return {.q = params_.q.As<float>() + first,
            .sink = params_.sink.As<float>() + heads_.begin,
            .heads = count,
            .width = sizes_.width,
            .sums = state_,
            .stride = sizes_.stride,
            .top = top,
            .total = top + count,
            .scores = top + 3 * count,
            .rescale = top + 2 * count,
            .o = params_.o.As<float>() + first};
  }

  void AttendWindow(int64_t token, const AttentionHeads& heads) {
    const int32_t* pages =
        params_.window_pages.As<int32_t>() + chunk_.request * params_.window_pages.shape[1];
    const int64_t end = params_.key_end.As<int32_t>()[token];
    for (int64_t first = params_.key_begin.As<int32_t>()[token]; first < end; first += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, end - first);
      Attend(heads, count, window_.Consecutive(first, count, [&](int64_t position) {
        return params_.window.row(PagedRow(pages, params_.window_page_rows, position));
      }));
    }
  }

  void AttendEntries(int64_t token, int64_t complete, const AttentionHeads& heads) {
    const int32_t* pages =
        params_.entry_pages.As<int32_t>() + chunk_.request * params_.entry_pages.shape[1];
    const int32_t* selected = nullptr;
    int64_t entries = complete;
    if (!params_.selected.empty()) {
      const int64_t width = params_.selected.shape[1];
      selected = params_.selected.As<int32_t>() + token * width;
      entries = std::find(selected, selected + width, -1) - selected;
    }
    const bool all = selected == nullptr || entries == complete;
    for (int64_t first = 0; first < entries; first += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, entries - first);
      const auto row_of = [&](int64_t index) {
        return params_.entries.row(
            PagedRow(pages, params_.page_entries, all ? index : selected[index]));
      };
      Attend(
          heads, count,
          all ? entries_.Consecutive(first, count, row_of) : entries_.Block(first, count, row_of));
    }
  }

  void Attend(const AttentionHeads& heads, int64_t count, const float* keys) {
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes_.width)));
    kernels_.attend(heads, {keys, count, scale});
  }

  const AttentionParams& params_;
  const AttentionKernels& kernels_;
  const Chunk chunk_;
  const Sizes sizes_;
  const Range heads_;
  float* state_;
  DecodedRows window_;
  DecodedRows entries_;
};

std::vector<Chunk> ChunksOf(const StepRequests& requests, int64_t most_tokens) {
  std::vector<Chunk> chunks;
  for (int64_t b = 0; b < requests.start_pos.num_elements(); ++b) {
    const int64_t begin = requests.query_starts.As<int32_t>()[b];
    const int64_t end = requests.query_starts.As<int32_t>()[b + 1];
    const int64_t start = requests.start_pos.As<int32_t>()[b];
    for (int64_t token = begin; token < end; token += most_tokens) {
      chunks.push_back({b, token, std::min(most_tokens, end - token), start + token - begin});
    }
  }
  return chunks;
}

// A thread takes the next chunk when it is done with one. Few tokens have their heads shared out as
// well; each thread then decodes the rows for itself, which costs less than waiting for others.
void Run(const AttentionParams& params, Context& context, const AttentionKernels& kernels) {
  const int64_t tokens = params.q.shape[0];
  const int64_t heads = params.q.shape[1];
  const int64_t threads = context.pool().num_threads();
  const bool few = tokens < 2 * threads;
  const int64_t parts = few ? std::min(threads, heads) : 1;
  const std::vector<Chunk> chunks =
      ChunksOf(params.requests,
               few ? kChunkTokens : std::clamp<int64_t>(tokens / (2 * threads), 1, kChunkTokens));
  const auto items = static_cast<int64_t>(chunks.size()) * parts;
  std::atomic<int64_t> next = 0;
  context.pool().Run([&](int thread) {
    float* memory = context.thread_scratch(thread).Reserve<float>(Sizes(params).floats());
    for (int64_t item = next++; item < items; item = next++) {
      ChunkAttention(params, kernels, chunks[static_cast<size_t>(item / parts)],
                     Range::Part(heads, item % parts, parts), memory)
          .Run();
    }
  });
  FillBeyondRequests(params.requests, params.o, 0.0F);
}

}  // namespace

const char* VectorAttentionSupports(const AttentionParams& params) {
  const char* reason = RowsUnsupported(params.window.layout);
  if (reason == nullptr && params.ratio > 0) {
    reason = RowsUnsupported(params.entries.layout);
  }
  return reason;
}
void Avx2Attention(const AttentionParams& params, Context& context) {
  Run(params, context, avx2::Attention());
}
void Avx512Attention(const AttentionParams& params, Context& context) {
  Run(params, context, avx512::Attention());
}

}  // namespace cachalot::cpu
