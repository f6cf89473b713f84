#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/named_shapes.h"
#include "io/file.h"
#include "io/json.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

Json NanoJson() {
  return *ParseJson(FormatModelConfig(*NamedShape("nano", WeightLayout::kNative)), "nano");
}

Result<ModelConfig> Parse(const Json& json) { return ParseModelConfig(json.dump(), "c"); }

std::string MessageOf(const Json& json) {
  const auto config = Parse(json);
  return config ? "no error" : config.error().message;
}

Json With(const std::string& name, const Json& value) {
  Json json = NanoJson();
  json[name] = value;
  return json;
}

TEST(ModelConfig, ReadsWhatItFormats) {
  for (const char* shape : {"nano", "small", "a3", "flash4", "flash", "pro"}) {
    for (const auto layout : {WeightLayout::kNative, WeightLayout::kBf16, WeightLayout::kW8A8}) {
      ModelConfig config = *NamedShape(shape, layout);
      if (std::string(shape) == "small") {
        config.dspark = DsparkConfig{3, 5, 7, {1, 2, 4}, 32};
      }
      const std::string text = FormatModelConfig(config);
      const auto read = ParseModelConfig(text, "c");
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(FormatModelConfig(*read), text) << shape;
    }
  }
}

TEST(ModelConfig, ReadsThePublishedPro) {
  const std::string path = CACHALOT_SOURCE_DIR "/../shared/data/config.v4-pro.json";
  const auto text = ReadFile(path, 1 << 20);
  if (!text) {
    GTEST_SKIP() << "needs " << path;
  }
  const auto config = ParseModelConfig(*text, path);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(FormatModelConfig(*config),
            FormatModelConfig(*NamedShape("pro", WeightLayout::kNative)));
}

TEST(ModelConfig, ReadsSpellingsOfTransformers) {
  Json json = NanoJson();
  for (const char* name :
       {"compress_ratios", "num_hash_layers", "rope_theta", "rope_scaling", "compress_rope_theta",
        "qk_rope_head_dim", "topk_method", "quantization_config", "expert_dtype"}) {
    json.erase(name);
  }
  json["layer_types"] = {"sliding_attention", "compressed_sparse_attention",
                         "heavily_compressed_attention", "compressed_sparse_attention",
                         "heavily_compressed_attention"};
  json["compress_rates"] = {{"compressed_sparse_attention", 4},
                            {"heavily_compressed_attention", 128}};
  json["mlp_layer_types"] = {"hash_moe", "moe", "moe", "moe", "moe"};
  json["partial_rotary_factor"] = 0.125;
  json["rope_parameters"] = {{"main", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                             {"compress",
                              {{"rope_type", "yarn"},
                               {"rope_theta", 160000.0},
                               {"factor", 16},
                               {"beta_fast", 32},
                               {"beta_slow", 1},
                               {"attention_factor", 1.0},
                               {"original_max_position_embeddings", 65536}}}};
  const auto config = Parse(json);
  ASSERT_TRUE(config) << config.error().message;
  ModelConfig expected = *NamedShape("nano", WeightLayout::kBf16);
  expected.has_mtp = false;  // transformers does not write it
  EXPECT_EQ(FormatModelConfig(*config), FormatModelConfig(expected));

  json["layer_types"][1] = "full_attention";
  EXPECT_THAT(MessageOf(json), HasSubstr("layer_types[1] is \"full_attention\", expected"));
  json["layer_types"][1] = "sliding_attention";
  json["mlp_layer_types"][2] = "hash_moe";
  EXPECT_THAT(MessageOf(json), HasSubstr("hash_moe for the first layers"));
  json["mlp_layer_types"][2] = "moe";
  json["compress_rates"]["compressed_sparse_attention"] = 2;
  EXPECT_THAT(MessageOf(json), HasSubstr("compressed_sparse_attention is 2, expected 4"));
}

TEST(ModelConfig, ReadsLayouts) {
  EXPECT_TRUE(Parse(NanoJson())->experts_fp4);
  EXPECT_FALSE(Parse(With("expert_dtype", "fp8"))->experts_fp4);
  Json base = NanoJson();
  base.erase("expert_dtype");
  EXPECT_EQ(Parse(base)->layout, WeightLayout::kNative);
  EXPECT_FALSE(Parse(base)->experts_fp4);
  EXPECT_EQ(Parse(With("quantization_config", nullptr))->layout, WeightLayout::kBf16);
  EXPECT_TRUE(Parse(NanoJson())->quantised_kv());
}

TEST(ModelConfig, TakesRatioOneForNone) {
  EXPECT_THAT(Parse(With("compress_ratios", {0, 1, 4, 128, 4, 0}))->compress_ratios,
              testing::ElementsAre(0, 0, 4, 128, 4));
}

TEST(ModelConfig, CountsDsparkStagesByTheRatios) {
  Json json = NanoJson();
  json["num_nextn_predict_layers"] = 1;
  json["compress_ratios"] = {0, 4, 128, 4, 128, 0, 0, 0};
  json["dspark_block_size"] = 4;
  json["dspark_noise_token_id"] = 2;
  json["dspark_target_layer_ids"] = {1, 3, 4};
  json["dspark_markov_rank"] = 32;
  const auto config = Parse(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->dspark->num_stages, 3);
  EXPECT_FALSE(config->has_mtp);

  const auto broken = [&](const std::string& name, const Json& value) {
    Json other = json;
    other[name] = value;
    return MessageOf(other);
  };
  EXPECT_THAT(broken("compress_ratios", {0, 4, 128, 4, 128}),
              HasSubstr("expected one for each DSpark"));
  EXPECT_THAT(broken("compress_ratios", {0, 4, 128, 4, 128, 4}),
              HasSubstr("compress_ratios[5] gives ratio 4"));
  EXPECT_THAT(broken("n_mtp_layers", 2), HasSubstr("n_mtp_layers is 2, but compress_ratios has 3"));
  EXPECT_THAT(broken("dspark_target_layer_ids", {1, 5}),
              HasSubstr("dspark_target_layer_ids[1] is 5"));
  EXPECT_THAT(broken("dspark_target_layer_ids", {3, 1}), HasSubstr("expected ascending"));
  EXPECT_THAT(broken("dspark_target_layer_ids", Json::array()), HasSubstr("expected ascending"));
  EXPECT_THAT(broken("dspark_noise_token_id", 512), HasSubstr("dspark_noise_token_id is 512"));
  EXPECT_THAT(broken("dspark_markov_rank", 0), HasSubstr("dspark_markov_rank is 0"));
  json.erase("dspark_markov_rank");
  EXPECT_THAT(MessageOf(json), HasSubstr("dspark_markov_rank is missing"));
}

TEST(ModelConfig, NamesAMissingNegativeAbsurdOrMistypedField) {
  const std::vector<const char*> numbers = {"vocab_size",
                                            "hidden_size",
                                            "num_hidden_layers",
                                            "num_hash_layers",
                                            "num_attention_heads",
                                            "num_key_value_heads",
                                            "head_dim",
                                            "qk_rope_head_dim",
                                            "q_lora_rank",
                                            "o_lora_rank",
                                            "o_groups",
                                            "sliding_window",
                                            "index_n_heads",
                                            "index_head_dim",
                                            "index_topk",
                                            "n_routed_experts",
                                            "n_shared_experts",
                                            "num_experts_per_tok",
                                            "moe_intermediate_size",
                                            "routed_scaling_factor",
                                            "swiglu_limit",
                                            "hc_mult",
                                            "hc_sinkhorn_iters",
                                            "hc_eps",
                                            "rms_norm_eps",
                                            "rope_theta",
                                            "compress_rope_theta",
                                            "max_position_embeddings",
                                            "bos_token_id",
                                            "eos_token_id"};
  for (const std::string name : numbers) {
    Json json = NanoJson();
    ASSERT_TRUE(json.contains(name)) << name;
    json.erase(name);
    EXPECT_THAT(MessageOf(json), HasSubstr("c: " + name + " is missing, expected")) << name;
    for (const Json& value : std::vector<Json>{-1, 1e300, 18446744073709551615U, "12", nullptr,
                                               Json::array({1}), true}) {
      EXPECT_THAT(MessageOf(With(name, value)), HasSubstr("c: " + name + " is ")) << value;
      EXPECT_THAT(MessageOf(With(name, value)), HasSubstr("expected")) << value;
    }
  }
  for (const std::string name :
       {"model_type", "scoring_func", "norm_topk_prob", "compress_ratios", "rope_scaling"}) {
    Json json = NanoJson();
    json.erase(name);
    EXPECT_THAT(MessageOf(json), HasSubstr("c: " + name + " is missing, expected"));
    EXPECT_THAT(MessageOf(With(name, 7)), HasSubstr("c: " + name + " is 7, expected"));
  }
  for (const std::string name :
       {"type", "factor", "beta_fast", "beta_slow", "original_max_position_embeddings"}) {
    Json json = NanoJson();
    json["rope_scaling"][name] = -1;
    EXPECT_THAT(MessageOf(json), HasSubstr("c: rope_scaling: " + name + " is -1, expected"));
    json["rope_scaling"].erase(name);
    EXPECT_THAT(MessageOf(json), HasSubstr("c: rope_scaling: " + name + " is missing"));
  }
}

struct Inconsistent {
  const char* name;
  Json value;
  const char* message;
};

TEST(ModelConfig, NamesWhatDoesNotFit) {
  const std::vector<Inconsistent> cases = {
      {"model_type", "deepseek_v3", "model_type is \"deepseek_v3\", expected \"deepseek_v4\""},
      {"scoring_func", "sigmoid", "scoring_func is \"sigmoid\""},
      {"topk_method", "greedy", "topk_method is \"greedy\", expected \"noaux_tc\""},
      {"norm_topk_prob", false, "norm_topk_prob is false"},
      {"tie_word_embeddings", true, "tie_word_embeddings is true"},
      {"attention_bias", true, "attention_bias is true"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\""},
      {"n_shared_experts", 2, "n_shared_experts is 2, expected 1"},
      {"num_key_value_heads", 2, "num_key_value_heads is 2, expected 1"},
      {"compress_ratios",
       {0, 4, 128, 4},
       "compress_ratios has 4 entries, expected num_hidden_layers = 5"},
      {"compress_ratios", std::vector<int>(22), "compress_ratios has 22 entries"},
      {"compress_ratios", {0, 4, 128, 8, 0}, "compress_ratios[3] is 8, expected 0, 1, 4 or 128"},
      {"compress_ratios", {0, 4, -128, 4, 0}, "compress_ratios[2] is -128"},
      {"compress_ratios", {0, 4, "4", 4, 0}, "compress_ratios[2] is \"4\""},
      {"compress_ratios", {0, 2, 128, 4, 0}, "DeepSeek-V4.1 is not supported"},
      {"engram_layers", {1, 14}, "engram_layers marks a DeepSeek-V4.1"},
      {"vision_config", Json::object(), "images are not supported"},
      {"num_hash_layers", 6, "num_hash_layers is 6, expected an integer from 0 to 5"},
      {"head_dim", 500, "head_dim - qk_rope_head_dim is 436, expected a multiple of 64"},
      {"head_dim", 32, "qk_rope_head_dim is 64, expected at most head_dim = 32"},
      {"qk_rope_head_dim", 63, "qk_rope_head_dim is 63, expected a multiple of 2"},
      {"index_head_dim", 96, "index_head_dim is 96, expected a power of two"},
      {"index_head_dim", 16, "qk_rope_head_dim is 64, expected at most index_head_dim = 16"},
      {"o_groups", 3, "num_attention_heads is 4, expected a multiple of o_groups = 3"},
      {"num_experts_per_tok", 17,
       "num_experts_per_tok is 17, expected at most n_routed_experts = 16"},
      {"hidden_size", 320, "hidden_size is 320, expected a multiple of 128"},
      {"q_lora_rank", 96, "q_lora_rank is 96, expected a multiple of 128"},
      {"o_lora_rank", 32, "o_groups * o_lora_rank is 64, expected a multiple of 128"},
      {"moe_intermediate_size", 64, "moe_intermediate_size is 64, expected a multiple of 128"},
      {"sliding_window", 129, "sliding_window is 129, expected an integer from 1 to 128"},
      {"bos_token_id", 512, "bos_token_id is 512, expected at most vocab_size - 1 = 511"},
      {"eos_token_id", 512, "eos_token_id is 512"},
      {"num_nextn_predict_layers", 2, "num_nextn_predict_layers is 2, expected 0 or 1"},
      {"expert_dtype", "int4", "expert_dtype is \"int4\", expected \"fp4\" or \"fp8\""},
      {"quantization_config", {{"quant_method", "awq"}}, "quant_method is \"awq\", expected"},
      {"quantization_config", {{"quant_method", "fp8"}}, "quantization_config: fmt is missing"},
      {"quantization_config", "fp8", "quantization_config is \"fp8\", expected an object"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(MessageOf(With(c.name, c.value)), HasSubstr(c.message)) << c.name;
  }
  Json huge = With("n_routed_experts", 16384);
  huge["hidden_size"] = 1 << 20;
  huge["moe_intermediate_size"] = 1 << 20;
  EXPECT_THAT(MessageOf(huge), HasSubstr("parameters, expected at most"));
  Json slow = NanoJson();
  slow["rope_scaling"]["beta_fast"] = 1;
  EXPECT_THAT(MessageOf(slow), HasSubstr("beta_fast is 1, expected above beta_slow = 1"));
}

TEST(ModelConfig, NamesAnUnknownQuantisation) {
  const Json w8a8 = *ParseJson(FormatModelConfig(*NamedShape("nano", WeightLayout::kW8A8)), "nano");
  ASSERT_TRUE(Parse(w8a8));
  const auto broken = [&](const Json& value, const char* pointer) {
    Json json = w8a8;
    json["quantization_config"][Json::json_pointer(pointer)] = value;
    return MessageOf(json);
  };
  EXPECT_THAT(broken("pack-quantized", "/format"), HasSubstr("format is \"pack-quantized\""));
  EXPECT_THAT(broken(4, "/config_groups/group_0/weights/num_bits"),
              HasSubstr("config_groups: group_0: weights: num_bits is 4, expected 8"));
  EXPECT_THAT(broken("group", "/config_groups/group_0/weights/strategy"), HasSubstr("strategy"));
  EXPECT_THAT(broken("tensor", "/config_groups/group_0/input_activations/strategy"),
              HasSubstr("expected \"token\""));
  EXPECT_THAT(broken(false, "/config_groups/group_0/input_activations/dynamic"),
              HasSubstr("dynamic is false"));
  EXPECT_THAT(broken({{"num_bits", 8}}, "/kv_cache_scheme"), HasSubstr("kv_cache_scheme is"));
  EXPECT_THAT(broken(4, "/li_cache_scheme/num_bits"), HasSubstr("num_bits is 4"));
  EXPECT_THAT(broken(Json::object(), "/config_groups"), HasSubstr("config_groups is empty"));

  for (const char* name : {"fmt", "scale_fmt", "weight_block_size", "activation_scheme"}) {
    Json json = NanoJson();
    json["quantization_config"][name] = "x";
    EXPECT_THAT(MessageOf(json),
                HasSubstr(fmt::format("c: quantization_config: {} is \"x\", expected", name)));
  }
}

TEST(ModelConfig, RefusesTextThatIsNoObject) {
  EXPECT_THAT(ParseModelConfig("[1]", "c").error().message, HasSubstr("expected an object"));
  EXPECT_THAT(ParseModelConfig("{", "c").error().message, HasSubstr("JSON damaged"));
  EXPECT_EQ(LoadModelConfig("/nonexistent").error().code, StatusCode::kNotFound);
}

TEST(ModelConfig, ShowsHostileValuesOnOneShortLine) {
  for (const Json& value :
       std::vector<Json>{std::string(100000, 'x'), "a\nb", Json(std::vector<int>(1000))}) {
    const std::string message = MessageOf(With("model_type", value));
    EXPECT_LT(message.size(), 200U);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace cachalot
