#include "checkpoint/tensor_table.h"

namespace cachalot {
namespace {

template <typename T>
T& Ensure(std::optional<T>& part) {
  return part ? *part : part.emplace();
}

class Lister {
 public:
  explicit Lister(const ModelConfig& config) : c_(config) {}

  void Model(ModelTensors& tensors);
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  void Add(std::string name, TensorKind kind, Component component, Shape shape,
           std::variant<Matrix*, Tensor*> slot) {
    // The blocks under mtp.* are counted as a whole.
    const bool under_mtp = name.starts_with("mtp.");
    const Component draft = c_.dspark ? Component::kDspark : Component::kMtp;
    specs_.push_back({std::move(name), kind, under_mtp ? draft : component, shape, slot});
  }
  void Norm(const std::string& name, int64_t width, Tensor& slot) {
    Add(name + ".weight", TensorKind::kNorm, Component::kNorms, {width}, &slot);
  }
  void HyperConnection(const std::string& prefix, int64_t rows, int64_t scales,
                       HyperConnectionWeights& hc);
  void Head(const std::string& prefix, HeadWeights& head);
  void Compressor(const std::string& prefix, Component component, int64_t ratio, int64_t width,
                  CompressorWeights& compressor);
  void Indexer(const std::string& prefix, IndexerWeights& indexer);
  void Attention(const std::string& prefix, int64_t ratio, AttentionWeights& attn);
  void Expert(const std::string& prefix, TensorKind kind, Component component,
              ExpertWeights& expert);
  void Moe(const std::string& prefix, bool hashed, MoeWeights& ffn);
  void Block(const std::string& prefix, int64_t ratio, bool hashed, BlockWeights& block);
  void Mtp(MtpWeights& mtp);
  void Dspark(DsparkWeights& dspark);

  const ModelConfig& c_;
  std::vector<TensorSpec> specs_;
};

void Lister::HyperConnection(const std::string& prefix, int64_t rows, int64_t scales,
                             HyperConnectionWeights& hc) {
  const auto component = Component::kHyperConnections;
  Add(prefix + "fn", TensorKind::kFloat, component, {rows, c_.hc_mult * c_.hidden_size}, &hc.fn);
  Add(prefix + "base", TensorKind::kFloat, component, {rows}, &hc.base);
  Add(prefix + "scale", TensorKind::kFloat, component, {scales}, &hc.scale);
}

void Lister::Head(const std::string& prefix, HeadWeights& head) {
  Norm(prefix + "norm", c_.hidden_size, head.norm);
  HyperConnection(prefix + "hc_head_", c_.hc_mult, 1, head.hc);
}

void Lister::Compressor(const std::string& prefix, Component component, int64_t ratio,
                        int64_t width, CompressorWeights& compressor) {
  compressor.ratio = ratio;
  const int64_t rows = (ratio == 4 ? 2 : 1) * width;
  Add(prefix + "ape", TensorKind::kFloat, component, {ratio, rows}, &compressor.ape);
  Add(prefix + "wkv.weight", TensorKind::kMatrix, component, {rows, c_.hidden_size},
      &compressor.wkv);
  Add(prefix + "wgate.weight", TensorKind::kMatrix, component, {rows, c_.hidden_size},
      &compressor.wgate);
  Norm(prefix + "norm", width, compressor.norm);
}

void Lister::Indexer(const std::string& prefix, IndexerWeights& indexer) {
  const auto component = Component::kIndexers;
  Add(prefix + "wq_b.weight", TensorKind::kLinear, component,
      {c_.index_heads * c_.index_head_dim, c_.q_lora_rank}, &indexer.wq_b);
  Add(prefix + "weights_proj.weight", TensorKind::kMatrix, component,
      {c_.index_heads, c_.hidden_size}, &indexer.weights_proj);
  Compressor(prefix + "compressor.", component, 4, c_.index_head_dim, indexer.compressor);
}

void Lister::Attention(const std::string& prefix, int64_t ratio, AttentionWeights& attn) {
  const auto component = Component::kAttention;
  const int64_t d = c_.hidden_size;
  const int64_t heads_width = c_.num_heads * c_.head_dim;
  const int64_t groups_width = c_.o_groups * c_.o_lora_rank;
  Add(prefix + "attn_sink", TensorKind::kFloat, Component::kNorms, {c_.num_heads}, &attn.sink);
  Add(prefix + "wq_a.weight", TensorKind::kLinearKept, component, {c_.q_lora_rank, d}, &attn.wq_a);
  Norm(prefix + "q_norm", c_.q_lora_rank, attn.q_norm);
  Add(prefix + "wq_b.weight", TensorKind::kLinear, component, {heads_width, c_.q_lora_rank},
      &attn.wq_b);
  Add(prefix + "wkv.weight", TensorKind::kLinearKept, component, {c_.head_dim, d}, &attn.wkv);
  Norm(prefix + "kv_norm", c_.head_dim, attn.kv_norm);
  Add(prefix + "wo_a.weight", TensorKind::kLinearKept, component,
      {groups_width, heads_width / c_.o_groups}, &attn.wo_a);
  Add(prefix + "wo_b.weight", TensorKind::kLinear, component, {d, groups_width}, &attn.wo_b);
  if (ratio != 0) {
    Compressor(prefix + "compressor.", Component::kCompressors, ratio, c_.head_dim,
               Ensure(attn.compressor));
  }
  if (ratio == 4) {
    Indexer(prefix + "indexer.", Ensure(attn.indexer));
  }
}

void Lister::Expert(const std::string& prefix, TensorKind kind, Component component,
                    ExpertWeights& expert) {
  const Shape in = {c_.expert_inter_size, c_.hidden_size};
  const Shape out = {c_.hidden_size, c_.expert_inter_size};
  Add(prefix + "w1.weight", kind, component, in, &expert.w1);
  Add(prefix + "w2.weight", kind, component, out, &expert.w2);
  Add(prefix + "w3.weight", kind, component, in, &expert.w3);
}

void Lister::Moe(const std::string& prefix, bool hashed, MoeWeights& ffn) {
  Add(prefix + "gate.weight", TensorKind::kMatrix, Component::kGates,
      {c_.num_experts, c_.hidden_size}, &ffn.gate);
  if (hashed) {
    Add(prefix + "gate.tid2eid", TensorKind::kTokenExperts, Component::kHashTables,
        {c_.vocab_size, c_.experts_per_token}, &ffn.tid2eid);
  } else {
    Add(prefix + "gate.bias", TensorKind::kFloat, Component::kGates, {c_.num_experts}, &ffn.bias);
  }
  ffn.experts.resize(static_cast<size_t>(c_.num_experts));
  for (size_t e = 0; e < ffn.experts.size(); ++e) {
    Expert(fmt::format("{}experts.{}.", prefix, e), TensorKind::kExpert, Component::kRoutedExperts,
           ffn.experts[e]);
  }
  Expert(prefix + "shared_experts.", TensorKind::kLinear, Component::kSharedExperts, ffn.shared);
}

void Lister::Block(const std::string& prefix, int64_t ratio, bool hashed, BlockWeights& block) {
  block.ratio = ratio;
  const int64_t mixes = (2 + c_.hc_mult) * c_.hc_mult;
  HyperConnection(prefix + "hc_attn_", mixes, 3, block.hc_attn);
  Norm(prefix + "attn_norm", c_.hidden_size, block.attn_norm);
  Attention(prefix + "attn.", ratio, block.attn);
  HyperConnection(prefix + "hc_ffn_", mixes, 3, block.hc_ffn);
  Norm(prefix + "ffn_norm", c_.hidden_size, block.ffn_norm);
  Moe(prefix + "ffn.", hashed, block.ffn);
}

void Lister::Mtp(MtpWeights& mtp) {
  const Shape square = {c_.hidden_size, c_.hidden_size};
  Add("mtp.0.e_proj.weight", TensorKind::kLinear, Component::kMtp, square, &mtp.e_proj);
  Add("mtp.0.h_proj.weight", TensorKind::kLinear, Component::kMtp, square, &mtp.h_proj);
  Norm("mtp.0.enorm", c_.hidden_size, mtp.enorm);
  Norm("mtp.0.hnorm", c_.hidden_size, mtp.hnorm);
  Block("mtp.0.", 0, false, mtp.block);
  Head("mtp.0.", mtp.head);
}

void Lister::Dspark(DsparkWeights& dspark) {
  const int64_t d = c_.hidden_size;
  const int64_t rank = c_.dspark->markov_rank;
  const auto targets = static_cast<int64_t>(c_.dspark->target_layers.size());
  Add("mtp.0.main_proj.weight", TensorKind::kLinearKept, Component::kDspark, {d, d * targets},
      &dspark.main_proj);
  Norm("mtp.0.main_norm", d, dspark.main_norm);
  dspark.stages.resize(static_cast<size_t>(c_.dspark->num_stages));
  for (size_t i = 0; i < dspark.stages.size(); ++i) {
    Block(fmt::format("mtp.{}.", i), 0, false, dspark.stages[i]);
  }
  const std::string last = fmt::format("mtp.{}.", dspark.stages.size() - 1);
  Head(last, dspark.head);
  Add(last + "markov_head.markov_w1.weight", TensorKind::kMatrix, Component::kDspark,
      {c_.vocab_size, rank}, &dspark.markov_w1);
  Add(last + "markov_head.markov_w2.weight", TensorKind::kMatrix, Component::kDspark,
      {c_.vocab_size, rank}, &dspark.markov_w2);
  Add(last + "confidence_head.proj.weight", TensorKind::kMatrix, Component::kDspark, {1, d + rank},
      &dspark.confidence_proj);
}

void Lister::Model(ModelTensors& tensors) {
  const Shape table = {c_.vocab_size, c_.hidden_size};
  Add("embed.weight", TensorKind::kMatrix, Component::kEmbed, table, &tensors.embed);
  Add("head.weight", TensorKind::kMatrix, Component::kHead, table, &tensors.lm_head);
  Head("", tensors.head);
  tensors.layers.resize(static_cast<size_t>(c_.num_layers));
  for (size_t i = 0; i < tensors.layers.size(); ++i) {
    Block(fmt::format("layers.{}.", i), c_.compress_ratios[i],
          static_cast<int64_t>(i) < c_.num_hash_layers, tensors.layers[i]);
  }
  if (c_.has_mtp) {
    Mtp(Ensure(tensors.mtp));
  }
  if (c_.dspark) {
    Dspark(Ensure(tensors.dspark));
  }
}

}  // namespace

const char* NameOf(Component component) {
  switch (component) {
    case Component::kAttention:
      return "attention";
    case Component::kCompressors:
      return "compressors";
    case Component::kIndexers:
      return "indexers";
    case Component::kHyperConnections:
      return "hyper-connections";
    case Component::kGates:
      return "gates";
    case Component::kHashTables:
      return "hash tables";
    case Component::kSharedExperts:
      return "shared experts";
    case Component::kRoutedExperts:
      return "routed experts";
    case Component::kEmbed:
      return "embed";
    case Component::kHead:
      return "head";
    case Component::kNorms:
      return "norms and sinks";
    case Component::kMtp:
      return "mtp";
    case Component::kDspark:
      return "dspark";
  }
  return "?";
}

std::vector<TensorSpec> ListTensors(const ModelConfig& config, ModelTensors& tensors) {
  Lister lister(config);
  lister.Model(tensors);
  return lister.Take();
}

}  // namespace cachalot
