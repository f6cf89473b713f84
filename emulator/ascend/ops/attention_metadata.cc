// The AI-CPU operators that deal the attention's work to the cube cores before it runs:
// aclnnSparseAttnSharedkvMetadata (custom) and aclnnSparseFlashMlaMetadata (official).
#include <algorithm>
#include <vector>

#include "core_schedule.h"
#include "export.h"
#include "op.h"
#include "paged.h"

namespace ascend_emulator {
namespace {

struct Dealing {
  TableKind kind = TableKind::kSparseAttnSharedkv;
  bool packed = true;
  Operand starts;        // packed
  Operand lengths;       // raw keys of each request
  int64_t requests = 0;  // not packed
  int64_t queries = 0;   // of each request, not packed
  AttentionWork work;
  Operand table;
};

void Deal(Kernel& kernel, const Dealing& dealing) {
  AttentionWork work = dealing.work;
  if (!ReadLengths(kernel, dealing.lengths, work.keys)) {
    return;
  }
  if (dealing.packed) {
    std::vector<int64_t> starts;
    if (!ReadStarts(kernel, dealing.starts, INT32_MAX, starts)) {
      return;
    }
    for (size_t i = 1; i < starts.size(); ++i) {
      work.queries.push_back(starts[i] - starts[i - 1]);
    }
  } else {
    work.queries.assign(static_cast<size_t>(dealing.requests), dealing.queries);
  }
  work.cores = kernel.cube_cores();
  const Table table = EncodeTable(dealing.kind, work);
  std::copy(table.begin(), table.end(), kernel.Data<int32_t>(dealing.table));
}

struct Attributes {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t batch = 0;
  int64_t max_queries = 0;
  int64_t topk = 0;
  int64_t ratio = 0;
  int64_t ori_mask = 0;
  int64_t cmp_mask = 0;
  int64_t left = 0;
  int64_t right = 0;
  const char* layout_q = nullptr;
  bool has_ori = false;
  bool has_cmp = false;
};

// Checks that do not differ between the flavours, and what they leave to deal. `op` names the limits.
void Prepare(Call& call, const char* op, const Attributes& a, Dealing& dealing) {
  const std::string limit(op);
  call.Expect(a.kv_heads == 1, kAclnnInvalid, "numHeadsKv {}, not 1", a.kv_heads);
  call.Limit(a.head_dim == 512, (limit + ".head_dim").c_str(), "headDim {}, not 512", a.head_dim);
  call.Expect(a.batch >= 0 && a.max_queries >= 0, kAclnnInvalid,
              "batchSize {}, maxSeqlenQ {}: negative", a.batch, a.max_queries);
  call.Expect(a.ori_mask == 4, kAclnnInvalid, "oriMaskMode {}, not 4", a.ori_mask);
  call.Expect(a.cmp_mask == 3, kAclnnInvalid, "cmpMaskMode {}, not 3", a.cmp_mask);
  call.Expect(IsLayout(a.layout_q, "TND") || IsLayout(a.layout_q, "BSND"), kAclnnInvalid,
              "layoutQ {}, neither TND nor BSND", Shown(a.layout_q));
  call.Expect(a.has_ori, kAclnnInvalid, "hasOriKv is false, but every mode attends to a window");
  if (a.has_cmp) {
    call.Limit(a.topk == 0 || a.topk == 512 || a.topk == 1024, (limit + ".topk").c_str(),
               "cmpTopk {}, none of 0, 512 and 1024", a.topk);
    call.Expect(a.ratio == (a.topk > 0 ? 4 : 128), kAclnnInvalid, "cmpRatio {}, but cmpTopk is {}",
                a.ratio, a.topk);
  } else {
    call.Expect(a.topk == 0, kAclnnInvalid, "cmpTopk {}, but hasCmpKv is false", a.topk);
  }
  call.Present(dealing.lengths, "the paged layout needs it");
  call.Rank(dealing.lengths, {1});
  dealing.packed = IsLayout(a.layout_q, "TND");
  if (dealing.packed && call.ok()) {
    call.Present(dealing.starts, "layoutQ TND needs it");
    call.Shape(dealing.starts, {dealing.lengths.dim(0) + 1});
    call.Expect(a.batch == 0 || a.batch == dealing.lengths.dim(0), kAclnnInvalid,
                "batchSize {}, but {} has {}", a.batch, dealing.lengths.name,
                dealing.lengths.dim(0));
  } else if (call.ok()) {
    call.Absent(dealing.starts, "layoutQ is BSND");
    call.Expect(a.batch == dealing.lengths.dim(0), kAclnnInvalid, "batchSize {}, but {} has {}",
                a.batch, dealing.lengths.name, dealing.lengths.dim(0));
  }
  call.Shape(dealing.table, {kTableWords});
  call.Contiguous(dealing.table);
  dealing.requests = a.batch;
  dealing.queries = a.max_queries;
  dealing.work.heads = a.heads;
  dealing.work.left = a.left;
  dealing.work.right = a.right;
  dealing.work.ratio = a.has_cmp ? a.ratio : 0;
  dealing.work.topk = a.has_cmp ? a.topk : 0;
}

aclnnStatus SharedkvSize(const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_ori_kv,
                         const aclTensor* cu_seqlens_cmp_kv, const aclTensor* seqused_q,
                         const aclTensor* seqused_kv, int64_t num_heads_q, int64_t num_heads_kv,
                         int64_t head_dim, int64_t batch_size, int64_t max_seqlen_q,
                         int64_t max_seqlen_kv, int64_t ori_topk, int64_t cmp_topk,
                         int64_t cmp_ratio, int64_t ori_mask_mode, int64_t cmp_mask_mode,
                         int64_t ori_win_left, int64_t ori_win_right, char* layout_q,
                         char* layout_kv, bool has_ori_kv, bool has_cmp_kv, aclTensor* metadata,
                         uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnSparseAttnSharedkvMetadata", size, executor);
  Dealing dealing;
  dealing.starts = call.OptionalInput("cuSeqLensQ", cu_seqlens_q, {ACL_INT32});
  const Operand ori_starts = call.OptionalInput("cuSeqLensOriKv", cu_seqlens_ori_kv, {ACL_INT32});
  const Operand cmp_starts = call.OptionalInput("cuSeqLensCmpKv", cu_seqlens_cmp_kv, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  dealing.lengths = call.OptionalInput("sequsedKv", seqused_kv, {ACL_INT32});
  dealing.table = call.Output("metaData", metadata, {ACL_INT32});

  call.Absent(ori_starts, "layoutKv PA_ND has sequsedKv");
  call.Absent(cmp_starts, "layoutKv PA_ND has sequsedKv");
  call.Absent(used_q, "not emulated");
  call.Limit(num_heads_q > 0 && num_heads_q <= 128 && num_heads_q % 4 == 0,
             "SparseAttnSharedkvMetadata.heads", "numHeadsQ {}, not a multiple of 4 up to 128",
             num_heads_q);
  call.Expect(max_seqlen_kv >= 0, kAclnnInvalid, "maxSeqlenKv {}: negative", max_seqlen_kv);
  call.Expect(ori_topk == 0, kAclnnInvalid, "oriTopK {}: not emulated", ori_topk);
  call.Expect(ori_win_left >= 0 && ori_win_right >= 0, kAclnnInvalid,
              "oriWinLeft {}, oriWinRight {}: negative", ori_win_left, ori_win_right);
  call.Expect(IsLayout(layout_kv, "PA_ND"), kAclnnInvalid, "layoutKv {}, not PA_ND",
              Shown(layout_kv));
  Prepare(call, "SparseAttnSharedkvMetadata",
          {.heads = num_heads_q,
           .kv_heads = num_heads_kv,
           .head_dim = head_dim,
           .batch = batch_size,
           .max_queries = max_seqlen_q,
           .topk = cmp_topk,
           .ratio = cmp_ratio,
           .ori_mask = ori_mask_mode,
           .cmp_mask = cmp_mask_mode,
           .left = ori_win_left,
           .right = ori_win_right,
           .layout_q = layout_q,
           .has_ori = has_ori_kv,
           .has_cmp = has_cmp_kv},
          dealing);
  call.Workspace(0);
  return call.Finish([dealing](Kernel& kernel) { Deal(kernel, dealing); });
}

aclnnStatus FlashMlaSize(const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_ori_kv,
                         const aclTensor* cu_seqlens_cmp_kv, const aclTensor* seqused_q,
                         const aclTensor* seqused_ori_kv, const aclTensor* seqused_cmp_kv,
                         const aclTensor* cmp_residual_kv, const aclTensor* ori_topk_length,
                         const aclTensor* cmp_topk_length, int64_t num_heads_q,
                         int64_t num_heads_kv, int64_t head_dim, int64_t batch_size,
                         int64_t max_seqlen_q, int64_t max_seqlen_ori_kv, int64_t max_seqlen_cmp_kv,
                         int64_t ori_topk, int64_t cmp_topk, int64_t cmp_ratio,
                         int64_t ori_mask_mode, int64_t cmp_mask_mode, int64_t ori_win_left,
                         int64_t ori_win_right, const char* layout_q, const char* layout_kv,
                         bool has_ori_kv, bool has_cmp_kv, aclTensor* metadata, uint64_t* size,
                         aclOpExecutor** executor) {
  Call call("aclnnSparseFlashMlaMetadata", size, executor);
  Dealing dealing;
  dealing.kind = TableKind::kSparseFlashMla;
  dealing.starts = call.OptionalInput("cuSeqlensQ", cu_seqlens_q, {ACL_INT32});
  const Operand ori_starts = call.OptionalInput("cuSeqlensOriKv", cu_seqlens_ori_kv, {ACL_INT32});
  const Operand cmp_starts = call.OptionalInput("cuSeqlensCmpKv", cu_seqlens_cmp_kv, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  dealing.lengths = call.OptionalInput("sequsedOriKv", seqused_ori_kv, {ACL_INT32});
  const Operand entries = call.OptionalInput("sequsedCmpKv", seqused_cmp_kv, {ACL_INT32});
  const Operand residuals = call.OptionalInput("cmpResidualKv", cmp_residual_kv, {ACL_INT32});
  const Operand ori_counts = call.OptionalInput("oriTopkLength", ori_topk_length, {ACL_INT32});
  const Operand cmp_counts = call.OptionalInput("cmpTopkLength", cmp_topk_length, {ACL_INT32});
  dealing.table = call.Output("metaData", metadata, {ACL_INT32});

  call.Absent(ori_starts, "layoutKv PA_BBND has sequsedOriKv");
  call.Absent(cmp_starts, "layoutKv PA_BBND has sequsedCmpKv");
  call.Absent(used_q, "A3 has it not");
  call.Absent(ori_counts, "oriTopk is 0");
  call.Absent(cmp_counts, "A3 has it not");
  call.Limit(IsPowerOfTwo(num_heads_q) && num_heads_q <= 128, "SparseFlashMlaMetadata.heads",
             "numHeadsQ {}, not a power of two up to 128", num_heads_q);
  call.Expect(max_seqlen_ori_kv >= 0 && max_seqlen_cmp_kv >= 0, kAclnnInvalid,
              "maxSeqlenOriKv {}, maxSeqlenCmpKv {}: negative", max_seqlen_ori_kv,
              max_seqlen_cmp_kv);
  call.Expect(ori_topk == 0, kAclnnInvalid, "oriTopk {}: not emulated", ori_topk);
  call.Expect(ori_win_left == 127 && ori_win_right == 0, kAclnnInvalid,
              "oriWinLeft {}, oriWinRight {}: A3 has 127 and 0 alone", ori_win_left, ori_win_right);
  call.Expect(IsLayout(layout_kv, "PA_BBND"), kAclnnInvalid,
              "layoutKv {}: only PA_BBND is emulated", Shown(layout_kv));
  Prepare(call, "SparseFlashMlaMetadata",
          {.heads = num_heads_q,
           .kv_heads = num_heads_kv,
           .head_dim = head_dim,
           .batch = batch_size,
           .max_queries = max_seqlen_q,
           .topk = cmp_topk,
           .ratio = cmp_ratio,
           .ori_mask = ori_mask_mode,
           .cmp_mask = cmp_mask_mode,
           .left = ori_win_left,
           .right = ori_win_right,
           .layout_q = layout_q,
           .has_ori = has_ori_kv,
           .has_cmp = has_cmp_kv},
          dealing);
  if (call.ok() && has_cmp_kv) {
    call.Present(entries, "hasCmpKv is true and layoutKv is paged");
    call.Present(residuals, "cmpRatio is not 1 and cmpMaskMode is 3");
    call.Shape(entries, {dealing.lengths.dim(0)});
    call.Shape(residuals, {dealing.lengths.dim(0)});
  }
  call.Workspace(0);
  return call.Finish([dealing](Kernel& kernel) { Deal(kernel, dealing); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnSparseAttnSharedkvMetadata, ascend_emulator::SharedkvSize);
EMULATOR_OFFICIAL_OP(aclnnSparseFlashMlaMetadata, ascend_emulator::FlashMlaSize);
