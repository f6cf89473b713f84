// Attention of each query over a window of raw KV rows and over compressed rows, one KV head, K and V
// the same rows: aclnnSparseAttnSharedkv (custom) and its successor aclnnSparseFlashMla (official).
#include <algorithm>
#include <cmath>
#include <vector>

#include "core_schedule.h"
#include "export.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

constexpr int64_t kKeyTile = 512;

// What both flavours come down to.
struct Attention {
  TableKind kind = TableKind::kSparseAttnSharedkv;
  bool packed = true;  // q [T, N, D]; else [B, S, N, D]
  Operand q;
  Operand window;
  Operand window_table;
  Operand window_lengths;
  Operand entries;  // absent: window alone
  Operand entry_table;
  Operand selected;         // absent: all complete entries
  Operand entry_lengths;    // official: in entries,
  Operand entry_residuals;  // and the raw tokens behind the last one
  Operand starts;
  Operand sinks;
  Operand metadata;
  Operand out;
  float scale = 0;
  int64_t ratio = 1;
  int64_t left = 0;
  int64_t right = 0;

  int64_t heads() const { return q.dim(-2); }
  int64_t width() const { return q.dim(-1); }
  int64_t requests() const { return window_lengths.dim(0); }
};

// The kernel of one token: scores by tiles of keys against a running maximum that starts at the sink.
class Softmax {
 public:
  Softmax(const Attention& call, const std::vector<float>& sinks)
      : heads_(call.heads()), width_(call.width()), scale_(call.scale), sinks_(sinks) {}

  void Attend(const std::vector<float>& q, const std::vector<float>& keys,
              std::vector<float>& out) {
    const int64_t count = static_cast<int64_t>(keys.size()) / width_;
    for (int64_t head = 0; head < heads_; ++head) {
      const float* query = q.data() + head * width_;
      float* sum = out.data() + head * width_;
      std::fill_n(sum, width_, 0.0F);
      float top = sinks_[static_cast<size_t>(head)];
      float weight = 1;
      for (int64_t tile = 0; tile < count; tile += kKeyTile) {
        const int64_t end = std::min(tile + kKeyTile, count);
        Tile(query, keys.data(), tile, end, top, weight, sum);
      }
      for (int64_t i = 0; i < width_; ++i) {
        sum[i] /= weight;
      }
    }
  }

 private:
  void Tile(const float* query, const float* keys, int64_t begin, int64_t end, float& top,
            float& weight, float* sum) {
    float scores[kKeyTile];
    float largest = top;
    for (int64_t i = begin; i < end; ++i) {
      scores[i - begin] = scale_ * Dot(query, keys + i * width_, width_);
      largest = std::max(largest, scores[i - begin]);
    }
    if (largest > top) {
      const float shrink = std::exp(top - largest);
      weight *= shrink;
      for (int64_t i = 0; i < width_; ++i) {
        sum[i] *= shrink;
      }
      top = largest;
    }
    for (int64_t i = begin; i < end; ++i) {
      const float p = std::exp(scores[i - begin] - top);
      weight += p;
      AddScaled(p, keys + i * width_, width_, sum);
    }
  }

  int64_t heads_;
  int64_t width_;
  float scale_;
  const std::vector<float>& sinks_;
};

// Query tokens of each request and where they begin.
bool ReadQueries(Kernel& kernel, const Attention& call, std::vector<int64_t>& starts,
                 AttentionWork& work) {
  if (call.packed) {
    if (!ReadStarts(kernel, call.starts, call.q.dim(0), starts)) {
      return false;
    }
  } else {
    for (int64_t request = 0; request <= call.requests(); ++request) {
      starts.push_back(request * call.q.dim(1));
    }
  }
  for (int64_t request = 0; request < call.requests(); ++request) {
    work.queries.push_back(starts[static_cast<size_t>(request + 1)] -
                           starts[static_cast<size_t>(request)]);
  }
  return true;
}

// The compressed rows of the official flavour must describe the sequences of its raw rows.
bool CheckEntryLengths(Kernel& kernel, const Attention& call, const std::vector<int64_t>& raw) {
  std::vector<int64_t> entries;
  std::vector<int64_t> residuals(raw.size(), 0);
  if (!ReadLengths(kernel, call.entry_lengths, entries) ||
      (!call.entry_residuals.absent() && !ReadLengths(kernel, call.entry_residuals, residuals))) {
    return false;
  }
  for (size_t request = 0; request < raw.size(); ++request) {
    if (entries[request] * call.ratio + residuals[request] != raw[request]) {
      kernel.Fault(kAiCoreException,
                   "request {}: {} compressed rows of {} tokens and {} behind them, but "
                   "sequsedOriKv is {}",
                   request, entries[request], call.ratio, residuals[request], raw[request]);
      return false;
    }
  }
  return true;
}

// Appends the elements of a paged row as floats.
bool Append(const Rows& rows, PagedRows& pages, int64_t request, int64_t index, int64_t width,
            std::vector<float>& keys) {
  const int64_t at = pages.At(request, index);
  if (at < 0) {
    return false;
  }
  keys.resize(keys.size() + static_cast<size_t>(width));
  rows.Read(at, width, keys.data() + keys.size() - width);
  return true;
}

// Entries that token `token`, which may see `limit` of them, attends to.
bool EntriesOf(Kernel& kernel, const Attention& call, const int32_t* selected, int64_t token,
               int64_t limit, std::vector<int64_t>& entries) {
  entries.clear();
  if (selected == nullptr) {
    for (int64_t entry = 0; entry < limit; ++entry) {
      entries.push_back(entry);
    }
    return true;
  }
  const int64_t topk = call.selected.dim(-1);
  for (int64_t i = 0; i < std::min(topk, limit); ++i) {
    const int32_t entry = selected[token * topk + i];
    if (entry < -1 || entry >= limit) {
      kernel.Fault(kAiCoreException, "cmpSparseIndices: element {} of token {} is {}, limit {}", i,
                   token, entry, limit);
      return false;
    }
    if (entry >= 0) {
      entries.push_back(entry);
    }
  }
  return true;
}

void Compute(Kernel& kernel, const Attention& call) {
  AttentionWork work;
  std::vector<int64_t> starts;
  if (!ReadQueries(kernel, call, starts, work) ||
      !ReadLengths(kernel, call.window_lengths, work.keys)) {
    return;
  }
  const bool compressed = !call.entries.absent();
  if (!call.entry_lengths.absent() && !CheckEntryLengths(kernel, call, work.keys)) {
    return;
  }
  work.heads = call.heads();
  work.cores = kernel.cube_cores();
  work.left = call.left;
  work.right = call.right;
  work.ratio = compressed ? call.ratio : 0;
  work.topk = call.selected.absent() ? 0 : call.selected.dim(-1);
  if (!CheckTable(kernel, kernel.Data<int32_t>(call.metadata), call.kind, work)) {
    return;
  }

  const Rows q(kernel, call.q);
  const Rows window(kernel, call.window);
  const Rows entries(kernel, compressed ? call.entries : call.window);
  Rows out(kernel, call.out);
  PagedRows window_pages(kernel, call.window, call.window_table);
  PagedRows entry_pages(kernel, compressed ? call.entries : call.window,
                        compressed ? call.entry_table : call.window_table);
  const int32_t* selected = call.selected.absent() ? nullptr : kernel.Data<int32_t>(call.selected);
  const std::vector<float> sinks = kernel.LoadAll(call.sinks);
  Softmax softmax(call, sinks);
  const int64_t width = call.width();
  const int64_t row = call.heads() * width;
  std::vector<float> query(static_cast<size_t>(row));
  std::vector<float> result(static_cast<size_t>(row));
  std::vector<float> keys;
  std::vector<int64_t> picked;
  for (int64_t request = 0; request < call.requests(); ++request) {
    const int64_t queries = work.queries[static_cast<size_t>(request)];
    const int64_t length = work.keys[static_cast<size_t>(request)];
    if (queries == 0) {
      continue;
    }
    if (!window_pages.Holds(request, length) ||
        (compressed && !entry_pages.Holds(request, length / call.ratio))) {
      return;
    }
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t token = starts[static_cast<size_t>(request)] + i;
      const int64_t position = length - queries + i;
      keys.clear();
      for (int64_t j = std::max<int64_t>(position - call.left, 0);
           j <= std::min(position + call.right, length - 1); ++j) {
        if (!Append(window, window_pages, request, j, width, keys)) {
          return;
        }
      }
      const int64_t limit = compressed && position >= 0 ? (position + 1) / call.ratio : 0;
      if (!EntriesOf(kernel, call, selected, token, limit, picked)) {
        return;
      }
      for (const int64_t entry : picked) {
        if (!Append(entries, entry_pages, request, entry, width, keys)) {
          return;
        }
      }
      q.Read(token * row, row, query.data());
      softmax.Attend(query, keys, result);
      out.Write(token * row, row, result.data());
    }
  }
}

// Checks that do not differ between the flavours. `op` names the limits.
void CheckCommon(Call& call, const char* op, const Attention& a) {
  if (!call.ok()) {
    return;
  }
  call.Contiguous(a.q);
  call.Expect(a.q.rank() == (a.packed ? 3 : 4), kAclnnInvalid, "q: rank {}, layoutQ {} has {}",
              a.q.rank(), a.packed ? "TND" : "BSND", a.packed ? 3 : 4);
  if (!call.ok()) {
    return;
  }
  const std::string limit(op);
  call.Limit(a.width() == 512, (limit + ".head_dim").c_str(), "q: head dim {}, not 512", a.width());
  call.SameShape(a.q, a.out);
  call.Expect(a.out.dtype == a.q.dtype, kAclnnInvalid, "attnOut: {}, but q is {}",
              NameOf(a.out.dtype), NameOf(a.q.dtype));
  call.Contiguous(a.out);
  if (a.packed) {
    call.Present(a.starts, "layoutQ TND needs it");
    call.Rank(a.starts, {1});
  } else {
    call.Absent(a.starts, "layoutQ is BSND");
  }
  call.Present(a.window_lengths, "the paged layout needs it");
  call.Rank(a.window_lengths, {1});
  if (!call.ok()) {
    return;
  }
  const int64_t requests = a.requests();
  if (a.packed) {
    call.Shape(a.starts, {requests + 1});
  } else {
    call.Expect(a.q.dim(0) == requests, kAclnnInvalid, "{}: {} requests, q has {}",
                a.window_lengths.name, requests, a.q.dim(0));
  }
  const auto pool = [&](const Operand& rows, const Operand& table) {
    call.Shape(rows, {-1, -1, 1, a.width()});
    call.Expect(rows.dtype == a.q.dtype, kAclnnInvalid, "{}: {}, but q is {}", rows.name,
                NameOf(rows.dtype), NameOf(a.q.dtype));
    call.Present(table, "its pool is paged");
    call.Shape(table, {requests, -1});
    call.Contiguous(table);
    if (call.ok()) {
      call.Expect(rows.contiguous_rows(), kAclnnInvalid, "{}: only axis 0 may be strided",
                  rows.name);
      CheckBlockSize(call, rows);
    }
  };
  call.Present(a.window, "every mode attends to a window");
  if (call.ok()) {
    pool(a.window, a.window_table);
  }
  if (!a.entries.absent()) {
    pool(a.entries, a.entry_table);
  } else {
    call.Absent(a.entry_table, "there is no cmpKv");
    call.Absent(a.selected, "there is no cmpKv");
  }
  if (!a.selected.absent() && call.ok()) {
    if (a.packed) {
      call.Shape(a.selected, {a.q.dim(0), 1, -1});
    } else {
      call.Shape(a.selected, {a.q.dim(0), a.q.dim(1), 1, -1});
    }
    call.Contiguous(a.selected);
    if (call.ok()) {
      const int64_t topk = a.selected.dim(-1);
      call.Limit(topk == 512 || topk == 1024, (limit + ".topk").c_str(),
                 "cmpSparseIndices: {} per token, neither 512 nor 1024", topk);
    }
  }
  call.Shape(a.sinks, {a.q.dim(-2)});
  call.Shape(a.metadata, {kTableWords});
  call.Contiguous(a.metadata);
}

// Without compressed rows the custom operator does not look at the ratio.
void CheckRatio(Call& call, const Attention& a, bool looks_always) {
  if (a.entries.absent()) {
    call.Expect(!looks_always || a.ratio == 1, kAclnnInvalid,
                "cmpRatio {}, but without cmpKv it is 1", a.ratio);
  } else if (a.selected.absent()) {
    call.Expect(a.ratio == 128, kAclnnInvalid,
                "cmpRatio {}, but without cmpSparseIndices it is 128", a.ratio);
  } else {
    call.Expect(a.ratio == 4, kAclnnInvalid, "cmpRatio {}, but with cmpSparseIndices it is 4",
                a.ratio);
  }
}

aclnnStatus SharedkvSize(const aclTensor* q, const aclTensor* ori_kv, const aclTensor* cmp_kv,
                         const aclTensor* ori_sparse_indices, const aclTensor* cmp_sparse_indices,
                         const aclTensor* ori_block_table, const aclTensor* cmp_block_table,
                         const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_ori_kv,
                         const aclTensor* cu_seqlens_cmp_kv, const aclTensor* seqused_q,
                         const aclTensor* seqused_kv, const aclTensor* sinks,
                         const aclTensor* metadata, double softmax_scale, int64_t cmp_ratio,
                         int64_t ori_mask_mode, int64_t cmp_mask_mode, int64_t ori_kv_stride,
                         int64_t cmp_kv_stride, int64_t ori_win_left, int64_t ori_win_right,
                         char* layout_q, char* layout_kv, bool return_softmax_lse,
                         aclTensor* attn_out, aclTensor* softmax_lse, uint64_t* size,
                         aclOpExecutor** executor) {
  Call call("aclnnSparseAttnSharedkv", size, executor);
  Attention a;
  a.q = call.Input("q", q, kHalfTypes);
  a.window = call.OptionalInput("oriKv", ori_kv, kHalfTypes);
  a.entries = call.OptionalInput("cmpKv", cmp_kv, kHalfTypes);
  const Operand ori_indices =
      call.OptionalInput("oriSparseIndices", ori_sparse_indices, {ACL_INT32});
  a.selected = call.OptionalInput("cmpSparseIndices", cmp_sparse_indices, {ACL_INT32});
  a.window_table = call.OptionalInput("oriBlockTable", ori_block_table, {ACL_INT32});
  a.entry_table = call.OptionalInput("cmpBlockTable", cmp_block_table, {ACL_INT32});
  a.starts = call.OptionalInput("cuSeqlensQ", cu_seqlens_q, {ACL_INT32});
  const Operand ori_starts = call.OptionalInput("cuSeqlensOriKv", cu_seqlens_ori_kv, {ACL_INT32});
  const Operand cmp_starts = call.OptionalInput("cuSeqlensCmpKv", cu_seqlens_cmp_kv, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  a.window_lengths = call.OptionalInput("sequsedKv", seqused_kv, {ACL_INT32});
  a.sinks = call.OptionalInput("sinks", sinks, {ACL_FLOAT});
  a.metadata = call.OptionalInput("metadata", metadata, {ACL_INT32});
  a.out = call.Output("attnOut", attn_out, kHalfTypes);
  call.OptionalOutput("softmaxLse", softmax_lse, {ACL_FLOAT});

  call.Expect(IsLayout(layout_q, "TND") || IsLayout(layout_q, "BSND"), kAclnnInvalid,
              "layoutQ {}, neither TND nor BSND", Shown(layout_q));
  call.Expect(IsLayout(layout_kv, "PA_ND"), kAclnnInvalid, "layoutKv {}, not PA_ND",
              Shown(layout_kv));
  call.Expect(ori_mask_mode == 4, kAclnnInvalid, "oriMaskMode {}, not 4", ori_mask_mode);
  call.Expect(cmp_mask_mode == 3, kAclnnInvalid, "cmpMaskMode {}, not 3", cmp_mask_mode);
  call.Expect(ori_win_left >= 0 && ori_win_right >= 0, kAclnnInvalid,
              "oriWinLeft {}, oriWinRight {}: negative", ori_win_left, ori_win_right);
  call.Expect(!return_softmax_lse, kAclnnInvalid, "returnSoftmaxLse: not emulated");
  call.Absent(ori_indices, "not emulated");
  call.Absent(ori_starts, "layoutKv PA_ND has sequsedKv");
  call.Absent(cmp_starts, "layoutKv PA_ND has sequsedKv");
  call.Absent(used_q, "not emulated");
  call.Present(a.sinks, "kernels read it");
  call.Present(a.metadata, "kernels read it");
  a.packed = IsLayout(layout_q, "TND");
  a.scale = static_cast<float>(softmax_scale);
  a.ratio = cmp_ratio;
  a.left = ori_win_left;
  a.right = ori_win_right;
  CheckCommon(call, "SparseAttnSharedkv", a);
  if (call.ok()) {
    const int64_t heads = a.heads();
    call.Limit(heads > 0 && heads <= 128 && heads % 4 == 0, "SparseAttnSharedkv.heads",
               "q: {} heads, not a multiple of 4 up to 128", heads);
    CheckRatio(call, a, false);
    CheckStride(call, a.window, "oriKvStride", ori_kv_stride, true);
    if (!a.entries.absent()) {
      CheckStride(call, a.entries, "cmpKvStride", cmp_kv_stride, true);
    }
  }
  return call.Finish([a](Kernel& kernel) { Compute(kernel, a); });
}

aclnnStatus FlashMlaSize(const aclTensor* q, const aclTensor* ori_kv, const aclTensor* cmp_kv,
                         const aclTensor* ori_sparse_indices, const aclTensor* cmp_sparse_indices,
                         const aclTensor* ori_block_table, const aclTensor* cmp_block_table,
                         const aclTensor* cu_seqlens_q, const aclTensor* cu_seqlens_ori_kv,
                         const aclTensor* cu_seqlens_cmp_kv, const aclTensor* seqused_q,
                         const aclTensor* seqused_ori_kv, const aclTensor* seqused_cmp_kv,
                         const aclTensor* cmp_residual_kv, const aclTensor* ori_topk_length,
                         const aclTensor* cmp_topk_length, const aclTensor* sinks,
                         const aclTensor* metadata, double softmax_scale, int64_t cmp_ratio,
                         int64_t ori_mask_mode, int64_t cmp_mask_mode, int64_t ori_win_left,
                         int64_t ori_win_right, char* layout_q, char* layout_kv,
                         int64_t topk_value_mode, bool return_softmax_lse, aclTensor* attn_out,
                         aclTensor* softmax_lse, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnSparseFlashMla", size, executor);
  Attention a;
  a.kind = TableKind::kSparseFlashMla;
  a.q = call.Input("q", q, kHalfTypes);
  a.window = call.OptionalInput("oriKv", ori_kv, kHalfTypes);
  a.entries = call.OptionalInput("cmpKv", cmp_kv, kHalfTypes);
  const Operand ori_indices =
      call.OptionalInput("oriSparseIndices", ori_sparse_indices, {ACL_INT32});
  a.selected = call.OptionalInput("cmpSparseIndices", cmp_sparse_indices, {ACL_INT32});
  a.window_table = call.OptionalInput("oriBlockTable", ori_block_table, {ACL_INT32});
  a.entry_table = call.OptionalInput("cmpBlockTable", cmp_block_table, {ACL_INT32});
  a.starts = call.OptionalInput("cuSeqlensQ", cu_seqlens_q, {ACL_INT32});
  const Operand ori_starts = call.OptionalInput("cuSeqlensOriKv", cu_seqlens_ori_kv, {ACL_INT32});
  const Operand cmp_starts = call.OptionalInput("cuSeqlensCmpKv", cu_seqlens_cmp_kv, {ACL_INT32});
  const Operand used_q = call.OptionalInput("sequsedQ", seqused_q, {ACL_INT32});
  a.window_lengths = call.OptionalInput("sequsedOriKv", seqused_ori_kv, {ACL_INT32});
  a.entry_lengths = call.OptionalInput("sequsedCmpKv", seqused_cmp_kv, {ACL_INT32});
  a.entry_residuals = call.OptionalInput("cmpResidualKv", cmp_residual_kv, {ACL_INT32});
  const Operand ori_counts = call.OptionalInput("oriTopkLength", ori_topk_length, {ACL_INT32});
  const Operand cmp_counts = call.OptionalInput("cmpTopkLength", cmp_topk_length, {ACL_INT32});
  a.sinks = call.Input("sinks", sinks, {ACL_FLOAT});
  a.metadata = call.Input("metadata", metadata, {ACL_INT32});
  a.out = call.Output("attnOut", attn_out, kHalfTypes);
  call.OptionalOutput("softmaxLse", softmax_lse, {ACL_FLOAT});

  call.Expect(IsLayout(layout_q, "TND") || IsLayout(layout_q, "BSND"), kAclnnInvalid,
              "layoutQ {}, neither TND nor BSND", Shown(layout_q));
  call.Expect(IsLayout(layout_kv, "PA_BBND"), kAclnnInvalid,
              "layoutKv {}: only PA_BBND is emulated", Shown(layout_kv));
  call.Expect(ori_mask_mode == 4, kAclnnInvalid, "oriMaskMode {}, not 4", ori_mask_mode);
  call.Expect(cmp_mask_mode == 3, kAclnnInvalid, "cmpMaskMode {}, not 3", cmp_mask_mode);
  call.Expect(ori_win_left == 127 && ori_win_right == 0, kAclnnInvalid,
              "oriWinLeft {}, oriWinRight {}: A3 has 127 and 0 alone", ori_win_left, ori_win_right);
  call.Expect(topk_value_mode == 1, kAclnnInvalid, "topkValueMode {}, not 1", topk_value_mode);
  call.Expect(!return_softmax_lse, kAclnnInvalid, "returnSoftmaxLse: not emulated");
  call.Absent(ori_indices, "not emulated");
  call.Absent(ori_starts, "layoutKv PA_BBND has sequsedOriKv");
  call.Absent(cmp_starts, "layoutKv PA_BBND has sequsedCmpKv");
  call.Absent(used_q, "A3 has it not");
  call.Absent(ori_counts, "there is no oriSparseIndices");
  call.Absent(cmp_counts, "A3 has it not");
  a.packed = IsLayout(layout_q, "TND");
  a.scale = static_cast<float>(softmax_scale);
  a.ratio = cmp_ratio;
  a.left = ori_win_left;
  a.right = ori_win_right;
  CheckCommon(call, "SparseFlashMla", a);
  if (call.ok()) {
    const int64_t heads = a.heads();
    call.Limit(IsPowerOfTwo(heads) && heads <= 128, "SparseFlashMla.heads",
               "q: {} heads, not a power of two up to 128", heads);
    CheckRatio(call, a, true);
  }
  if (call.ok() && !a.entries.absent()) {
    call.Present(a.entry_lengths, "cmpKv is paged");
    call.Present(a.entry_residuals, "cmpRatio is not 1 and cmpMaskMode is 3");
    call.Shape(a.entry_lengths, {a.requests()});
    call.Shape(a.entry_residuals, {a.requests()});
  } else if (call.ok()) {
    call.Absent(a.entry_lengths, "there is no cmpKv");
    call.Absent(a.entry_residuals, "there is no cmpKv");
  }
  return call.Finish([a](Kernel& kernel) { Compute(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnSparseAttnSharedkv, ascend_emulator::SharedkvSize);
EMULATOR_OFFICIAL_OP(aclnnSparseFlashMla, ascend_emulator::FlashMlaSize);
