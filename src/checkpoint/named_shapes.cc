#include "checkpoint/named_shapes.h"

namespace cachalot {
namespace {

// `pairs` times 4, 128.
std::vector<int64_t> Alternate(std::vector<int64_t> ratios, int pairs) {
  for (int i = 0; i < pairs; ++i) {
    ratios.insert(ratios.end(), {4, 128});
  }
  return ratios;
}

void SetLayers(ModelConfig& config, std::vector<int64_t> ratios) {
  config.num_layers = static_cast<int64_t>(ratios.size());
  config.compress_ratios = std::move(ratios);
}

ModelConfig Flash() {
  ModelConfig c;
  c.vocab_size = 129280;
  c.hidden_size = 4096;
  c.num_hash_layers = 3;
  c.num_heads = 64;
  c.head_dim = 512;
  c.rope_dim = 64;
  c.q_lora_rank = 1024;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.window = 128;
  SetLayers(c, Alternate({0, 0}, 20));
  c.compress_ratios.push_back(4);
  c.num_layers = 43;
  c.index_heads = 64;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.num_experts = 256;
  c.experts_per_token = 6;
  c.expert_inter_size = 2048;
  c.route_scale = 1.5;
  c.swiglu_limit = 10;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.rms_eps = 1e-6;
  c.rope_theta = 10000;
  c.compress_rope_theta = 160000;
  c.yarn = {.factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position = 65536};
  c.max_position = 1048576;
  c.bos_token = 0;
  c.eos_token = 1;
  c.has_mtp = true;
  return c;
}

ModelConfig Pro() {
  ModelConfig c = Flash();
  c.hidden_size = 7168;
  c.num_heads = 128;
  c.q_lora_rank = 1536;
  c.o_groups = 16;
  SetLayers(c, Alternate({128, 128}, 29));
  c.compress_ratios.push_back(4);
  c.num_layers = 61;
  c.index_topk = 1024;
  c.num_experts = 384;
  c.expert_inter_size = 3072;
  c.route_scale = 2.5;
  return c;
}

ModelConfig Flash4() {
  ModelConfig c = Flash();
  SetLayers(c, Alternate({}, 2));
  c.num_hash_layers = 1;
  c.has_mtp = false;
  return c;
}

ModelConfig Small() {
  ModelConfig c = Flash();
  c.vocab_size = 32768;
  c.hidden_size = 1024;
  SetLayers(c, Alternate({0, 0}, 3));
  c.num_heads = 16;
  c.q_lora_rank = 512;
  c.o_lora_rank = 256;
  c.o_groups = 4;
  c.index_heads = 16;
  c.index_topk = 128;
  c.num_experts = 64;
  c.expert_inter_size = 512;
  c.has_mtp = false;
  return c;
}

ModelConfig Nano() {
  ModelConfig c = Flash();
  c.vocab_size = 512;
  c.hidden_size = 256;
  SetLayers(c, Alternate({0}, 2));
  c.num_hash_layers = 1;
  c.num_heads = 4;
  c.q_lora_rank = 128;
  c.o_lora_rank = 128;
  c.o_groups = 2;
  c.index_heads = 8;
  c.index_topk = 32;
  c.num_experts = 16;
  c.experts_per_token = 4;
  c.expert_inter_size = 128;
  return c;
}

// What the operators of Atlas A3 fix is as in V4-Flash: the hidden size (HcPre takes 4096 or 7168),
// all that shapes a head, a cache row or an indexer, and the streams. What they leave open is small.
ModelConfig A3() {
  ModelConfig c = Flash();
  c.vocab_size = 512;
  SetLayers(c, {0, 4, 128});
  c.num_hash_layers = 1;
  c.q_lora_rank = 512;
  c.o_lora_rank = 256;
  c.num_experts = 16;
  c.expert_inter_size = 256;
  c.has_mtp = false;
  return c;
}

}  // namespace

Result<ModelConfig> NamedShape(const std::string& name, WeightLayout layout) {
  ModelConfig config;
  if (name == "nano") {
    config = Nano();
  } else if (name == "small") {
    config = Small();
  } else if (name == "a3") {
    config = A3();
  } else if (name == "flash4") {
    config = Flash4();
  } else if (name == "flash") {
    config = Flash();
  } else if (name == "pro") {
    config = Pro();
  } else {
    return MakeError(StatusCode::kInvalidArgument,
                     "shape is \"{}\", expected nano, small, a3, flash4, flash or pro", name);
  }
  config.layout = layout;
  config.experts_fp4 = layout == WeightLayout::kNative;
  return config;
}

Result<WeightLayout> ParseWeightLayout(const std::string& name) {
  if (name == "native") {
    return WeightLayout::kNative;
  }
  if (name == "bf16") {
    return WeightLayout::kBf16;
  }
  if (name == "w8a8") {
    return WeightLayout::kW8A8;
  }
  return MakeError(StatusCode::kInvalidArgument, "layout is \"{}\", expected native, bf16 or w8a8",
                   name);
}

}  // namespace cachalot
