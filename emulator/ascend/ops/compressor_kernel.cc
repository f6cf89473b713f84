#include "compressor_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

// One request's new tokens.
struct Span {
  int64_t token = 0;  // first row of x
  int64_t start = 0;  // its position
  int64_t count = 0;
};

bool ReadSpans(Kernel& kernel, const Compressor& call, std::vector<Span>& spans) {
  std::vector<int64_t> starts;
  if (call.packed()) {
    if (!ReadStarts(kernel, call.starts, call.x.dim(0), starts)) {
      return false;
    }
  } else {
    for (int64_t request = 0; request <= call.requests(); ++request) {
      starts.push_back(request * call.x.dim(1));
    }
  }
  std::vector<int64_t> positions(static_cast<size_t>(call.requests()), 0);
  if (!call.start_pos.absent() && !ReadLengths(kernel, call.start_pos, positions)) {
    return false;
  }
  std::vector<int64_t> used;
  if (!call.used.absent() && !ReadLengths(kernel, call.used, used)) {
    return false;
  }
  for (size_t request = 0; request < positions.size(); ++request) {
    Span span{starts[request], positions[request], starts[request + 1] - starts[request]};
    if (!used.empty()) {
      if (used[request] > span.count) {
        kernel.Fault(kAiCoreException, "seqused: request {} uses {} of its {} tokens", request,
                     used[request], span.count);
        return false;
      }
      span.count = used[request];
    }
    spans.push_back(span);
  }
  return true;
}

// Where the state of a position lies: by page, block 0 standing for none, or by a table of rows.
class StateCache {
 public:
  StateCache(Kernel& kernel, const Compressor& call, const std::vector<Span>& spans)
      : kernel_(kernel),
        call_(call),
        spans_(spans),
        table_(call.table.absent() ? std::vector<int64_t>() : kernel.LoadIntegers(call.table)),
        rows_(kernel, call.state) {}

  static constexpr int64_t kNone = -1;

  // The element that the position's row begins at, kNone where it has none. False after a fault.
  bool Find(int64_t request, int64_t position, int64_t& at) {
    at = kNone;
    if (call_.table.absent()) {
      return true;
    }
    const int64_t block_size = call_.state.dim(1);
    const int64_t blocks = call_.state.dim(0);
    const int64_t width = call_.table.dim(1);
    const int64_t column =
        call_.explicit_rows
            ? position - spans_[static_cast<size_t>(request)].start + call_.overlap * call_.ratio
            : position / block_size;
    if (column < 0 || column >= width) {
      kernel_.Fault(kAiCoreException,
                    "stateBlockTable: position {} of request {} needs column {} of {}", position,
                    request, column, width);
      return false;
    }
    const int64_t entry = table_[static_cast<size_t>(request * width + column)];
    const int64_t limit = call_.explicit_rows ? blocks * block_size : blocks;
    if (entry < 0 || entry >= limit) {
      kernel_.Fault(kAiCoreException,
                    "stateBlockTable: column {} of request {} is {}, stateCache has {} {}", column,
                    request, entry, limit, call_.explicit_rows ? "rows" : "blocks");
      return false;
    }
    if (call_.explicit_rows) {
      at =
          entry / block_size * call_.state.strides[0] + entry % block_size * call_.state.strides[1];
    } else if (entry != 0) {
      at = entry * call_.state.strides[0] + position % block_size * call_.state.strides[1];
    }
    return true;
  }

  // Element of the row that stands for nowhere in a table of rows: the last one.
  int64_t Dummy() const {
    return (call_.state.dim(0) - 1) * call_.state.strides[0] +
           (call_.state.dim(1) - 1) * call_.state.strides[1];
  }

  // A row that a position has not got weighs nothing.
  bool Read(int64_t request, int64_t position, float* row) {
    int64_t at = 0;
    if (!Find(request, position, at)) {
      return false;
    }
    const int64_t channels = call_.channels();
    if (at == kNone) {
      std::fill_n(row, channels, 0.0F);
      std::fill_n(row + channels, channels, -std::numeric_limits<float>::infinity());
    } else {
      rows_.Read(at, 2 * channels, row);
    }
    return true;
  }

  // Positions of one request may share a row, as a ring's do: the last one stays.
  bool Write(int64_t request, int64_t position, const float* row) {
    int64_t at = 0;
    if (!Find(request, position, at)) {
      return false;
    }
    if (at == kNone || (call_.explicit_rows && at == Dummy())) {
      return true;
    }
    const auto [owner, fresh] = owners_.emplace(at, request);
    if (!fresh && owner->second != request) {
      kernel_.Fault(kAiCoreException,
                    "stateBlockTable: requests {} and {} write the same row of stateCache",
                    owner->second, request);
      return false;
    }
    rows_.Write(at, 2 * call_.channels(), row);
    return true;
  }

 private:
  Kernel& kernel_;
  const Compressor& call_;
  const std::vector<Span>& spans_;
  std::vector<int64_t> table_;
  Rows rows_;
  std::unordered_map<int64_t, int64_t> owners_;
};

// kv and biased score of new tokens.
class Projection {
 public:
  Projection(Kernel& kernel, const Compressor& call)
      : call_(call),
        x_(kernel, call.x),
        wkv_(Rows(kernel, call.wkv).Read(0, call.wkv.count())),
        wgate_(Rows(kernel, call.wgate).Read(0, call.wgate.count())),
        ape_(Rows(kernel, call.ape).Read(0, call.ape.count())) {}

  std::vector<float> Of(const Span& span) const {
    const int64_t hidden = call_.hidden();
    const int64_t channels = call_.channels();
    std::vector<float> rows(static_cast<size_t>(span.count * 2 * channels));
    std::vector<float> input(static_cast<size_t>(hidden));
    for (int64_t i = 0; i < span.count; ++i) {
      x_.Read((span.token + i) * hidden, hidden, input.data());
      float* kv = rows.data() + i * 2 * channels;
      float* score = kv + channels;
      const float* bias = ape_.data() + (span.start + i) % call_.ratio * channels;
      for (int64_t c = 0; c < channels; ++c) {
        kv[c] = Dot(input.data(), wkv_.data() + c * hidden, hidden);
        score[c] = Dot(input.data(), wgate_.data() + c * hidden, hidden) + bias[c];
      }
    }
    return rows;
  }

 private:
  const Compressor& call_;
  Rows x_;
  std::vector<float> wkv_;
  std::vector<float> wgate_;
  std::vector<float> ape_;
};

class Pooler {
 public:
  Pooler(const Compressor& call, int64_t request, const Span& span, const std::vector<float>& fresh,
         StateCache& state)
      : call_(call), request_(request), span_(span), fresh_(fresh), state_(state) {}

  // Softmax over the group's rows, channel by channel. False after a fault.
  bool Pool(int64_t group, std::vector<float>& pooled) {
    const int64_t channels = call_.channels();
    const int64_t width = call_.width();
    const int64_t count = call_.overlap * call_.ratio;
    std::vector<float> rows(static_cast<size_t>(count * 2 * width));
    std::vector<float> row(static_cast<size_t>(2 * channels));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = (group + 1) * call_.ratio - count + i;
      // With overlap the group before gives its first channels, this one its last.
      const int64_t first = call_.overlap == 2 && i >= call_.ratio ? width : 0;
      if (!ReadRow(position, row.data())) {
        return false;
      }
      float* to = rows.data() + i * 2 * width;
      std::copy_n(row.data() + first, width, to);
      std::copy_n(row.data() + channels + first, width, to + width);
    }
    std::vector<float> top(static_cast<size_t>(width), -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        top[static_cast<size_t>(c)] = std::max(
            top[static_cast<size_t>(c)], rows[static_cast<size_t>(i * 2 * width + width + c)]);
      }
    }
    std::vector<float> weight(static_cast<size_t>(width), 0.0F);
    pooled.assign(static_cast<size_t>(width), 0.0F);
    // From the newest token back: an order of the emulator's own.
    for (int64_t i = count - 1; i >= 0; --i) {
      const float* kv = rows.data() + i * 2 * width;
      for (int64_t c = 0; c < width; ++c) {
        const float p = std::exp(kv[width + c] - top[static_cast<size_t>(c)]);
        weight[static_cast<size_t>(c)] += p;
        pooled[static_cast<size_t>(c)] += p * kv[c];
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      pooled[static_cast<size_t>(c)] /= weight[static_cast<size_t>(c)];
    }
    return true;
  }

 private:
  bool ReadRow(int64_t position, float* row) {
    const int64_t channels = call_.channels();
    if (position < 0) {
      std::fill_n(row, channels, 0.0F);
      std::fill_n(row + channels, channels, -std::numeric_limits<float>::infinity());
      return true;
    }
    if (position >= span_.start) {
      std::copy_n(fresh_.data() + (position - span_.start) * 2 * channels, 2 * channels, row);
      return true;
    }
    return state_.Read(request_, position, row);
  }

  const Compressor& call_;
  int64_t request_;
  const Span& span_;
  const std::vector<float>& fresh_;
  StateCache& state_;
};

// RMS norm, then rope on the last channels with the tables' row of this output row.
void Finish(const Compressor& call, const std::vector<float>& norm, const std::vector<float>& cos,
            const std::vector<float>& sin, std::vector<float>& row) {
  const auto width = static_cast<int64_t>(row.size());
  const float mean = Dot(row.data(), row.data(), width) / static_cast<float>(width);
  const float scale = 1.0F / std::sqrt(mean + call.eps);
  for (int64_t c = 0; c < width; ++c) {
    row[static_cast<size_t>(c)] *= scale * norm[static_cast<size_t>(c)];
  }
  Rotate(row.data() + width - call.rope_width, cos.data(), sin.data(), call.rope_width,
         call.interleaved);
}

}  // namespace

void Compress(Kernel& kernel, const Compressor& call) {
  std::vector<Span> spans;
  if (!ReadSpans(kernel, call, spans)) {
    return;
  }
  if (call.explicit_rows) {
    for (size_t request = 0; request < spans.size(); ++request) {
      const int64_t needed = call.overlap * call.ratio + spans[request].count;
      if (needed > call.table.dim(1)) {
        kernel.Fault(kAiCoreException,
                     "stateBlockTable: {} columns, request {} with {} new tokens needs {}",
                     call.table.dim(1), request, spans[request].count, needed);
        return;
      }
    }
  }
  StateCache state(kernel, call, spans);
  const Projection projection(kernel, call);
  Rows out(kernel, call.out);
  const int64_t width = call.width();
  const bool finish = !call.norm.absent();
  const std::vector<float> norm =
      finish ? Rows(kernel, call.norm).Read(0, width) : std::vector<float>();
  std::vector<std::vector<float>> fresh;
  std::vector<float> row;
  int64_t next = 0;
  const int64_t rows = call.out.count() / width;
  for (size_t request = 0; request < spans.size(); ++request) {
    const Span& span = spans[request];
    fresh.push_back(projection.Of(span));
    if (!call.packed()) {
      const int64_t begin = static_cast<int64_t>(request) * call.out.dim(1);
      out.Poison(next * width, (begin - next) * width);
      next = begin;
    }
    Pooler pooler(call, static_cast<int64_t>(request), span, fresh.back(), state);
    for (int64_t group = span.start / call.ratio; group < (span.start + span.count) / call.ratio;
         ++group) {
      if (!pooler.Pool(group, row)) {
        return;
      }
      if (next >= rows) {
        kernel.Fault(kAiCoreException, "cmpKvOut: {} rows, the requests close more groups", rows);
        return;
      }
      if (finish) {
        const int64_t at = next * call.rope_width;
        Finish(call, norm, Rows(kernel, call.cos).Read(at, call.rope_width),
               Rows(kernel, call.sin).Read(at, call.rope_width), row);
      }
      out.Write(next * width, width, row.data());
      ++next;
    }
  }
  out.Poison(next * width, (rows - next) * width);
  // All reads of the state come before any write: new rows may take the place of those just read.
  for (size_t request = 0; request < spans.size(); ++request) {
    const Span& span = spans[request];
    for (int64_t i = 0; i < span.count; ++i) {
      if (!state.Write(static_cast<int64_t>(request), span.start + i,
                       fresh[request].data() + i * 2 * call.channels())) {
        return;
      }
    }
  }
}

}  // namespace ascend_emulator
