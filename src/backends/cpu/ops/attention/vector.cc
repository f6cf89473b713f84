#include "backends/cpu/ops/attention/vector.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "backends/cpu/ops/store_rows/vector.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// Blocks that are decoded together when threads share a token: together they stay in the cache.
constexpr int64_t kSharedBlocks = 16;

// The keys of one token, block by block: the window's, then the entries'.
class TokenKeys {
 public:
  TokenKeys(const AttentionParams& params, int64_t token)
      : params_(params), place_(PlaceOf(params.requests, token)) {
    window_begin_ = params.key_begin.As<int32_t>()[token];
    window_keys_ = std::max<int64_t>(params.key_end.As<int32_t>()[token] - window_begin_, 0);
    if (params.ratio == 0) {
      return;
    }
    if (params.selected.empty()) {
      entries_ = (place_.position + 1) / params.ratio;
      return;
    }
    const int64_t width = params.selected.shape[1];
    selected_ = params.selected.As<int32_t>() + token * width;
    entries_ = std::find(selected_, selected_ + width, -1) - selected_;
  }

  int64_t num_blocks() const { return Blocks(window_keys_) + Blocks(entries_); }

  // The rows of block `index` into `rows`; where they are to be decoded to is for the caller.
  DecodeKeys Block(int64_t index, std::array<const void*, kBlockKeys>& rows) const {
    const int64_t window_blocks = Blocks(window_keys_);
    const bool in_window = index < window_blocks;
    const int64_t first = (in_window ? index : index - window_blocks) * kBlockKeys;
    const int64_t count = std::min(kBlockKeys, (in_window ? window_keys_ : entries_) - first);
    const RowPool& pool = in_window ? params_.window : params_.entries;
    for (int64_t i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i)] =
          pool.row(in_window ? WindowRow(window_begin_ + first + i) : EntryRow(first + i));
    }
    return {pool.layout, rows.data(), count, {}};
  }
  int64_t CountOf(int64_t index) const {
    const int64_t window_blocks = Blocks(window_keys_);
    return index < window_blocks
               ? std::min(kBlockKeys, window_keys_ - index * kBlockKeys)
               : std::min(kBlockKeys, entries_ - (index - window_blocks) * kBlockKeys);
  }

 private:
  static int64_t Blocks(int64_t keys) { return (keys + kBlockKeys - 1) / kBlockKeys; }

  int64_t WindowRow(int64_t position) const {
    const int64_t table_width = params_.window_pages.shape[1];
    return PagedRow(params_.window_pages.As<int32_t>() + place_.request * table_width,
                    params_.window_page_rows, position);
  }
  int64_t EntryRow(int64_t index) const {
    const int64_t table_width = params_.entry_pages.shape[1];
    return PagedRow(params_.entry_pages.As<int32_t>() + place_.request * table_width,
                    params_.page_entries, selected_ == nullptr ? index : selected_[index]);
  }

  const AttentionParams& params_;
  TokenPlace place_;
  int64_t window_begin_ = 0;
  int64_t window_keys_ = 0;
  int64_t entries_ = 0;
  const int32_t* selected_ = nullptr;  // null: entries 0, 1, ...
};

struct Sizes {
  explicit Sizes(const AttentionParams& params)
      : heads(params.q.shape[1]), width(params.q.shape[2]), stride(width + 16) {}

  int64_t keys() const { return kBlockKeys * (stride + width); }  // floats of one decoded block
  int64_t state() const { return heads * (kBlockKeys + 3); }  // of scores, rescale, top and total
  DecodedKeys KeysAt(float* memory) const { return {memory, stride, memory + kBlockKeys * stride}; }

  int64_t heads;
  int64_t width;
  int64_t stride;  // not a power of two, which would crowd a few sets of the cache
};

// Heads [begin, end) of a token, with their running state in `memory`.
AttendBlock HeadsOf(const AttentionParams& params, const Sizes& sizes, int64_t token, Range heads,
                    float* memory) {
  const int64_t first = (token * sizes.heads + heads.begin) * sizes.width;
  float* scores = memory + heads.begin * kBlockKeys;
  float* rescale = memory + sizes.heads * kBlockKeys + heads.begin;
  AttendBlock block = {};
  block.q = params.q.As<float>() + first;
  block.heads = heads.end - heads.begin;
  block.width = sizes.width;
  block.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  block.scores = scores;
  block.rescale = rescale;
  block.o = params.o.As<float>() + first;
  block.top = rescale + sizes.heads;
  block.total = rescale + 2 * sizes.heads;
  return block;
}

AttentionHeads StateOf(const AttentionParams& params, const AttendBlock& block, Range heads) {
  return {params.sink.As<float>() + heads.begin,
          block.heads,
          block.width,
          block.o,
          block.top,
          block.total};
}

// Many tokens: each is one thread's, which takes the next when it is done.
void RunByTokens(const AttentionParams& params, Context& context, const AttentionKernels& kernels) {
  const Sizes sizes(params);
  const int64_t tokens = params.q.shape[0];
  const Range heads = {0, sizes.heads};
  std::atomic<int64_t> next = 0;
  context.pool().Run([&](int thread) {
    float* memory = context.thread_scratch(thread).Reserve<float>(sizes.keys() + sizes.state());
    std::array<const void*, kBlockKeys> rows;
    for (int64_t token = next++; token < tokens; token = next++) {
      const TokenKeys keys(params, token);
      AttendBlock block = HeadsOf(params, sizes, token, heads, memory + sizes.keys());
      block.keys = sizes.KeysAt(memory);
      kernels.begin(StateOf(params, block, heads));
      for (int64_t index = 0; index < keys.num_blocks(); ++index) {
        DecodeKeys decode = keys.Block(index, rows);
        decode.out = block.keys;
        kernels.decode(decode);
        block.count = decode.count;
        kernels.attend(block);
      }
      kernels.finish(StateOf(params, block, heads));
    }
  });
}

// Few tokens: threads share the decoding of some blocks, then each takes its heads through them.
void RunByHeads(const AttentionParams& params, Context& context, const AttentionKernels& kernels) {
  const Sizes sizes(params);
  ThreadPool& pool = context.pool();
  float* memory = context.scratch().Reserve<float>(kSharedBlocks * sizes.keys() + sizes.state());
  float* state = memory + kSharedBlocks * sizes.keys();
  for (int64_t token = 0; token < params.q.shape[0]; ++token) {
    const TokenKeys keys(params, token);
    int64_t begin = 0;
    do {
      const int64_t end = std::min(begin + kSharedBlocks, keys.num_blocks());
      pool.ParallelFor(end - begin, [&](int64_t first, int64_t last) {
        std::array<const void*, kBlockKeys> rows;
        for (int64_t i = first; i < last; ++i) {
          DecodeKeys decode = keys.Block(begin + i, rows);
          decode.out = sizes.KeysAt(memory + i * sizes.keys());
          kernels.decode(decode);
        }
      });
      pool.ParallelFor(sizes.heads, [&](int64_t first, int64_t last) {
        const Range heads = {first, last};
        AttendBlock block = HeadsOf(params, sizes, token, heads, state);
        if (begin == 0) {
          kernels.begin(StateOf(params, block, heads));
        }
        for (int64_t index = begin; index < end; ++index) {
          block.keys = sizes.KeysAt(memory + (index - begin) * sizes.keys());
          block.count = keys.CountOf(index);
          kernels.attend(block);
        }
        if (end == keys.num_blocks()) {
          kernels.finish(StateOf(params, block, heads));
        }
      });
      begin = end;
    } while (begin < keys.num_blocks());
  }
}

void Run(const AttentionParams& params, Context& context, const AttentionKernels& kernels) {
  if (params.q.shape[0] >= 2 * context.pool().num_threads()) {
    RunByTokens(params, context, kernels);
  } else {
    RunByHeads(params, context, kernels);
  }
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
