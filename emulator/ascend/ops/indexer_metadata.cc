// The AI-CPU operators that deal the indexer's work to the cube cores before it runs:
// aclnnVllmQuantLightningIndexerMetadata (custom) and aclnnQuantLightningIndexerV2Metadata (official).
#include <algorithm>
#include <string>

#include "core_schedule.h"
#include "export.h"
#include "indexer_work.h"
#include "op.h"
#include "paged.h"

namespace ascend_emulator {
namespace {

struct Dealing {
  TableKind kind = TableKind::kVllmQuantLightningIndexer;
  bool leading_zero = false;
  Operand query_ends;
  Operand key_lengths;
  Operand residuals;
  Operand table;
  AttentionWork work;
};

void Deal(Kernel& kernel, const Dealing& dealing) {
  AttentionWork work = dealing.work;
  if (!ReadWork(kernel, dealing.query_ends, dealing.leading_zero, dealing.key_lengths,
                dealing.residuals, INT32_MAX, work)) {
    return;
  }
  work.cores = kernel.cube_cores();
  const Table table = EncodeTable(dealing.kind, work);
  std::copy(table.begin(), table.end(), kernel.Data<int32_t>(dealing.table));
}

void CheckDealing(Call& call, const char* op, const Dealing& dealing, int64_t heads,
                  int64_t key_heads, int64_t head_dim, int64_t batch, int64_t topk) {
  const std::string limit(op);
  call.Limit(heads == 64, (limit + ".heads").c_str(), "numHeadsQ {}, not 64", heads);
  call.Expect(key_heads == 1, kAclnnInvalid, "numHeadsK {}, not 1", key_heads);
  call.Limit(head_dim == 128, (limit + ".head_dim").c_str(), "headDim {}, not 128", head_dim);
  call.Expect(topk > 0 && topk <= 2048, kAclnnInvalid, "topk {}, not in 1..2048", topk);
  call.Present(dealing.query_ends, "layout TND needs it");
  call.Present(dealing.key_lengths, "the paged layout needs it");
  call.Rank(dealing.key_lengths, {1});
  if (!call.ok()) {
    return;
  }
  const int64_t requests = dealing.key_lengths.dim(0);
  call.Shape(dealing.query_ends, {requests + (dealing.leading_zero ? 1 : 0)});
  call.Expect(batch == 0 || batch == requests, kAclnnInvalid, "batchSize {}, but {} has {}", batch,
              dealing.key_lengths.name, requests);
  call.Shape(dealing.table, {kTableWords});
  call.Contiguous(dealing.table);
}

aclnnStatus VllmMetadataSize(const aclTensor* actual_seq_lengths_query,
                             const aclTensor* actual_seq_lengths_key, int64_t num_heads_q,
                             int64_t num_heads_k, int64_t head_dim, int64_t query_quant_mode,
                             int64_t key_quant_mode, int64_t batch_size, int64_t max_seqlen_q,
                             int64_t max_seqlen_k, char* layout_query, char* layout_key,
                             int64_t sparse_count, int64_t sparse_mode, int64_t pre_tokens,
                             int64_t next_tokens, int64_t cmp_ratio, aclTensor* metadata,
                             uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnVllmQuantLightningIndexerMetadata", size, executor);
  Dealing dealing;
  dealing.query_ends =
      call.OptionalInput("actualSeqLengthsQuery", actual_seq_lengths_query, {ACL_INT32});
  dealing.key_lengths =
      call.OptionalInput("actualSeqLengthsKey", actual_seq_lengths_key, {ACL_INT32});
  dealing.table = call.Output("metaData", metadata, {ACL_INT32});
  CheckCustom(call, {query_quant_mode, key_quant_mode, layout_query, layout_key, sparse_mode,
                     pre_tokens, next_tokens, cmp_ratio});
  call.Expect(batch_size >= 0 && max_seqlen_q >= 0 && max_seqlen_k >= 0, kAclnnInvalid,
              "batchSize {}, maxSeqlenQ {}, maxSeqlenK {}: negative", batch_size, max_seqlen_q,
              max_seqlen_k);
  CheckDealing(call, "VllmQuantLightningIndexerMetadata", dealing, num_heads_q, num_heads_k,
               head_dim, batch_size, sparse_count);
  dealing.work = WorkOf(num_heads_q, cmp_ratio);
  call.Workspace(0);
  return call.Finish([dealing](Kernel& kernel) { Deal(kernel, dealing); });
}

aclnnStatus V2MetadataSize(const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_k,
                           const aclTensor* seqused_q, const aclTensor* seqused_k,
                           const aclTensor* cmp_residual_k, int64_t num_heads_q,
                           int64_t num_heads_k, int64_t head_dim, int64_t topk, int64_t quant_mode,
                           int64_t batch_size, int64_t max_seqlen_q, int64_t max_seqlen_k,
                           char* layout_q, char* layout_k, int64_t mask_mode, int64_t cmp_ratio,
                           aclTensor* metadata, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnQuantLightningIndexerV2Metadata", size, executor);
  Dealing dealing;
  dealing.kind = TableKind::kQuantLightningIndexerV2;
  dealing.leading_zero = true;
  dealing.query_ends = call.OptionalInput("cuSeqLensQ", cu_seqlens_q, {ACL_INT32});
  const Operand key_starts = call.OptionalInput("cuSeqLensK", cu_seqlens_k, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  dealing.key_lengths = call.OptionalInput("sequsedK", seqused_k, {ACL_INT32});
  dealing.residuals = call.OptionalInput("cmpResidualK", cmp_residual_k, {ACL_INT32});
  dealing.table = call.Output("metaData", metadata, {ACL_INT32});
  call.Expect(quant_mode == 2, kAclnnInvalid, "quantMode {}, not 2 as A3 has it", quant_mode);
  call.Expect(batch_size >= 0 && max_seqlen_q >= -1 && max_seqlen_k >= -1, kAclnnInvalid,
              "batchSize {}, maxSeqlenQ {}, maxSeqlenK {}: negative", batch_size, max_seqlen_q,
              max_seqlen_k);
  call.Expect(IsLayout(layout_q, "TND"), kAclnnInvalid, "layoutQ {}: only TND is emulated",
              Shown(layout_q));
  call.Expect(IsLayout(layout_k, "PA_BSND") || IsLayout(layout_k, "PA_BBND"), kAclnnInvalid,
              "layoutK {}, neither PA_BSND nor PA_BBND", Shown(layout_k));
  call.Expect(mask_mode == 3, kAclnnInvalid, "maskMode {}: only 3 is emulated", mask_mode);
  call.Expect(IsPowerOfTwo(cmp_ratio) && cmp_ratio <= 128, kAclnnInvalid,
              "cmpRatio {}, not a power of two up to 128", cmp_ratio);
  call.Absent(key_starts, "layoutK is paged");
  call.Absent(used_q, "layoutQ is TND");
  if (cmp_ratio != 1) {
    call.Present(dealing.residuals, "cmpRatio is not 1 and maskMode is 3");
  }
  CheckDealing(call, "QuantLightningIndexerV2Metadata", dealing, num_heads_q, num_heads_k, head_dim,
               batch_size, topk);
  if (call.ok() && !dealing.residuals.absent()) {
    call.Shape(dealing.residuals, {dealing.key_lengths.dim(0)});
  }
  dealing.work = WorkOf(num_heads_q, cmp_ratio);
  call.Workspace(0);
  return call.Finish([dealing](Kernel& kernel) { Deal(kernel, dealing); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnVllmQuantLightningIndexerMetadata, ascend_emulator::VllmMetadataSize);
EMULATOR_OFFICIAL_OP(aclnnQuantLightningIndexerV2Metadata, ascend_emulator::V2MetadataSize);
