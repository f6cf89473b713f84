// The operators of DeepSeek-V4: one Params struct and one call each. The model issues them on a
// Stream (device.h) and never names a backend; a backend's door checks every field, its kernels
// nothing.
//
// Letters: T tokens of the step, B requests, d hidden size, hc streams, h heads, D head width, R
// rope width, E experts, k experts of a token. "Activation" is the dtype that
// Device::activation_dtype() names; the CPU keeps float32. Tensors are dense, last axis fastest. T
// = 0 is legal everywhere and does nothing. An output may alias an input only where said.
//
// A row of an output depends on its own row of the inputs and on the caches alone: how a prompt was
// cut into steps, what else is in the batch and the number of threads never change a bit of it.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/matrix.h"
#include "tensor/rows.h"
#include "tensor/tensor.h"

namespace cachalot {

// y[t] = table[ids[t]].
struct EmbeddingParams {
  Tensor ids;    // I32 [T], each in [0, table.rows)
  Matrix table;  // [V, n] kBf16 or kF32
  Tensor y;      // activation [T, n]
};

// y[t][s] = x[t] for every stream s, added to what is there when accumulate is set.
struct BroadcastStreamsParams {
  Tensor x;  // activation [T, d]
  Tensor y;  // activation [T, hc, d]
  bool accumulate = false;
};

// y[t] = mean over streams of x[t]: what DSpark taps.
struct StreamMeanParams {
  Tensor x;  // activation [T, hc, d]
  Tensor y;  // activation [T, d]
};

// dst[t][column ... column + n) = src[t].
struct CopyColumnsParams {
  Tensor src;  // activation [T, n]
  Tensor dst;  // activation [T, N], column + n <= N
  int64_t column = 0;
};

// dst[i] = src[rows[i]].
struct GatherRowsParams {
  Tensor src;   // activation [N, ...]
  Tensor rows;  // I32 [M], each in [0, N)
  Tensor dst;   // activation [M, ...]
};

// y = weight * x / sqrt(mean(x^2) + eps) over the last axis.
struct RmsNormParams {
  Tensor x;       // activation [..., n]
  Tensor weight;  // F32 [n], or empty for all ones
  Tensor y;       // activation, as x; may be x
  double eps = 0;
};

// Frequencies of a rotary embedding: pair i turns by positions * frequencies[i] radians.
struct RopeTable {
  int64_t dim = 0;                      // R, even
  std::span<const double> frequencies;  // [R / 2]; lives as long as the model
};

// Rotates the last R values of each row in interleaved pairs (2i, 2i + 1); inverse turns back.
struct RopeParams {
  Tensor x;          // activation [T, rows per token, width], in place
  Tensor positions;  // I32 [T], >= 0
  RopeTable table;
  bool inverse = false;
};

// y = x * w^T, per group: group g multiplies columns [g * w.cols, (g + 1) * w.cols) of x with rows
// [g * w.rows / groups, (g + 1) * w.rows / groups) of w. Products and sums keep at least float32.
struct LinearParams {
  Tensor x;  // activation [T, groups * w.cols]
  Matrix w;
  Tensor y;  // activation or F32 [T, w.rows]
  int64_t groups = 1;
  bool accumulate = false;  // add to y
};

// Before a sub-layer: mixes from all streams, the layer's input, and the maps for the way back.
//   v = x[t] as one row of hc * d
//   m = (fn v) / sqrt(mean(v^2) + rms_eps)
//   pre = sigmoid(m[0, hc) * scale[0] + base) + hc_eps
//   post = 2 sigmoid(m[hc, 2hc) * scale[1] + base)
//   comb = softmax over the last axis of (m[2hc, ...) * scale[2] + base) as [hc, hc], + hc_eps;
//     divided by (column sums + hc_eps);
//     then iters - 1 times by (row sums + hc_eps) and (column sums + hc_eps)
//   y = sum over streams of pre * x
struct HcPreParams {
  Tensor x;      // activation [T, hc, d]
  Tensor fn;     // F32 [(2 + hc) * hc, hc * d]
  Tensor base;   // F32 [(2 + hc) * hc]
  Tensor scale;  // F32 [3]
  double rms_eps = 0;
  double hc_eps = 0;
  int64_t sinkhorn_iters = 0;
  Tensor y;     // activation [T, d]
  Tensor post;  // F32 [T, hc]
  Tensor comb;  // F32 [T, hc, hc]: first index the source stream
};

// After a sub-layer: x[t][j] = post[j] * y[t] + sum over i of comb[i][j] * x[t][i].
struct HcPostParams {
  Tensor y;     // activation [T, d]
  Tensor post;  // F32 [T, hc]
  Tensor comb;  // F32 [T, hc, hc]
  Tensor x;     // activation [T, hc, d], in place
};

// Before the final norm: y = sum of (sigmoid(m * scale + base) + hc_eps) * x, with m as in
// HcPreParams.
struct HcHeadParams {
  Tensor x;      // activation [T, hc, d]
  Tensor fn;     // F32 [hc, hc * d]
  Tensor base;   // F32 [hc]
  Tensor scale;  // F32 [1]
  double rms_eps = 0;
  double hc_eps = 0;
  Tensor y;  // activation [T, d]
};

// Keeps rows in a cache: pool.row(slots[t]) = Encode(x[t]).
struct StoreRowsParams {
  Tensor x;      // activation [T, W]
  Tensor slots;  // I32 [T], each in [0, pool.num_rows)
  RowPool pool;  // width W
};

// Where the requests of a step stand: request b owns tokens [query_starts[b], query_starts[b + 1])
// at the positions start_pos[b], start_pos[b] + 1, ... Tokens from query_starts[B] on belong to
// nobody: they fill a step up to a size that was recorded, and change nothing for the others.
struct StepRequests {
  Tensor query_starts;  // I32 [B + 1], from 0 to at most T, never falling
  Tensor start_pos;     // I32 [B]
};

// Pools the tokens of a group into one cache row. Entry e covers tokens [e * ratio, (e + 1) * ratio)
// and for ratio 4 the group before it too; it is made by the step that has its last token.
//   kv = x * wkv^T; score = x * wgate^T
//   token rows: kv, and score + ape[position % ratio]
//   ratio 4: the group before with its first W channels (none before entry 0), this one with its
//     last W; ratio 128: this group
//   per channel c = sum of kv * softmax(score) over the rows
//   c = norm * c / rms(c); rope at e * ratio
//   hadamard: times the Sylvester matrix, divided by sqrt(W)
//   pool.row(entry slot) = Encode(c)
// Token rows (kv | score + ape) of earlier steps come from the state, and this step's are left there:
// position p of request b at row state_pages[b][p / state_span] * state_rows + p % state_rows, where
// a later position of the step takes the row of an earlier one. Page 0 is nowhere: it is not written,
// and no step reads an earlier position there.
struct CompressorParams {
  Tensor x;      // activation [T, d]
  Matrix wkv;    // [c * W, d], c = 2 for ratio 4, 1 for ratio 128
  Matrix wgate;  // [c * W, d]
  // Scratch for the two products. A device whose kernel makes them itself leaves it as it is.
  Tensor kv;     // F32 [T, c * W]
  Tensor score;  // F32 [T, c * W]
  int64_t ratio = 0;
  Tensor ape;   // F32 [ratio, c * W]
  Tensor norm;  // F32 [W]
  double rms_eps = 0;
  RopeTable rope;
  bool hadamard = false;
  StepRequests requests;
  Tensor state;            // F32 [rows, 2 * c * W]
  Tensor state_pages;      // I32 [B, n]; n = 1 where the ring belongs to the request
  int64_t state_span = 0;  // positions of one state page
  int64_t state_rows = 0;  // rows of one state page, a multiple of c * ratio
  // I32 [N]: rows of pool for the entries that this step closes, in request order. Where there are
  // more elements than entries, the rest is not looked at.
  Tensor entry_slots;
  RowPool pool;  // width W
};

// Picks the top_k cache entries with the largest scores for each token, among the complete ones:
// e < (position + 1) / 4.
//   q = rounding of the keys' layout applied to q * Hadamard / sqrt(W)
//   score[e] = sum over heads of max(q . key[e], 0) * weight * W^-0.5 * heads^-0.5
// Ties go to the lower e. selected[t] holds the entries in rising order, then -1; a device whose
// attention takes them in any order may leave them in another, the same for the same input. Where all
// complete entries fit, all are selected.
struct IndexerParams {
  Tensor q;        // activation [T, heads, W], after rope
  Tensor weights;  // activation or F32 [T, heads]
  RowPool keys;    // width W; its rounding is that of q as well
  Tensor pages;    // I32 [B, n]: entry e of request b is row pages[b][e / page_entries] *
                   // page_entries + e % page_entries
  int64_t page_entries = 0;
  StepRequests requests;
  int64_t top_k = 0;
  Tensor selected;  // I32 [T, top_k]; all -1 for tokens of nobody
};

// Attention of each token over a range of the window cache and over compressed entries; one row is
// key and value.
//   s = q . key * D^-0.5; p = exp(s - max)
//   o = sum of p * key / (sum of p + exp(sink - max))
// Keys come in rising position, then in rising entry.
struct AttentionParams {
  Tensor q;     // activation [T, h, D]
  Tensor sink;  // F32 [h]
  StepRequests requests;
  // Window: positions [key_begin[t], key_end[t]); position p of request b is row
  // window_pages[b][p / window_page_rows] * window_page_rows + p % window_page_rows.
  RowPool window;
  Tensor window_pages;  // I32 [B, n]
  int64_t window_page_rows = 0;
  Tensor key_begin;  // I32 [T]
  Tensor key_end;    // I32 [T]
  // Compressed entries; ratio 0 where there are none. Entry e of request b is row
  // entry_pages[b][e / page_entries] * page_entries + e % page_entries.
  int64_t ratio = 0;
  RowPool entries;
  Tensor entry_pages;  // I32 [B, n]
  int64_t page_entries = 0;
  Tensor selected;  // I32 [T, K], rising then -1; empty: all e < (position + 1) / ratio
  Tensor o;         // activation [T, h, D]; something finite for tokens of nobody
};

// Which experts take a token, and with what weight.
//   s = sqrt(softplus(gate x))
//   experts = the k largest of s + bias, ties to the lower expert; or the table's choice
//   weights = s / (sum of the chosen s) * route_scale
struct MoeGateParams {
  Tensor x;      // activation [T, d]
  Matrix gate;   // [E, d]
  Tensor bias;   // F32 [E]; empty with a table
  Tensor table;  // I64 [V, k]; empty with a bias
  Tensor ids;    // I32 [T] token ids, each in [0, V); read with a table
  double route_scale = 1;
  Tensor experts;  // I32 [T, k]; score routing: falling s + bias
  Tensor weights;  // F32 [T, k]
};

// y = sum over slots, in slot order, of expert(x, weight), then + shared(x, 1).
//   g = w1 x; u = w3 x; limit > 0: g = min(g, limit), u = clamp(u, -limit, limit)
//   expert(x, weight) = w2 (weight * silu(g) * u)
struct ExpertsParams {
  Tensor x;                               // activation [T, d]
  Tensor experts;                         // I32 [T, k], each in [0, E)
  Tensor weights;                         // F32 [T, k]
  std::span<const ExpertWeights> routed;  // E, all of one format
  const ExpertWeights* shared = nullptr;
  double limit = 0;
  Tensor y;  // activation [T, d]
};

class Operators {
 public:
  virtual ~Operators() = default;
#define CACHALOT_OPERATOR(name) virtual void name(const name##Params& params) = 0;
#include "device/operators.def"
#undef CACHALOT_OPERATOR
};

}  // namespace cachalot
