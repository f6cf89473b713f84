#include "backends/cpu/ops/compressor/vector.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/ops/rope/vector.h"
#include "backends/cpu/ops/store_rows/vector.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// The tokens of one request in this step, and its part of the state.
class StepOf {
 public:
  StepOf(const CompressorParams& params, int64_t request)
      : params_(params),
        first_token_(params.requests.query_starts.As<int32_t>()[request]),
        begin_(params.requests.start_pos.As<int32_t>()[request]),
        end_(begin_ + params.requests.query_starts.As<int32_t>()[request + 1] - first_token_),
        pages_(params.state_pages.As<int32_t>() + request * params.state_pages.shape[1]),
        channels_(params.kv.shape[1]) {}

  int64_t first_entry() const { return begin_ / params_.ratio; }
  int64_t end_entry() const { return end_ / params_.ratio; }

  // What `position` gives to an entry in the channels from `channel` on: from this step, or kept.
  PooledToken TokenAt(int64_t position, int64_t channel) const {
    if (position >= begin_) {
      return {KvOf(position) + channel, ScoreOf(position) + channel, ApeOf(position) + channel};
    }
    const float* kept = StateRow(position) + channel;
    return {kept, kept + channels_, nullptr};
  }

  // Leaves channels [begin, end) of this step's tokens in the state. A row that a later token will
  // take anyway is passed over, and page 0.
  void Keep(int64_t begin, int64_t end) const {
    for (int64_t position = begin_; position < end_; ++position) {
      const int64_t later = position + params_.state_rows;
      if (later < end_ && later / params_.state_span == position / params_.state_span) {
        continue;
      }
      if (pages_[position / params_.state_span] == 0) {
        continue;
      }
      const float* kv = KvOf(position);
      const float* score = ScoreOf(position);
      const float* ape = ApeOf(position);
      float* row = StateRow(position);
      std::copy(kv + begin, kv + end, row + begin);
      for (int64_t c = begin; c < end; ++c) {
        row[channels_ + c] = score[c] + ape[c];
      }
    }
  }

 private:
  const float* KvOf(int64_t position) const {
    return params_.kv.As<float>() + (first_token_ + position - begin_) * channels_;
  }
  const float* ScoreOf(int64_t position) const {
    return params_.score.As<float>() + (first_token_ + position - begin_) * channels_;
  }
  const float* ApeOf(int64_t position) const {
    return params_.ape.As<float>() + position % params_.ratio * channels_;
  }
  float* StateRow(int64_t position) const {
    const int64_t row =
        pages_[position / params_.state_span] * params_.state_rows + position % params_.state_rows;
    return params_.state.As<float>() + row * 2 * channels_;
  }

  const CompressorParams& params_;
  int64_t first_token_;
  int64_t begin_;  // positions
  int64_t end_;
  const int32_t* pages_;
  int64_t channels_;
};

struct ClosedEntry {
  int64_t request;
  int64_t entry;
};

// Ratio 4 overlaps: the group before gives its first half, the entry's own its second.
void GatherTokens(const CompressorParams& params, const StepOf& step, int64_t entry,
                  std::vector<PooledToken>& tokens) {
  const int64_t width = params.pool.layout.width;
  const bool overlaps = params.kv.shape[1] == 2 * width;
  tokens.clear();
  const int64_t own = entry * params.ratio;
  if (overlaps && entry > 0) {
    for (int64_t position = own - params.ratio; position < own; ++position) {
      tokens.push_back(step.TokenAt(position, 0));
    }
  }
  for (int64_t position = own; position < own + params.ratio; ++position) {
    tokens.push_back(step.TokenAt(position, overlaps ? width : 0));
  }
}

void Run(const CompressorParams& params, Context& context, void (*compress)(const CompressEntry&)) {
  std::vector<StepOf> steps;
  std::vector<ClosedEntry> closed;
  for (int64_t b = 0; b < params.requests.start_pos.num_elements(); ++b) {
    const StepOf& step = steps.emplace_back(params, b);
    for (int64_t entry = step.first_entry(); entry < step.end_entry(); ++entry) {
      closed.push_back({b, entry});
    }
  }
  const RowLayout& layout = params.pool.layout;
  const int64_t dim = params.rope.dim;
  const auto make_entries = [&](int64_t begin, int64_t end) {
    std::vector<PooledToken> tokens;
    std::vector<float> memory(static_cast<size_t>(layout.width + 2 * dim));
    float* cosines = memory.data() + layout.width;
    float* sines = cosines + dim;
    for (int64_t i = begin; i < end; ++i) {
      const auto [request, entry] = closed[static_cast<size_t>(i)];
      GatherTokens(params, steps[static_cast<size_t>(request)], entry, tokens);
      FillRotation(params.rope, entry * params.ratio, false, cosines, sines);
      compress({tokens.data(), static_cast<int64_t>(tokens.size()), params.norm.As<float>(),
                params.rms_eps, cosines, sines, dim, params.hadamard, memory.data(), layout,
                params.pool.row(params.entry_slots.As<int32_t>()[i])});
    }
  };
  context.pool().ParallelFor(static_cast<int64_t>(closed.size()), make_entries);
  // Only now, since entries read the rows of earlier steps that these replace. Shared out by
  // channels, in 16s: tokens may meet in a row.
  constexpr int64_t kChunk = 16;
  const int64_t channels = params.kv.shape[1];
  const auto keep = [&](int64_t begin, int64_t end) {
    for (const StepOf& step : steps) {
      step.Keep(begin * kChunk, std::min(end * kChunk, channels));
    }
  };
  if (params.kv.shape[0] <= 2) {
    keep(0, channels);  // too little to share
  } else {
    context.pool().ParallelFor((channels + kChunk - 1) / kChunk, keep);
  }
}

}  // namespace

const char* VectorCompressorSupports(const CompressorParams& params) {
  return RowsUnsupported(params.pool.layout);
}
void Avx2Compressor(const CompressorParams& params, Context& context) {
  Run(params, context, avx2::Compress);
}
void Avx512Compressor(const CompressorParams& params, Context& context) {
  Run(params, context, avx512::Compress);
}

}  // namespace cachalot::cpu
