// aclnnCompressor: pools the tokens of a group into one row, over a state cache that carries groups
// across calls. Two operators of one name: the custom one ends with norm and rope, the official one
// leaves both to its caller and has state in pages alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "export.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

// Rows of a token: kv, then score with its position's bias, `channels` each.
struct Compressor {
  Operand x;      // [T, H] or [B, S, H]
  Operand wkv;    // [channels, H]
  Operand wgate;  // [channels, H]
  Operand state;  // FP32 [blocks, block size, 2 * channels]
  Operand ape;    // FP32 [ratio, channels]
  Operand norm;   // [D]; absent: no norm, no rope
  Operand sin;
  Operand cos;
  Operand table;  // state rows: pages of [B, n], or one row per position of [B, width]
  Operand starts;
  Operand used;
  Operand start_pos;
  Operand out;
  int64_t ratio = 0;
  int64_t overlap = 1;  // 2: a group mixes in the one before it
  bool explicit_rows = false;
  bool interleaved = true;
  int64_t rope_width = 0;
  float eps = 0;

  bool packed() const { return x.rank() == 2; }
  int64_t requests() const { return packed() ? starts.dim(0) - 1 : x.dim(0); }
  int64_t hidden() const { return x.dim(-1); }
  int64_t channels() const { return wkv.dim(0); }
  int64_t width() const { return channels() / overlap; }
};

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

// Rows of cmpKvOut, without the channels.
std::vector<int64_t> OutRows(const Compressor& a) {
  if (a.packed()) {
    const int64_t tokens = a.x.dim(0);
    return {std::min(tokens, tokens / a.ratio + a.requests())};
  }
  return {a.x.dim(0), (a.x.dim(1) + a.ratio - 1) / a.ratio};
}

// Checks that do not differ between the flavours. False where there is nothing more to check.
bool CheckCommon(Call& call, const Compressor& a, int64_t stride) {
  call.Rank(a.x, {2, 3});
  call.Rank(a.wkv, {2});
  call.Rank(a.state, {3});
  if (!call.ok()) {
    return false;
  }
  for (const Operand* operand : {&a.wkv, &a.wgate, &a.out}) {
    call.Expect(operand->dtype == a.x.dtype, kAclnnInvalid, "{}: {}, but x is {}", operand->name,
                NameOf(operand->dtype), NameOf(a.x.dtype));
  }
  call.Limit(a.hidden() >= 1024 && a.hidden() <= 10240 && a.hidden() % 512 == 0,
             "Compressor.hidden", "x: hidden size {}, not a multiple of 512 from 1024 to 10240",
             a.hidden());
  call.Expect(a.channels() > 0 && a.channels() % a.overlap == 0, kAclnnInvalid,
              "wkv: {} rows, not a multiple of coff {}", a.channels(), a.overlap);
  call.Limit(a.width() == 512 || (a.width() == 128 && a.overlap == 2), "Compressor.head_dim",
             "wkv: {} rows with coff {}: head dim {}", a.channels(), a.overlap, a.width());
  call.Shape(a.wkv, {-1, a.hidden()});
  call.SameShape(a.wkv, a.wgate);
  call.Shape(a.state, {-1, -1, 2 * a.channels()});
  call.Shape(a.ape, {a.ratio, a.channels()});
  for (const Operand* operand : {&a.x, &a.wkv, &a.wgate, &a.ape, &a.out}) {
    call.Contiguous(*operand);
  }
  if (a.packed()) {
    call.Present(a.starts, "x is [T, H]");
    call.Rank(a.starts, {1});
  } else {
    call.Absent(a.starts, "x is [B, S, H]");
  }
  if (!call.ok()) {
    return false;
  }
  for (const Operand* operand : {&a.used, &a.start_pos}) {
    if (!operand->absent()) {
      call.Shape(*operand, {a.requests()});
      call.Contiguous(*operand);
    }
  }
  CheckStride(call, a.state, "stateCacheStrideDim0", stride, false);
  if (!a.table.absent()) {
    call.Shape(a.table, {a.requests(), -1});
    call.Contiguous(a.table);
  }
  std::vector<int64_t> shape = OutRows(a);
  shape.push_back(a.width());
  call.Shape(a.out, shape);
  return call.ok();
}

aclnnStatus CustomSize(const aclTensor* x, const aclTensor* wkv, const aclTensor* wgate,
                       aclTensor* state_cache, const aclTensor* ape, const aclTensor* norm_weight,
                       const aclTensor* rope_sin, const aclTensor* rope_cos,
                       const aclTensor* state_block_table, const aclTensor* cu_seqlens,
                       const aclTensor* seqused, const aclTensor* start_pos, int64_t rope_head_dim,
                       int64_t cmp_ratio, int64_t coff, double norm_eps, int64_t rotary_mode,
                       int64_t cache_mode, int64_t state_cache_stride_dim0, aclTensor* cmp_kv,
                       uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnCompressor", size, executor);
  const Call::DTypes rope_types = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
  Compressor a;
  a.x = call.Input("x", x, kHalfTypes);
  a.wkv = call.Input("wkv", wkv, kHalfTypes);
  a.wgate = call.Input("wgate", wgate, kHalfTypes);
  a.state = call.InOut("stateCache", state_cache, {ACL_FLOAT});
  a.ape = call.Input("ape", ape, {ACL_FLOAT});
  a.norm = call.Input("normWeight", norm_weight, kHalfTypes);
  a.sin = call.Input("ropeSin", rope_sin, rope_types);
  a.cos = call.Input("ropeCos", rope_cos, rope_types);
  a.table = call.OptionalInput("stateBlockTable", state_block_table, {ACL_INT32});
  a.starts = call.OptionalInput("cuSeqlens", cu_seqlens, {ACL_INT32});
  a.used = call.OptionalInput("seqused", seqused, {ACL_INT32});
  a.start_pos = call.OptionalInput("startPos", start_pos, {ACL_INT32});
  call.Expect((cmp_ratio == 4 && coff == 2) || (cmp_ratio == 128 && coff == 1), kAclnnInvalid,
              "cmpRatio {}, coff {}: neither 4 and 2 nor 128 and 1", cmp_ratio, coff);
  call.Expect(cache_mode == 1 || cache_mode == 2, kAclnnInvalid, "cacheMode {}, neither 1 nor 2",
              cache_mode);
  call.Expect(rotary_mode == 1 || rotary_mode == 2, kAclnnInvalid, "rotaryMode {}, neither 1 nor 2",
              rotary_mode);
  call.Limit(rope_head_dim == 64, "Compressor.rope_head_dim", "ropeHeadDim {}, not 64",
             rope_head_dim);
  a.out = call.Output("cmpKv", cmp_kv, kHalfTypes);
  a.ratio = cmp_ratio;
  a.overlap = coff;
  a.explicit_rows = cache_mode == 2;
  a.interleaved = rotary_mode == 2;
  a.rope_width = rope_head_dim;
  a.eps = static_cast<float>(norm_eps);
  if (call.ok() && CheckCommon(call, a, state_cache_stride_dim0)) {
    call.Expect(rope_head_dim > 0 && rope_head_dim % 2 == 0 && rope_head_dim <= a.width(),
                kAclnnInvalid, "ropeHeadDim {}: odd, or more than the {} channels", rope_head_dim,
                a.width());
    call.Expect(a.norm.dtype == a.x.dtype, kAclnnInvalid, "normWeight: {}, but x is {}",
                NameOf(a.norm.dtype), NameOf(a.x.dtype));
    call.Expect(a.sin.dtype == a.cos.dtype, kAclnnInvalid, "ropeSin: {}, but ropeCos is {}",
                NameOf(a.sin.dtype), NameOf(a.cos.dtype));
    call.Shape(a.norm, {a.width()});
    std::vector<int64_t> shape = OutRows(a);
    shape.push_back(rope_head_dim);
    call.Shape(a.sin, shape);
    call.Shape(a.cos, shape);
    for (const Operand* operand : {&a.norm, &a.sin, &a.cos}) {
      call.Contiguous(*operand);
    }
    if (a.explicit_rows) {
      call.Present(a.table, "cacheMode 2 has a table of rows");
    }
    if (a.explicit_rows && call.ok()) {
      call.Expect(a.table.dim(1) > coff * cmp_ratio, kAclnnInvalid,
                  "stateBlockTable: {} columns, cacheMode 2 needs more than {}", a.table.dim(1),
                  coff * cmp_ratio);
    }
  }
  if (call.ok() && a.x.count() == 0) {
    return call.Finish(DoNothing);
  }
  return call.Finish([a](Kernel& kernel) { Compress(kernel, a); });
}

aclnnStatus OfficialSize(const aclTensor* x, const aclTensor* wkv, const aclTensor* wgate,
                         aclTensor* state_cache, const aclTensor* ape,
                         const aclTensor* state_block_table, const aclTensor* cu_seqlens,
                         const aclTensor* seqused, const aclTensor* start_pos, int64_t cmp_ratio,
                         int64_t coff, int64_t cache_mode, int64_t state_cache_stride_dim0,
                         bool grad_enabled, aclTensor* cmp_kv, aclTensor* softmax_score,
                         aclTensor* kv, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnCompressor", size, executor);
  Compressor a;
  a.x = call.Input("x", x, kHalfTypes);
  a.wkv = call.Input("wkv", wkv, kHalfTypes);
  a.wgate = call.Input("wgate", wgate, kHalfTypes);
  a.state = call.InOut("stateCache", state_cache, {ACL_FLOAT});
  a.ape = call.Input("ape", ape, {ACL_FLOAT});
  a.table = call.OptionalInput("stateBlockTable", state_block_table, {ACL_INT32});
  a.starts = call.OptionalInput("cuSeqlens", cu_seqlens, {ACL_INT32});
  a.used = call.OptionalInput("seqused", seqused, {ACL_INT32});
  a.start_pos = call.OptionalInput("startPos", start_pos, {ACL_INT32});
  call.Expect(IsPowerOfTwo(cmp_ratio) && cmp_ratio >= 2 && cmp_ratio <= 128, kAclnnInvalid,
              "cmpRatio {}, not a power of two from 2 to 128", cmp_ratio);
  call.Expect(coff == 1 || coff == 2, kAclnnInvalid, "coff {}, neither 1 nor 2", coff);
  call.Expect(cache_mode == 1, kAclnnInvalid, "cacheMode {}: A3 has 1 alone", cache_mode);
  call.Expect(!grad_enabled, kAclnnInvalid, "gradEnabled: A3 has it not");
  a.out = call.Output("cmpKvOut", cmp_kv, kHalfTypes);
  // Valid with gradEnabled alone; what they hold without it is not said, and they stay as they are.
  call.OptionalOutput("softmaxScoreOut", softmax_score, {ACL_FLOAT});
  call.OptionalOutput("kvOut", kv, {ACL_FLOAT});
  a.ratio = cmp_ratio;
  a.overlap = coff;
  if (call.ok() && CheckCommon(call, a, state_cache_stride_dim0)) {
    call.Contiguous(a.state);
  }
  if (call.ok() && a.x.count() == 0) {
    return call.Finish(DoNothing);
  }
  return call.Finish([a](Kernel& kernel) { Compress(kernel, a); });
}

aclnnStatus CompressorRun(void* workspace, uint64_t size, aclOpExecutor* executor,
                          aclrtStream stream) {
  return Run("aclnnCompressor", workspace, size, executor, stream);
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_EXPORT(aclnnCompressorGetWorkspaceSize, ascend_emulator::CustomSize,
                ascend_emulator::OfficialSize, nullptr);
EMULATOR_EXPORT(aclnnCompressor, ascend_emulator::CompressorRun, ascend_emulator::CompressorRun,
                nullptr);
