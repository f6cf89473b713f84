#include "checkpoint/config_quantisation.h"

#include <string>

namespace cachalot {
namespace {

void ReadBlockFp8(ConfigFields fields) {
  fields.Require("fmt", "e4m3");
  fields.Require("scale_fmt", "ue8m0");
  fields.Require("weight_block_size", Json::array({128, 128}));
  fields.RequireIfPresent("activation_scheme", "dynamic");
}

void ReadInt8Scheme(ConfigFields scheme, const char* strategy, bool dynamic) {
  scheme.Require("num_bits", 8);
  scheme.Require("type", "int");
  scheme.Require("strategy", strategy);
  scheme.RequireIfPresent("symmetric", true);
  if (dynamic) {
    scheme.Require("dynamic", true);
  } else {
    scheme.RequireIfPresent("dynamic", false);
  }
}

void ReadCompressedTensors(ConfigFields fields) {
  fields.Require("format", "int-quantized");
  fields.RequireIfPresent("kv_cache_scheme", nullptr);
  if (fields.Has("li_cache_scheme")) {  // the index keys
    ConfigFields scheme = fields.Object("li_cache_scheme");
    scheme.Require("type", "int");
    scheme.Require("num_bits", 8);
  }
  ConfigFields groups = fields.Object("config_groups");
  if (groups.Names().empty()) {
    fields.Fail(StatusCode::kInvalidArgument, "config_groups is empty, expected a group");
  }
  for (const auto& name : groups.Names()) {
    ConfigFields group = groups.Object(name);
    ReadInt8Scheme(group.Object("weights"), "channel", false);
    ReadInt8Scheme(group.Object("input_activations"), "token", true);
  }
}

}  // namespace

void ReadQuantisation(ConfigFields& fields, ModelConfig& config) {
  const std::string expert_dtype =
      fields.Has("expert_dtype") ? fields.OneOf("expert_dtype", {"fp4", "fp8"}) : "fp8";
  if (!fields.Has("quantization_config")) {
    config.layout = WeightLayout::kBf16;
    return;
  }
  ConfigFields quantisation = fields.Object("quantization_config");
  const std::string method =
      quantisation.OneOf("quant_method", {"fp8", "compressed-tensors"}, StatusCode::kUnsupported);
  if (method == "fp8") {
    config.layout = WeightLayout::kNative;
    config.experts_fp4 = expert_dtype == "fp4";
    ReadBlockFp8(quantisation);
  } else if (method == "compressed-tensors") {
    config.layout = WeightLayout::kW8A8;
    ReadCompressedTensors(quantisation);
  }
}

}  // namespace cachalot
