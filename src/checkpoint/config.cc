#include "checkpoint/config.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "checkpoint/config_fields.h"
#include "checkpoint/config_quantisation.h"
#include "io/file.h"
#include "io/json.h"

namespace cachalot {
namespace {

// Far above any model of the family, low enough that no product of two or three of them overflows
// and that a hostile file cannot make the table of tensors large.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxStages = 16;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 1 << 14;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxExpertsOfAllLayers = 1 << 18;
constexpr double kMaxParameters = 0x1p50;
constexpr int64_t kMaxPosition = int64_t{1} << 31;
constexpr int64_t kMaxConfigBytes = 16 << 20;

constexpr int64_t kKvBlock = 64;         // values of a key or value row that share an fp8 scale
constexpr int64_t kIndexKeyBlock = 32;   // values of an index key that share an fp4 scale
constexpr int64_t kVectorBlock = 32;     // kernels walk the inner axis of a matrix in such steps
constexpr int64_t kFp8InputBlock = 128;  // inputs of fp8 and fp4 products are quantised so

// The architecture, and what marks its successors and relatives.
void CheckArchitecture(ConfigFields& fields) {
  for (const auto& name : fields.Names()) {
    if (name.starts_with("engram")) {
      fields.Fail(StatusCode::kUnsupported, "{} marks a DeepSeek-V4.1, which is not supported yet",
                  name);
    }
  }
  if (fields.Has("vision_config")) {
    fields.Fail(StatusCode::kUnsupported, "vision_config: images are not supported");
  }
  fields.Require("model_type", "deepseek_v4");
  fields.Require("scoring_func", "sqrtsoftplus");
  fields.Require("norm_topk_prob", true);
  fields.Require("n_shared_experts", 1);
  fields.Require("num_key_value_heads", 1);
  fields.RequireIfPresent("topk_method", "noaux_tc");
  fields.RequireIfPresent("tie_word_embeddings", false);
  fields.RequireIfPresent("attention_bias", false);
  fields.RequireIfPresent("mlp_bias", false);
  fields.RequireIfPresent("hidden_act", "silu");
}

void ReadDimensions(ConfigFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Integer("vocab_size", 1, kMaxVocab);
  config.hidden_size = fields.Integer("hidden_size", 1, kMaxWidth);
  config.num_layers = fields.Integer("num_hidden_layers", 1, kMaxLayers);
  config.num_heads = fields.Integer("num_attention_heads", 1, kMaxHeads);
  config.head_dim = fields.Integer("head_dim", 1, kMaxHeadDim);
  config.q_lora_rank = fields.Integer("q_lora_rank", 1, kMaxWidth);
  config.o_lora_rank = fields.Integer("o_lora_rank", 1, kMaxWidth);
  config.o_groups = fields.Integer("o_groups", 1, kMaxHeads);
  config.window = fields.Integer("sliding_window", 1, 128);  // a cache page has 128 tokens
  config.num_experts = fields.Integer("n_routed_experts", 1, kMaxHeads);
  config.experts_per_token = fields.Integer("num_experts_per_tok", 1, kMaxHeads);
  config.expert_inter_size = fields.Integer("moe_intermediate_size", 1, kMaxWidth);
  config.route_scale = fields.Number("routed_scaling_factor", 1e-6, 1e6);
  config.swiglu_limit = fields.Number("swiglu_limit", 0, 1e6);
  config.hc_mult = fields.Integer("hc_mult", 1, 16);
  config.hc_sinkhorn_iters = fields.Integer("hc_sinkhorn_iters", 1, 1000);
  config.hc_eps = fields.Number("hc_eps", 0, 1);
  config.rms_eps = fields.Number("rms_norm_eps", 0, 1);
  config.max_position = fields.Integer("max_position_embeddings", 1, kMaxPosition);
  config.bos_token = fields.Integer("bos_token_id", 0, kMaxVocab);
  config.eos_token = fields.Integer("eos_token_id", 0, kMaxVocab);
  if (fields.Has("partial_rotary_factor") && !fields.Has("qk_rope_head_dim")) {
    const double factor = fields.Number("partial_rotary_factor", 0, 1);
    config.rope_dim = static_cast<int64_t>(static_cast<double>(config.head_dim) * factor);
  } else {
    config.rope_dim = fields.Integer("qk_rope_head_dim", 2, kMaxHeadDim);
  }
}

// One ratio for each layer and for each stage under mtp.*, as the published files have it.
std::vector<int64_t> ReadRatios(ConfigFields& fields) {
  std::vector<int64_t> ratios = fields.Integers("compress_ratios", 0, INT32_MAX,
                                                static_cast<size_t>(kMaxLayers + kMaxStages));
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (ratios[i] == 1) {
      ratios[i] = 0;  // both mean a layer without compressed entries
    }
    if (ratios[i] != 0 && ratios[i] != 4 && ratios[i] != 128) {
      fields.Fail(ratios[i] == 2 ? StatusCode::kUnsupported : StatusCode::kInvalidArgument,
                  "compress_ratios[{}] is {}, expected 0, 1, 4 or 128{}", i, ratios[i],
                  ratios[i] == 2 ? " (DeepSeek-V4.1 is not supported yet)" : "");
    }
  }
  return ratios;
}

// The same told by names, as transformers has it.
std::vector<int64_t> ReadLayerTypes(ConfigFields& fields) {
  if (fields.Has("compress_rates")) {
    ConfigFields rates = fields.Object("compress_rates");
    rates.RequireIfPresent("compressed_sparse_attention", 4);
    rates.RequireIfPresent("heavily_compressed_attention", 128);
  }
  std::vector<int64_t> ratios;
  for (const auto& type : fields.Strings(
           "layer_types", static_cast<size_t>(kMaxLayers + kMaxStages),
           {"sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"})) {
    ratios.push_back(type == "sliding_attention"             ? 0
                     : type == "compressed_sparse_attention" ? 4
                                                             : 128);
  }
  return ratios;
}

// Sets the layers' ratios; returns how many stages the list has beyond them.
int64_t ReadLayers(ConfigFields& fields, ModelConfig& config) {
  const bool by_type = fields.Has("layer_types") && !fields.Has("compress_ratios");
  const char* name = by_type ? "layer_types" : "compress_ratios";
  std::vector<int64_t> ratios = by_type ? ReadLayerTypes(fields) : ReadRatios(fields);
  if (fields.failed()) {
    return 0;
  }
  const auto layers = static_cast<size_t>(config.num_layers);
  if (ratios.size() < layers || ratios.size() > layers + static_cast<size_t>(kMaxStages)) {
    fields.Fail(StatusCode::kInvalidArgument,
                "{} has {} entries, expected num_hidden_layers = {} and at most {} more", name,
                ratios.size(), layers, kMaxStages);
    return 0;
  }
  for (size_t i = layers; i < ratios.size(); ++i) {
    if (ratios[i] != 0) {
      fields.Fail(StatusCode::kInvalidArgument,
                  "{}[{}] gives ratio {} to a stage after the last layer, expected 0", name, i,
                  ratios[i]);
    }
  }
  const auto stages = static_cast<int64_t>(ratios.size() - layers);
  ratios.resize(layers);
  config.compress_ratios = std::move(ratios);
  return stages;
}

void ReadHashLayers(ConfigFields& fields, ModelConfig& config) {
  if (!fields.Has("mlp_layer_types") || fields.Has("num_hash_layers")) {
    config.num_hash_layers = fields.Integer("num_hash_layers", 0, config.num_layers);
    return;
  }
  const auto types = fields.Strings("mlp_layer_types", static_cast<size_t>(kMaxLayers + kMaxStages),
                                    {"hash_moe", "moe"});
  const auto first_scored =
      std::find_if(types.begin(), types.end(), [](const auto& type) { return type != "hash_moe"; });
  config.num_hash_layers = first_scored - types.begin();
  const bool rest_scored =
      std::all_of(first_scored, types.end(), [](const auto& type) { return type == "moe"; });
  if (static_cast<int64_t>(types.size()) != config.num_layers || !rest_scored) {
    fields.Fail(StatusCode::kInvalidArgument,
                "mlp_layer_types has {} entries, expected {}: hash_moe for the first layers, moe "
                "for the others",
                types.size(), config.num_layers);
  }
}

bool AnyLayerHas(const ModelConfig& config, int64_t ratio) {
  return std::find(config.compress_ratios.begin(), config.compress_ratios.end(), ratio) !=
         config.compress_ratios.end();
}

void ReadYarn(ConfigFields scaling, YarnScaling& yarn) {
  scaling.Require(scaling.Has("rope_type") ? "rope_type" : "type", "yarn");
  yarn.factor = scaling.Number("factor", 1, 1e6);
  yarn.beta_fast = scaling.Number("beta_fast", 1e-3, 1e6);
  yarn.beta_slow = scaling.Number("beta_slow", 1e-3, 1e6);
  yarn.original_max_position =
      scaling.Number("original_max_position_embeddings", 1, static_cast<double>(kMaxPosition));
  scaling.RequireIfPresent("attention_factor",
                           1);  // the model scales neither cos and sin nor scores
  if (yarn.beta_fast <= yarn.beta_slow) {
    scaling.Fail(StatusCode::kInvalidArgument, "beta_fast is {}, expected above beta_slow = {}",
                 yarn.beta_fast, yarn.beta_slow);
  }
}

void ReadRope(ConfigFields& fields, ModelConfig& config) {
  constexpr double kLeastTheta = 2;
  constexpr double kMostTheta = 1e12;
  const bool nested = fields.Has("rope_parameters");  // transformers' spelling
  ConfigFields main = nested ? fields.Object("rope_parameters").Object("main") : fields;
  config.rope_theta = main.Number("rope_theta", kLeastTheta, kMostTheta);
  if (!AnyLayerHas(config, 4) && !AnyLayerHas(config, 128)) {
    return;
  }
  if (nested) {
    ConfigFields compress = fields.Object("rope_parameters").Object("compress");
    config.compress_rope_theta = compress.Number("rope_theta", kLeastTheta, kMostTheta);
    ReadYarn(compress, config.yarn);
  } else {
    config.compress_rope_theta = fields.Number("compress_rope_theta", kLeastTheta, kMostTheta);
    ReadYarn(fields.Object("rope_scaling"), config.yarn);
  }
}

void ReadIndexer(ConfigFields& fields, ModelConfig& config) {
  if (!AnyLayerHas(config, 4) && !fields.Has("index_n_heads")) {
    return;
  }
  config.index_heads = fields.Integer("index_n_heads", 1, kMaxHeads);
  config.index_head_dim = fields.Integer("index_head_dim", 1, 1024);
  config.index_topk = fields.Integer("index_topk", 1, kMaxWidth);
}

// What follows the layers under mtp.*: one multi-token-prediction block, or the stages of DSpark.
// Files with DSpark keep num_nextn_predict_layers at 1, so there the stages are counted by the list
// of ratios.
void ReadDraft(ConfigFields& fields, int64_t stages, ModelConfig& config) {
  const bool published = fields.Has("compress_ratios");
  const int64_t predicted = fields.Has("num_nextn_predict_layers")
                                ? fields.Integer("num_nextn_predict_layers", 0, kMaxStages)
                                : 0;
  if (!fields.Has("dspark_block_size")) {
    if (predicted > 1) {
      fields.Fail(StatusCode::kUnsupported,
                  "num_nextn_predict_layers is {}, expected 0 or 1 without dspark_block_size",
                  predicted);
    }
    // transformers leaves the block out of what it writes, though not out of the count.
    config.has_mtp = predicted == 1 && (published || stages > 0);
    return;
  }
  DsparkConfig dspark;
  if (fields.Has("n_mtp_layers")) {
    dspark.num_stages = fields.Integer("n_mtp_layers", 1, kMaxStages);
    if (stages != 0 && stages != dspark.num_stages) {
      fields.Fail(StatusCode::kInvalidArgument,
                  "n_mtp_layers is {}, but compress_ratios has {} entries after the layers",
                  dspark.num_stages, stages);
    }
  } else {
    dspark.num_stages = stages;
    if (stages == 0) {
      fields.Fail(StatusCode::kInvalidArgument,
                  "compress_ratios has no entry after the {} layers, expected one for each DSpark "
                  "stage",
                  config.num_layers);
    }
  }
  dspark.block_size = fields.Integer("dspark_block_size", 1, 128);
  dspark.noise_token = fields.Integer("dspark_noise_token_id", 0, config.vocab_size - 1);
  dspark.markov_rank = fields.Integer("dspark_markov_rank", 1, kMaxWidth);
  dspark.target_layers = fields.Integers("dspark_target_layer_ids", 0, config.num_layers - 1,
                                         static_cast<size_t>(config.num_layers));
  const auto& targets = dspark.target_layers;
  if (targets.empty() ||
      std::adjacent_find(targets.begin(), targets.end(), std::greater_equal<>()) != targets.end()) {
    fields.Fail(
        StatusCode::kInvalidArgument,
        "dspark_target_layer_ids is [{}], expected ascending layer ids",
        fmt::join(targets.begin(),
                  targets.begin() + std::min<ptrdiff_t>(8, static_cast<ptrdiff_t>(targets.size())),
                  ", "));
  }
  config.dspark = std::move(dspark);
}

double CountParameters(const ModelConfig& c) {
  const auto d = static_cast<double>(c.hidden_size);
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const double stages =
      static_cast<double>(c.dspark ? c.dspark->num_stages : 0) + (c.has_mtp ? 1 : 0);
  const double experts = 3 * product(c.num_experts + 1, c.expert_inter_size) * d;
  const double attention =
      product(c.num_heads, c.head_dim) * static_cast<double>(c.q_lora_rank + c.o_lora_rank) +
      product(c.o_groups, c.o_lora_rank) * d + product(c.q_lora_rank, c.hidden_size);
  const double indexer =
      product(c.index_heads, c.index_head_dim) * static_cast<double>(c.q_lora_rank);
  const double draft = c.dspark ? static_cast<double>(c.dspark->target_layers.size()) * d * d +
                                      2 * product(c.vocab_size, c.dspark->markov_rank)
                                : 2 * d * d;
  return (static_cast<double>(c.num_layers) + stages) * (experts + attention + indexer) +
         2 * product(c.vocab_size, c.hidden_size) + draft;
}

void CheckMultiple(ConfigFields& fields, const char* name, int64_t value, int64_t of) {
  if (value % of != 0) {
    fields.Fail(StatusCode::kInvalidArgument, "{} is {}, expected a multiple of {}", name, value,
                of);
  }
}

void CheckAtMost(ConfigFields& fields, const char* name, int64_t value, const char* limit_name,
                 int64_t limit) {
  if (value > limit) {
    fields.Fail(StatusCode::kInvalidArgument, "{} is {}, expected at most {} = {}", name, value,
                limit_name, limit);
  }
}

// How the fields fit each other, the kernels and the storage.
void CheckConsistency(ConfigFields& fields, const ModelConfig& c) {
  CheckAtMost(fields, "num_experts_per_tok", c.experts_per_token, "n_routed_experts",
              c.num_experts);
  CheckAtMost(fields, "qk_rope_head_dim", c.rope_dim, "head_dim", c.head_dim);
  CheckMultiple(fields, "qk_rope_head_dim", c.rope_dim, 2);
  CheckMultiple(fields, "head_dim - qk_rope_head_dim", c.nope_dim(), kKvBlock);
  if (c.rope_dim == 0) {
    fields.Fail(StatusCode::kInvalidArgument, "qk_rope_head_dim is 0, expected at least 2");
  }
  if (c.num_heads % c.o_groups != 0) {
    fields.Fail(StatusCode::kInvalidArgument,
                "num_attention_heads is {}, expected a multiple of o_groups = {}", c.num_heads,
                c.o_groups);
  }
  CheckAtMost(fields, "bos_token_id", c.bos_token, "vocab_size - 1", c.vocab_size - 1);
  CheckAtMost(fields, "eos_token_id", c.eos_token, "vocab_size - 1", c.vocab_size - 1);
  if (c.index_heads > 0) {
    CheckAtMost(fields, "qk_rope_head_dim", c.rope_dim, "index_head_dim", c.index_head_dim);
    CheckMultiple(fields, "index_head_dim", c.index_head_dim, kIndexKeyBlock);
    if (!std::has_single_bit(static_cast<uint64_t>(c.index_head_dim))) {
      fields.Fail(StatusCode::kInvalidArgument, "index_head_dim is {}, expected a power of two",
                  c.index_head_dim);
    }
  }
  const int64_t block = c.layout == WeightLayout::kNative ? kFp8InputBlock : kVectorBlock;
  CheckMultiple(fields, "hidden_size", c.hidden_size, block);
  CheckMultiple(fields, "q_lora_rank", c.q_lora_rank, block);
  CheckMultiple(fields, "moe_intermediate_size", c.expert_inter_size, block);
  CheckMultiple(fields, "o_groups * o_lora_rank", c.o_groups * c.o_lora_rank, block);
  CheckAtMost(fields, "num_hidden_layers * n_routed_experts", c.num_layers * c.num_experts,
              "the limit", kMaxExpertsOfAllLayers);
  if (CountParameters(c) > kMaxParameters) {
    fields.Fail(StatusCode::kInvalidArgument,
                "the sizes make {:.3g} parameters, expected at most {:.3g}", CountParameters(c),
                kMaxParameters);
  }
}

}  // namespace

Result<ModelConfig> ParseModelConfig(const std::string& text, const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, source));
  if (!json.is_object()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: JSON is an {}, expected an object", source,
                     json.type_name());
  }
  std::optional<Error> fault;
  ConfigFields fields(json, source, &fault);
  ModelConfig config;
  CheckArchitecture(fields);
  ReadDimensions(fields, config);
  const int64_t stages = ReadLayers(fields, config);
  ReadHashLayers(fields, config);
  ReadRope(fields, config);
  ReadIndexer(fields, config);
  ReadDraft(fields, stages, config);
  ReadQuantisation(fields, config);
  if (!fault) {
    CheckConsistency(fields, config);
  }
  if (fault) {
    return tl::unexpected(*fault);
  }
  return config;
}

Result<ModelConfig> LoadModelConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  return ParseModelConfig(text, path);
}

}  // namespace cachalot
