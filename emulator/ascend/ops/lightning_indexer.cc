// Picks the compressed tokens that each query attends to, by INT8 scores:
// aclnnVllmQuantLightningIndexer (custom) and aclnnQuantLightningIndexerV2 (official).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "core_schedule.h"
#include "export.h"
#include "indexer_work.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

constexpr float kLargestHalf = 65504.0F;

// What both flavours come down to. Tokens are packed.
struct Indexer {
  TableKind kind = TableKind::kVllmQuantLightningIndexer;
  Operand query;    // INT8 [T, N, D]
  Operand key;      // INT8 [blocks, block size, 1, D]
  Operand weights;  // FP16 [T, N]
  Operand query_scale;
  Operand key_scale;  // FP16 [blocks, block size, 1]
  bool leading_zero = false;
  Operand query_ends;  // prefix sums of query tokens, [B] or with a leading zero [B + 1]
  Operand key_lengths;
  Operand residuals;  // official: then key_lengths count entries, not raw tokens
  Operand table;
  Operand metadata;
  Operand indices;
  int64_t ratio = 1;
  int64_t topk = 0;

  int64_t heads() const { return query.dim(1); }
  int64_t width() const { return query.dim(2); }
  int64_t requests() const { return key_lengths.dim(0); }
};

// The real operators say nothing about the order of what they pick.
// CACHALOT_EMULATOR_TOPK_ORDER: score (falling, the default), index (rising) or reversed (by score).
void Arrange(std::vector<int32_t>& picked) {
  const char* order = std::getenv("CACHALOT_EMULATOR_TOPK_ORDER");
  if (order == nullptr) {
    return;
  }
  if (std::string_view(order) == "index") {
    std::sort(picked.begin(), picked.end());
  } else if (std::string_view(order) == "reversed") {
    std::reverse(picked.begin(), picked.end());
  }
}

class Scorer {
 public:
  Scorer(Kernel& kernel, const Indexer& call)
      : kernel_(kernel),
        call_(call),
        query_(kernel.Data<int8_t>(call.query)),
        key_(kernel.Data<int8_t>(call.key)),
        weights_(kernel, call.weights),
        query_scale_(kernel, call.query_scale),
        key_scale_(kernel, call.key_scale),
        keys_(kernel, call.key, call.table),
        scales_(kernel, call.key_scale, call.table) {}

  bool Holds(int64_t request, int64_t entries) { return keys_.Holds(request, entries); }

  // Scores entries [0, limit) of `request` for a token. False after a fault.
  bool Score(int64_t token, int64_t request, int64_t limit, std::vector<float>& scores) {
    const int64_t heads = call_.heads();
    const int64_t width = call_.width();
    const std::vector<float> weights = weights_.Read(token * heads, heads);
    const std::vector<float> scales = query_scale_.Read(token * heads, heads);
    for (int64_t head = 0; head < heads; ++head) {
      const float product = weights[static_cast<size_t>(head)] * scales[static_cast<size_t>(head)];
      if (!(std::abs(product) <= kLargestHalf)) {
        kernel_.Fault(kAiCoreException,
                      "weights times query scale is {} at token {}, head {}: beyond FP16", product,
                      token, head);
        return false;
      }
    }
    scores.assign(static_cast<size_t>(limit), 0.0F);
    for (int64_t entry = 0; entry < limit; ++entry) {
      const int64_t at = keys_.At(request, entry);
      const int64_t scale_at = at < 0 ? -1 : scales_.At(request, entry);
      if (scale_at < 0) {
        return false;
      }
      float key_scale = 0;
      key_scale_.Read(scale_at, 1, &key_scale);
      float score = 0;
      for (int64_t head = 0; head < heads; ++head) {
        const int32_t dot = Product(query_ + (token * heads + head) * width, key_ + at, width);
        const float relevance =
            static_cast<float>(dot) * scales[static_cast<size_t>(head)] * key_scale;
        score += weights[static_cast<size_t>(head)] * std::max(relevance, 0.0F);
      }
      scores[static_cast<size_t>(entry)] = score;
    }
    return true;
  }

 private:
  static int32_t Product(const int8_t* a, const int8_t* b, int64_t count) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
    }
    return sum;
  }

  Kernel& kernel_;
  const Indexer& call_;
  const int8_t* query_;
  const int8_t* key_;
  Rows weights_;
  Rows query_scale_;
  Rows key_scale_;
  PagedRows keys_;
  PagedRows scales_;
};

void Pick(Kernel& kernel, const Indexer& call) {
  AttentionWork work = WorkOf(call.heads(), call.ratio);
  const int64_t tokens = call.query.dim(0);
  if (!ReadWork(kernel, call.query_ends, call.leading_zero, call.key_lengths, call.residuals,
                tokens, work)) {
    return;
  }
  const int64_t covered = std::accumulate(work.queries.begin(), work.queries.end(), int64_t{0});
  if (covered != tokens) {
    kernel.Fault(kAiCoreException, "{}: the requests have {} tokens, query has {}",
                 call.query_ends.name, covered, tokens);
    return;
  }
  work.cores = kernel.cube_cores();
  if (!CheckTable(kernel, kernel.Data<int32_t>(call.metadata), call.kind, work)) {
    return;
  }
  Scorer scorer(kernel, call);
  int32_t* indices = kernel.Data<int32_t>(call.indices);
  std::vector<float> scores;
  std::vector<int32_t> picked;
  int64_t token = 0;
  for (int64_t request = 0; request < call.requests(); ++request) {
    const int64_t queries = work.queries[static_cast<size_t>(request)];
    const int64_t length = work.keys[static_cast<size_t>(request)];
    if (queries > 0 && !scorer.Holds(request, length / call.ratio)) {
      return;
    }
    for (int64_t i = 0; i < queries; ++i, ++token) {
      const int64_t position = length - queries + i;
      const int64_t limit = position < 0 ? 0 : (position + 1) / call.ratio;
      if (!scorer.Score(token, request, limit, scores)) {
        return;
      }
      picked.resize(static_cast<size_t>(limit));
      std::iota(picked.begin(), picked.end(), 0);
      const int64_t count = std::min(limit, call.topk);
      std::partial_sort(picked.begin(), picked.begin() + count, picked.end(),
                        [&](int32_t a, int32_t b) {
                          const float left = scores[static_cast<size_t>(a)];
                          const float right = scores[static_cast<size_t>(b)];
                          return left != right ? left > right : a < b;
                        });
      picked.resize(static_cast<size_t>(count));
      Arrange(picked);
      int32_t* row = indices + token * call.topk;
      std::copy(picked.begin(), picked.end(), row);
      std::fill(row + count, row + call.topk, -1);
    }
  }
}

// Checks that do not differ between the flavours. `op` names the limits.
void CheckCommon(Call& call, const char* op, const Indexer& a) {
  if (!call.ok()) {
    return;
  }
  const std::string limit(op);
  call.Rank(a.query, {3});
  call.Rank(a.key_lengths, {1});
  if (!call.ok()) {
    return;
  }
  const int64_t tokens = a.query.dim(0);
  call.Limit(a.heads() == 64, (limit + ".heads").c_str(), "query: {} heads, not 64", a.heads());
  call.Limit(a.width() == 128, (limit + ".head_dim").c_str(), "query: head dim {}, not 128",
             a.width());
  call.Shape(a.key, {-1, -1, 1, a.width()});
  call.Shape(a.weights, {tokens, a.heads()});
  call.Shape(a.query_scale, {tokens, a.heads()});
  call.Shape(a.query_ends, {a.requests() + (a.leading_zero ? 1 : 0)});
  call.Shape(a.table, {a.requests(), -1});
  call.Shape(a.metadata, {kTableWords});
  call.Shape(a.indices, {tokens, 1, a.topk});
  if (!call.ok()) {
    return;
  }
  call.Shape(a.key_scale, {a.key.dim(0), a.key.dim(1), 1});
  CheckBlockSize(call, a.key);
  for (const Operand* operand :
       {&a.query, &a.weights, &a.query_scale, &a.table, &a.metadata, &a.indices}) {
    call.Contiguous(*operand);
  }
  call.Expect(a.topk > 0 && a.topk <= 2048, kAclnnInvalid, "topk {}, not in 1..2048", a.topk);
}

aclnnStatus VllmSize(const aclTensor* query, const aclTensor* key, const aclTensor* weights,
                     const aclTensor* query_dequant_scale, const aclTensor* key_dequant_scale,
                     const aclTensor* actual_seq_lengths_query,
                     const aclTensor* actual_seq_lengths_key, const aclTensor* block_table,
                     const aclTensor* metadata, int64_t query_quant_mode, int64_t key_quant_mode,
                     char* layout_query, char* layout_key, int64_t sparse_count,
                     int64_t sparse_mode, int64_t pre_tokens, int64_t next_tokens,
                     int64_t cmp_ratio, bool return_values, int64_t stride, int64_t scale_stride,
                     aclTensor* sparse_indices, aclTensor* sparse_values, uint64_t* size,
                     aclOpExecutor** executor) {
  Call call("aclnnVllmQuantLightningIndexer", size, executor);
  Indexer a;
  a.query = call.Input("query", query, {ACL_INT8});
  a.key = call.Input("key", key, {ACL_INT8});
  a.weights = call.Input("weights", weights, {ACL_FLOAT16});
  a.query_scale = call.Input("queryDequantScale", query_dequant_scale, {ACL_FLOAT16});
  a.key_scale = call.Input("keyDequantScale", key_dequant_scale, {ACL_FLOAT16});
  a.query_ends = call.OptionalInput("actualSeqLengthsQuery", actual_seq_lengths_query, {ACL_INT32});
  a.key_lengths = call.OptionalInput("actualSeqLengthsKey", actual_seq_lengths_key, {ACL_INT32});
  a.table = call.OptionalInput("blockTable", block_table, {ACL_INT32});
  a.metadata = call.OptionalInput("metadata", metadata, {ACL_INT32});
  a.indices = call.Output("sparseIndices", sparse_indices, {ACL_INT32});
  call.OptionalOutput("sparseValues", sparse_values, {ACL_FLOAT16, ACL_BF16, ACL_FLOAT});

  CheckCustom(call, {query_quant_mode, key_quant_mode, layout_query, layout_key, sparse_mode,
                     pre_tokens, next_tokens, cmp_ratio});
  call.Expect(!return_values, kAclnnInvalid, "returnValues: not emulated");
  call.Present(a.query_ends, "layoutQuery TND needs it");
  call.Present(a.key_lengths, "layoutKey PA_BSND needs it");
  call.Present(a.table, "layoutKey PA_BSND needs it");
  call.Present(a.metadata, "kernels read it");
  a.ratio = cmp_ratio;
  a.topk = sparse_count;
  CheckCommon(call, "VllmQuantLightningIndexer", a);
  CheckStride(call, a.key, "stride", stride, true);
  CheckStride(call, a.key_scale, "scaleStride", scale_stride, true);
  return call.Finish([a](Kernel& kernel) { Pick(kernel, a); });
}

aclnnStatus V2Size(const aclTensor* query, const aclTensor* key, const aclTensor* weights,
                   const aclTensor* query_dequant_scale, const aclTensor* key_dequant_scale,
                   const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_k,
                   const aclTensor* seqused_q, const aclTensor* seqused_k,
                   const aclTensor* cmp_residual_k, const aclTensor* block_table,
                   const aclTensor* output_idx_offset, const aclTensor* metadata, int64_t topk,
                   int64_t quant_mode, int64_t max_seqlen_q, char* layout_q, char* layout_k,
                   int64_t mask_mode, int64_t cmp_ratio, int64_t return_value,
                   aclTensor* sparse_indices, aclTensor* sparse_values, uint64_t* size,
                   aclOpExecutor** executor) {
  Call call("aclnnQuantLightningIndexerV2", size, executor);
  Indexer a;
  a.kind = TableKind::kQuantLightningIndexerV2;
  a.leading_zero = true;
  a.query = call.Input("query", query, {ACL_INT8});
  a.key = call.Input("key", key, {ACL_INT8});
  a.weights = call.Input("weights", weights, {ACL_FLOAT16});
  a.query_scale = call.Input("queryDequantScale", query_dequant_scale, {ACL_FLOAT16});
  a.key_scale = call.Input("keyDequantScale", key_dequant_scale, {ACL_FLOAT16});
  a.query_ends = call.OptionalInput("cuSeqLensQ", cu_seqlens_q, {ACL_INT32});
  const Operand key_starts = call.OptionalInput("cuSeqLensK", cu_seqlens_k, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  a.key_lengths = call.OptionalInput("sequsedK", seqused_k, {ACL_INT32});
  a.residuals = call.OptionalInput("cmpResidualK", cmp_residual_k, {ACL_INT32});
  a.table = call.OptionalInput("blockTable", block_table, {ACL_INT32});
  const Operand offsets = call.OptionalInput("outputIdxOffset", output_idx_offset, {ACL_INT32});
  a.metadata = call.Input("metadata", metadata, {ACL_INT32});
  a.indices = call.Output("sparseIndicesOut", sparse_indices, {ACL_INT32});
  call.OptionalOutput("sparseValuesOut", sparse_values, {ACL_BF16});

  call.Expect(quant_mode == 2, kAclnnInvalid, "quantMode {}, not 2 as A3 has it", quant_mode);
  call.Expect(max_seqlen_q >= -1, kAclnnInvalid, "maxSeqlenQ {}", max_seqlen_q);
  call.Expect(IsLayout(layout_q, "TND"), kAclnnInvalid, "layoutQ {}: only TND is emulated",
              Shown(layout_q));
  call.Expect(IsLayout(layout_k, "PA_BSND") || IsLayout(layout_k, "PA_BBND"), kAclnnInvalid,
              "layoutK {}, neither PA_BSND nor PA_BBND", Shown(layout_k));
  call.Expect(mask_mode == 3, kAclnnInvalid, "maskMode {}: only 3 is emulated", mask_mode);
  call.Expect(IsPowerOfTwo(cmp_ratio) && cmp_ratio <= 128, kAclnnInvalid,
              "cmpRatio {}, not a power of two up to 128", cmp_ratio);
  call.Expect(return_value == 0, kAclnnInvalid, "returnValue {}: not emulated", return_value);
  call.Absent(key_starts, "layoutK is paged");
  call.Absent(used_q, "layoutQ is TND");
  call.Absent(offsets, "not emulated");
  call.Present(a.query_ends, "layoutQ TND needs it");
  call.Present(a.key_lengths, "layoutK is paged");
  call.Present(a.table, "layoutK is paged");
  if (cmp_ratio != 1) {
    call.Present(a.residuals, "cmpRatio is not 1 and maskMode is 3");
  }
  a.ratio = cmp_ratio;
  a.topk = topk;
  CheckCommon(call, "QuantLightningIndexerV2", a);
  if (call.ok()) {
    if (!a.residuals.absent()) {
      call.Shape(a.residuals, {a.requests()});
    }
    call.Expect(a.key.contiguous_rows(), kAclnnInvalid, "key: only axis 0 may be strided");
    call.Expect(a.key_scale.contiguous_rows(), kAclnnInvalid,
                "keyDequantScale: only axis 0 may be strided");
  }
  return call.Finish([a](Kernel& kernel) { Pick(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnVllmQuantLightningIndexer, ascend_emulator::VllmSize);
EMULATOR_OFFICIAL_OP(aclnnQuantLightningIndexerV2, ascend_emulator::V2Size);
