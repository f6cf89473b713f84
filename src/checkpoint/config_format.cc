#include "checkpoint/config.h"
#include "io/json.h"

namespace cachalot {
namespace {

OrderedJson QuantisationJson(WeightLayout layout) {
  if (layout == WeightLayout::kNative) {
    return {{"quant_method", "fp8"},
            {"fmt", "e4m3"},
            {"scale_fmt", "ue8m0"},
            {"activation_scheme", "dynamic"},
            {"weight_block_size", {128, 128}}};
  }
  const OrderedJson weights = {{"num_bits", 8},
                               {"type", "int"},
                               {"symmetric", true},
                               {"strategy", "channel"},
                               {"dynamic", false}};
  const OrderedJson inputs = {{"num_bits", 8},
                              {"type", "int"},
                              {"symmetric", true},
                              {"strategy", "token"},
                              {"dynamic", true}};
  OrderedJson group;
  group["targets"] = OrderedJson::array({"Linear"});
  group["weights"] = weights;
  group["input_activations"] = inputs;
  OrderedJson json;
  json["quant_method"] = "compressed-tensors";
  json["format"] = "int-quantized";
  json["kv_cache_scheme"] = nullptr;
  json["li_cache_scheme"] = {{"type", "int"}, {"num_bits", 8}};
  json["config_groups"]["group_0"] = group;
  json["ignore"] =
      OrderedJson::array({"re:.*wq_a$", "re:.*wkv$", "re:.*wo_a$", "re:.*wgate$",
                          "re:.*weights_proj$", "re:.*ffn.gate$", "re:.*main_proj$",
                          "re:.*markov_head.*", "re:.*confidence_head.*", "embed", "head"});
  return json;
}

void AddRope(const ModelConfig& config, OrderedJson& json) {
  json["rope_theta"] = config.rope_theta;
  if (config.compress_rope_theta > 0) {
    json["compress_rope_theta"] = config.compress_rope_theta;
    json["rope_scaling"] = {
        {"type", "yarn"},
        {"factor", config.yarn.factor},
        {"beta_fast", config.yarn.beta_fast},
        {"beta_slow", config.yarn.beta_slow},
        {"original_max_position_embeddings", config.yarn.original_max_position}};
  }
}

void AddDraft(const ModelConfig& config, OrderedJson& json) {
  std::vector<int64_t> ratios = config.compress_ratios;
  ratios.resize(ratios.size() + (config.has_mtp ? 1 : 0), 0);
  json["num_nextn_predict_layers"] = config.has_mtp ? 1 : 0;
  if (config.dspark) {
    const DsparkConfig& dspark = *config.dspark;
    ratios.resize(ratios.size() + static_cast<size_t>(dspark.num_stages), 0);
    json["num_nextn_predict_layers"] = dspark.num_stages;
    json["dspark_block_size"] = dspark.block_size;
    json["dspark_noise_token_id"] = dspark.noise_token;
    json["dspark_target_layer_ids"] = dspark.target_layers;
    json["dspark_markov_rank"] = dspark.markov_rank;
  }
  json["compress_ratios"] = ratios;
}

}  // namespace

std::string FormatModelConfig(const ModelConfig& config) {
  OrderedJson json;
  json["architectures"] = OrderedJson::array({"DeepseekV4ForCausalLM"});
  json["model_type"] = "deepseek_v4";
  json["torch_dtype"] = "bfloat16";
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.num_layers;
  json["num_hash_layers"] = config.num_hash_layers;
  AddDraft(config, json);
  json["num_attention_heads"] = config.num_heads;
  json["num_key_value_heads"] = 1;
  json["head_dim"] = config.head_dim;
  json["qk_rope_head_dim"] = config.rope_dim;
  json["q_lora_rank"] = config.q_lora_rank;
  json["o_lora_rank"] = config.o_lora_rank;
  json["o_groups"] = config.o_groups;
  json["sliding_window"] = config.window;
  if (config.index_heads > 0) {
    json["index_n_heads"] = config.index_heads;
    json["index_head_dim"] = config.index_head_dim;
    json["index_topk"] = config.index_topk;
  }
  json["n_routed_experts"] = config.num_experts;
  json["n_shared_experts"] = 1;
  json["num_experts_per_tok"] = config.experts_per_token;
  json["moe_intermediate_size"] = config.expert_inter_size;
  json["scoring_func"] = "sqrtsoftplus";
  json["topk_method"] = "noaux_tc";
  json["norm_topk_prob"] = true;
  json["routed_scaling_factor"] = config.route_scale;
  json["swiglu_limit"] = config.swiglu_limit;
  json["hc_mult"] = config.hc_mult;
  json["hc_sinkhorn_iters"] = config.hc_sinkhorn_iters;
  json["hc_eps"] = config.hc_eps;
  json["rms_norm_eps"] = config.rms_eps;
  AddRope(config, json);
  json["max_position_embeddings"] = config.max_position;
  json["tie_word_embeddings"] = false;
  json["bos_token_id"] = config.bos_token;
  json["eos_token_id"] = config.eos_token;
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["attention_dropout"] = 0.0;
  if (config.layout != WeightLayout::kBf16) {
    json["quantization_config"] = QuantisationJson(config.layout);
  }
  if (config.layout == WeightLayout::kNative) {
    json["expert_dtype"] = config.experts_fp4 ? "fp4" : "fp8";
  }
  return DumpJson(json, 2) + "\n";
}

}  // namespace cachalot
