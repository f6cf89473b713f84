#include "model/place_weights.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "checkpoint/convert_w8a8.h"
#include "threads/thread_pool.h"

namespace cachalot {
namespace {

// A W8A8 checkpoint is what its makers chose to round, and stays so.
bool Converts(const Device& device, const ModelConfig& config) {
  return device.weight_recipe() == WeightRecipe::kW8A8 && config.layout != WeightLayout::kW8A8;
}

// Replaces each tensor by its view on the device.
class Walk {
 public:
  Walk(WeightPlacer& placer, bool converts, int64_t o_groups)
      : placer_(placer), converts_(converts), o_groups_(o_groups) {
    share_rows_ = [this](int64_t rows, const std::function<void(int64_t, int64_t)>& visit) {
      pool_.ParallelFor(rows, visit);
    };
  }

  Status Model(ModelTensors& tensors);

 private:
  Status Values(Tensor& values) { return Vector(values, WeightUse::kValues); }
  Status Norm(Tensor& values) { return Vector(values, WeightUse::kNorm); }
  Status Vector(Tensor& values, WeightUse use);
  // Matrices that W8A8 checkpoints have in int8, and those that they leave in bf16.
  Status Int8(Matrix& matrix);
  Status Kept(Matrix& matrix, WeightUse use = WeightUse::kLinear, int64_t groups = 1);

  Status HyperConnections(HyperConnectionWeights& hc);
  Status Compressor(CompressorWeights& compressor);
  Status Attention(AttentionWeights& attn);
  Status Experts(std::span<ExpertWeights> experts);
  Status Moe(MoeWeights& ffn);
  Status Block(BlockWeights& block);
  Status Head(HeadWeights& head);
  Status Mtp(MtpWeights& mtp);
  Status Dspark(DsparkWeights& dspark);

  WeightPlacer& placer_;
  const bool converts_;
  const int64_t o_groups_;
  ThreadPool pool_{AvailableCores(), Placement::kFree};
  Weights::ShareRows share_rows_;
  std::array<MatrixBuffer, 3> buffers_;  // of one expert, or of one matrix
};

Status Walk::Vector(Tensor& values, WeightUse use) {
  if (!values.empty()) {
    CACHALOT_ASSIGN_OR_RETURN(values, placer_.Place(values, use));
  }
  return {};
}

Status Walk::Int8(Matrix& matrix) {
  const Matrix source = converts_ ? ToInt8Channel(matrix, share_rows_, buffers_[0]) : matrix;
  CACHALOT_ASSIGN_OR_RETURN(matrix, placer_.Place(source, WeightUse::kLinear, /*groups=*/1));
  return {};
}

Status Walk::Kept(Matrix& matrix, WeightUse use, int64_t groups) {
  const Matrix source = converts_ ? ToBf16(matrix, share_rows_, buffers_[0]) : matrix;
  CACHALOT_ASSIGN_OR_RETURN(matrix, placer_.Place(source, use, groups));
  return {};
}

Status Walk::HyperConnections(HyperConnectionWeights& hc) {
  CACHALOT_RETURN_IF_ERROR(Values(hc.fn));
  CACHALOT_RETURN_IF_ERROR(Values(hc.base));
  return Values(hc.scale);
}

Status Walk::Compressor(CompressorWeights& compressor) {
  CACHALOT_RETURN_IF_ERROR(Values(compressor.ape));
  CACHALOT_RETURN_IF_ERROR(Kept(compressor.wkv, WeightUse::kCompressor));
  CACHALOT_RETURN_IF_ERROR(Kept(compressor.wgate, WeightUse::kCompressor));
  return Norm(compressor.norm);
}

Status Walk::Attention(AttentionWeights& attn) {
  CACHALOT_RETURN_IF_ERROR(Kept(attn.wq_a));
  CACHALOT_RETURN_IF_ERROR(Norm(attn.q_norm));
  CACHALOT_RETURN_IF_ERROR(Int8(attn.wq_b));
  CACHALOT_RETURN_IF_ERROR(Kept(attn.wkv));
  CACHALOT_RETURN_IF_ERROR(Norm(attn.kv_norm));
  CACHALOT_RETURN_IF_ERROR(Kept(attn.wo_a, WeightUse::kLinear, o_groups_));
  CACHALOT_RETURN_IF_ERROR(Int8(attn.wo_b));
  CACHALOT_RETURN_IF_ERROR(Values(attn.sink));
  if (attn.compressor) {
    CACHALOT_RETURN_IF_ERROR(Compressor(*attn.compressor));
  }
  if (attn.indexer) {
    CACHALOT_RETURN_IF_ERROR(Int8(attn.indexer->wq_b));
    CACHALOT_RETURN_IF_ERROR(Kept(attn.indexer->weights_proj, WeightUse::kLinearF32));
    CACHALOT_RETURN_IF_ERROR(Compressor(attn.indexer->compressor));
  }
  return {};
}

Status Walk::Experts(std::span<ExpertWeights> experts) {
  const auto source = [&](int64_t e) -> Result<ExpertWeights> {
    const ExpertWeights& from = experts[static_cast<size_t>(e)];
    if (!converts_) {
      return from;
    }
    return ExpertWeights{ToInt8Channel(from.w1, share_rows_, buffers_[0]),
                         ToInt8Channel(from.w2, share_rows_, buffers_[1]),
                         ToInt8Channel(from.w3, share_rows_, buffers_[2])};
  };
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<ExpertWeights> placed,
                            placer_.PlaceExperts(static_cast<int64_t>(experts.size()), source));
  CACHALOT_CHECK_EQ(placed.size(), experts.size());
  std::copy(placed.begin(), placed.end(), experts.begin());
  return {};
}

Status Walk::Moe(MoeWeights& ffn) {
  CACHALOT_RETURN_IF_ERROR(Kept(ffn.gate, WeightUse::kGate));
  CACHALOT_RETURN_IF_ERROR(Values(ffn.bias));
  CACHALOT_RETURN_IF_ERROR(Values(ffn.tid2eid));
  CACHALOT_RETURN_IF_ERROR(Experts(ffn.experts));
  return Experts({&ffn.shared, 1});
}

Status Walk::Block(BlockWeights& block) {
  CACHALOT_RETURN_IF_ERROR(HyperConnections(block.hc_attn));
  CACHALOT_RETURN_IF_ERROR(Norm(block.attn_norm));
  CACHALOT_RETURN_IF_ERROR(Attention(block.attn));
  CACHALOT_RETURN_IF_ERROR(HyperConnections(block.hc_ffn));
  CACHALOT_RETURN_IF_ERROR(Norm(block.ffn_norm));
  return Moe(block.ffn);
}

Status Walk::Head(HeadWeights& head) {
  CACHALOT_RETURN_IF_ERROR(HyperConnections(head.hc));
  return Norm(head.norm);
}

Status Walk::Mtp(MtpWeights& mtp) {
  CACHALOT_RETURN_IF_ERROR(Kept(mtp.e_proj));
  CACHALOT_RETURN_IF_ERROR(Kept(mtp.h_proj));
  CACHALOT_RETURN_IF_ERROR(Norm(mtp.enorm));
  CACHALOT_RETURN_IF_ERROR(Norm(mtp.hnorm));
  CACHALOT_RETURN_IF_ERROR(Block(mtp.block));
  return Head(mtp.head);
}

Status Walk::Dspark(DsparkWeights& dspark) {
  CACHALOT_RETURN_IF_ERROR(Kept(dspark.main_proj));
  CACHALOT_RETURN_IF_ERROR(Norm(dspark.main_norm));
  for (BlockWeights& stage : dspark.stages) {
    CACHALOT_RETURN_IF_ERROR(Block(stage));
  }
  CACHALOT_RETURN_IF_ERROR(Head(dspark.head));
  CACHALOT_RETURN_IF_ERROR(Kept(dspark.markov_w1, WeightUse::kTable));
  CACHALOT_RETURN_IF_ERROR(Kept(dspark.markov_w2, WeightUse::kLinearF32));
  return Kept(dspark.confidence_proj, WeightUse::kLinearF32);
}

Status Walk::Model(ModelTensors& tensors) {
  CACHALOT_RETURN_IF_ERROR(Kept(tensors.embed, WeightUse::kTable));
  CACHALOT_RETURN_IF_ERROR(Kept(tensors.lm_head, WeightUse::kLinearF32));
  CACHALOT_RETURN_IF_ERROR(Head(tensors.head));
  for (BlockWeights& layer : tensors.layers) {
    CACHALOT_RETURN_IF_ERROR(Block(layer));
  }
  if (tensors.mtp) {
    CACHALOT_RETURN_IF_ERROR(Mtp(*tensors.mtp));
  }
  if (tensors.dspark) {
    CACHALOT_RETURN_IF_ERROR(Dspark(*tensors.dspark));
  }
  return {};
}

}  // namespace

ModelConfig ConfigOn(const Device& device, ModelConfig config) {
  return Converts(device, config) ? W8A8ConfigOf(std::move(config)) : config;
}

Result<Weights> PlaceWeights(Device& device, Weights weights, const ModelConfig& config) {
  const bool converts = Converts(device, config);
  std::unique_ptr<WeightPlacer> placer = device.NewWeightPlacer();
  if (placer == nullptr) {
    CACHALOT_CHECK(!converts, "{} has weights converted and no place for them", device.name());
    return weights;
  }
  CACHALOT_RETURN_IF_ERROR(Walk(*placer, converts, config.o_groups).Model(weights));
  weights.Keep(std::move(placer));
  return weights;
}

}  // namespace cachalot
