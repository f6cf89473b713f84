// Weights: a checkpoint's tensors under the names of the model, in their stored precision, mapped
// from the files. Names and shapes: docs/checkpoints.md. Tensors and matrices are views; Weights
// owns what they view.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/config.h"
#include "io/digest.h"
#include "tensor/matrix.h"
#include "tensor/tensor.h"

namespace cachalot {

// d hidden, hc streams, h heads, D head_dim, E experts, I expert_inter_size, V vocabulary.

struct HyperConnectionWeights {
  Tensor fn;     // F32 [(2 + hc) * hc, hc * d]; of a head: [hc, hc * d]
  Tensor base;   // F32 [(2 + hc) * hc]; of a head: [hc]
  Tensor scale;  // F32 [3]; of a head: [1]
};

// W is head_dim or index_head_dim; c is 2 for ratio 4, which overlaps its neighbour, and 1 for
// ratio 128.
struct CompressorWeights {
  int64_t ratio = 0;
  Tensor ape;    // F32 [ratio, c * W]
  Matrix wkv;    // [c * W, d]
  Matrix wgate;  // [c * W, d]
  Tensor norm;   // F32 [W]
};

struct IndexerWeights {
  Matrix wq_b;          // [index_heads * index_head_dim, q_lora_rank]
  Matrix weights_proj;  // [index_heads, d]
  CompressorWeights compressor;
};

struct AttentionWeights {
  Matrix wq_a;     // [q_lora_rank, d]
  Tensor q_norm;   // F32 [q_lora_rank]
  Matrix wq_b;     // [h * D, q_lora_rank]
  Matrix wkv;      // [D, d]
  Tensor kv_norm;  // F32 [D]
  Matrix
      wo_a;  // [o_groups * o_lora_rank, h * D / o_groups], a block of rows for each group of heads
  Matrix wo_b;                                  // [d, o_groups * o_lora_rank]
  Tensor sink;                                  // F32 [h]
  std::optional<CompressorWeights> compressor;  // ratio 4 and 128
  std::optional<IndexerWeights> indexer;        // ratio 4
};

struct MoeWeights {
  Matrix gate;     // [E, d]
  Tensor bias;     // F32 [E]; empty on hash layers
  Tensor tid2eid;  // I64 [V, experts_per_token], each in [0, E); empty on score-routed layers
  std::vector<ExpertWeights> experts;  // E
  ExpertWeights shared;
};

struct BlockWeights {
  int64_t ratio = 0;
  HyperConnectionWeights hc_attn;
  Tensor attn_norm;  // F32 [d]
  AttentionWeights attn;
  HyperConnectionWeights hc_ffn;
  Tensor ffn_norm;  // F32 [d]
  MoeWeights ffn;
};

struct HeadWeights {
  HyperConnectionWeights hc;
  Tensor norm;  // F32 [d]
};

struct MtpWeights {
  Matrix e_proj;  // [d, d]
  Matrix h_proj;  // [d, d]
  Tensor enorm;   // F32 [d]
  Tensor hnorm;   // F32 [d]
  BlockWeights block;
  HeadWeights head;
};

struct DsparkWeights {
  Matrix main_proj;  // [d, d * target layers]
  Tensor main_norm;  // F32 [d]
  std::vector<BlockWeights> stages;
  HeadWeights head;        // of the last stage
  Matrix markov_w1;        // [V, rank]
  Matrix markov_w2;        // [V, rank]
  Matrix confidence_proj;  // [1, d + rank]
};

// The tensors of a model by their place in it.
struct ModelTensors {
  Matrix embed;    // [V, d], BF16 or F32
  Matrix lm_head;  // [V, d]
  HeadWeights head;
  std::vector<BlockWeights> layers;
  std::optional<MtpWeights> mtp;
  std::optional<DsparkWeights> dspark;
};

// Parameters and bytes of one kind of tensor, as the files store them.
struct ComponentSize {
  std::string component;
  int64_t parameters = 0;
  int64_t bytes = 0;
};

class Weights : public ModelTensors {
 public:
  // Strict: each tensor that the config implies is there once, with the right dtype and shape, and
  // none is left over. Reads the scales, the hash tables and the small tensors; the large ones stay
  // untouched until they are used. Refuses scales that are NaN, infinite or not above 0 and expert
  // ids outside the model. The files must not change while Weights lives.
  static Result<Weights> Load(const std::string& folder, const ModelConfig& config);
  Weights(Weights&&) noexcept;
  Weights& operator=(Weights&&) noexcept;
  ~Weights();

  // Brings all tensors into memory before the first step: page by page where they are mapped, or into
  // memory of their own, in huge pages, which the mapped pages then leave. Tensors stay at their
  // addresses. share_rows(rows, visit) calls visit(begin, end) for parts of a tensor's rows, from any
  // threads; progress is called with the bytes so far and in all.
  enum class Residence { kMapped, kCopied };
  using ShareRows = std::function<void(
      int64_t rows, const std::function<void(int64_t begin, int64_t end)>& visit)>;
  Status BringIn(Residence residence, const ShareRows& share_rows,
                 const std::function<void(int64_t done, int64_t total)>& progress);

  // For whoever makes the tensors views of other memory: what they view then, freed with them.
  void Keep(std::shared_ptr<const void> viewed) { viewed_ = std::move(viewed); }

  // One entry for each component of the model, in the order of docs/checkpoints.md.
  const std::vector<ComponentSize>& components() const;
  int64_t file_bytes() const;
  // Tells checkpoints apart: of the names, dtypes, shapes and places of all tensors, and of some bytes
  // of each. Reads a few pages of every tensor.
  Digest Fingerprint() const;

 private:
  struct Storage;  // mapped files, and small tensors converted to F32 or moved to an aligned place
  explicit Weights(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
  std::shared_ptr<const void> viewed_;
};

}  // namespace cachalot
