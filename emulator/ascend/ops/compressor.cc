// aclnnCompressor: pools the tokens of a group into one row, over a state cache that carries groups
// across calls. Two operators of one name: the custom one ends with norm and rope, the official one
// leaves both to its caller and has state in pages alone.
#include <algorithm>
#include <vector>

#include "compressor_kernel.h"
#include "export.h"
#include "op.h"
#include "paged.h"

namespace ascend_emulator {
namespace {

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
      call.Contiguous(a.state);
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

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_AND_OFFICIAL_OP(aclnnCompressor, ascend_emulator::CustomSize,
                                ascend_emulator::OfficialSize);
