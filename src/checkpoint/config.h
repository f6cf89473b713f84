// ModelConfig: config.json of a DeepSeek-V4 checkpoint, checked. Every dimension of the model comes
// from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cachalot {

// YaRN, for the layers with a compressed cache (rope_scaling of config.json).
struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_max_position = 0;
};

// The block-drafting stages of the 0731 and later releases, stored under mtp.*.
struct DsparkConfig {
  int64_t num_stages = 0;
  int64_t block_size = 0;              // draft positions of one round
  int64_t noise_token = 0;             // stands in for the positions to be drafted
  std::vector<int64_t> target_layers;  // whose outputs feed the draft
  int64_t markov_rank = 0;
};

// How the linears are stored; experts may differ (native files keep them in fp4, -Base files in
// fp8).
enum class WeightLayout : uint8_t { kNative, kBf16, kW8A8 };

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_hash_layers = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;  // key and value width, rope part included
  int64_t rope_dim = 0;  // the last rope_dim values of a head
  int64_t q_lora_rank = 0;
  int64_t o_lora_rank = 0;  // per group
  int64_t o_groups = 0;
  int64_t window = 0;
  std::vector<int64_t> compress_ratios;  // [num_layers], each 0, 4 or 128
  // The index_* fields are 0 where no layer has ratio 4 and the file leaves them out.
  int64_t index_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_inter_size = 0;
  double route_scale = 1;
  double swiglu_limit = 0;  // 0: no clamp
  int64_t hc_mult = 0;      // streams of the hyper-connections
  int64_t hc_sinkhorn_iters = 0;
  double hc_eps = 0;
  double rms_eps = 0;
  double rope_theta = 0;
  double compress_rope_theta = 0;
  YarnScaling yarn;
  int64_t max_position = 0;
  int64_t bos_token = 0;
  int64_t eos_token = 0;
  WeightLayout layout = WeightLayout::kNative;
  bool experts_fp4 = false;  // routed experts of a native checkpoint in fp4, else fp8
  bool has_mtp = false;      // one multi-token-prediction block under mtp.0
  std::optional<DsparkConfig> dspark;

  int64_t nope_dim() const { return head_dim - rope_dim; }
  // KV rows keep the fp8 form that the model was trained with, and index keys fp4; W8A8 files:
  // plain KV and int8 keys.
  bool quantised_kv() const { return layout != WeightLayout::kW8A8; }
};

// `text` is the file's content and `source` its name for messages. Refuses what is missing, of a
// wrong type, absurd or inconsistent, naming the field, what was found and what was expected.
Result<ModelConfig> ParseModelConfig(const std::string& text, const std::string& source);
// The text of a config.json that ParseModelConfig reads as `config`.
std::string FormatModelConfig(const ModelConfig& config);
// `folder`/config.json.
Result<ModelConfig> LoadModelConfig(const std::string& folder);

}  // namespace cachalot
