#include "checkpoint/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "checkpoint/editable_checkpoint.h"
#include "checkpoint/footprint.h"
#include "checkpoint/tensor_table.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

std::vector<float> ElementsOf(const TensorSpec& spec) {
  std::vector<float> elements;
  if (auto* const* matrix = std::get_if<Matrix*>(&spec.slot)) {
    for (int64_t i = 0; i < spec.shape.num_elements(); ++i) {
      elements.push_back(ElementOf(**matrix, i / spec.shape[1], i % spec.shape[1]));
    }
    return elements;
  }
  const Tensor& tensor = *std::get<Tensor*>(spec.slot);
  EXPECT_EQ(tensor.shape, spec.shape) << spec.name;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    elements.push_back(tensor.dtype == DType::kI64 ? static_cast<float>(tensor.As<int64_t>()[i])
                                                   : tensor.As<float>()[i]);
  }
  return elements;
}

using Values = std::map<std::string, std::vector<float>>;

// Every element of a checkpoint as it loads.
Values ValuesOf(const std::string& folder, const ModelConfig& config) {
  auto weights = Weights::Load(folder, config);
  EXPECT_TRUE(weights) << weights.error().message;
  Values values;
  if (weights) {
    for (const auto& spec : ListTensors(config, *weights)) {
      values[spec.name] = ElementsOf(spec);
    }
  }
  return values;
}

std::string MessageOf(const std::string& folder, const ModelConfig& config) {
  const auto weights = Weights::Load(folder, config);
  return weights ? "no error" : weights.error().message;
}

// nano in one layout, its tensors editable; Write puts them into a second folder.
class Edit {
 public:
  explicit Edit(const std::string& name, const ModelConfig& c)
      : config(c),
        original(SynthFolder(name, c)),
        tensors(ReadTensors(original)),
        folder_(FreshFolder(name + "_edited")) {}

  EditableTensor& operator[](const std::string& name) { return Find(tensors, name); }
  const std::string& Write() const {
    WriteTensors(folder_ + "/model.safetensors", tensors);
    return folder_;
  }
  std::string Message() const { return MessageOf(Write(), config); }

  ModelConfig config;
  std::string original;
  std::vector<EditableTensor> tensors;

 private:
  std::string folder_;
};

ModelConfig Nano(WeightLayout layout) { return *NamedShape("nano", layout); }

std::string BytesOfFloats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// bf16 bytes widened to those of float32.
std::string Widened(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(Bf16));
  for (size_t i = 0; i < values.size(); ++i) {
    Bf16 value;
    std::memcpy(&value, bytes.data() + i * sizeof(Bf16), sizeof(Bf16));
    values[i] = Bf16ToFloat(value);
  }
  return BytesOfFloats(values);
}

TEST(Weights, LoadsEveryLayoutWithItsFigures) {
  ModelConfig base = Nano(WeightLayout::kNative);
  base.experts_fp4 = false;
  for (const auto& config :
       {Nano(WeightLayout::kNative), base, Nano(WeightLayout::kBf16), Nano(WeightLayout::kW8A8),
        NanoDspark(WeightLayout::kNative), NanoDspark(WeightLayout::kW8A8)}) {
    const std::string folder = SynthFolder("layouts", config);
    const auto read = LoadModelConfig(folder);
    ASSERT_TRUE(read) << read.error().message;
    const auto weights = Weights::Load(folder, *read);
    ASSERT_TRUE(weights) << weights.error().message;
    const auto expected = CountWeights(config);
    ASSERT_EQ(weights->components().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(weights->components()[i].component, expected[i].component);
      EXPECT_EQ(weights->components()[i].parameters, expected[i].parameters);
      EXPECT_EQ(weights->components()[i].bytes, expected[i].bytes) << expected[i].component;
    }
    EXPECT_GT(weights->file_bytes(), TotalOf(expected).bytes);
    EXPECT_EQ(weights->layers.size(), 5U);
    EXPECT_EQ(weights->layers[1].attn.indexer->compressor.ratio, 4);
    EXPECT_EQ(weights->layers[2].attn.compressor->ape.shape, Shape({128, 512}));
    EXPECT_TRUE(weights->layers[0].ffn.bias.empty());
    EXPECT_TRUE(weights->layers[1].ffn.tid2eid.empty());
    EXPECT_EQ(weights->mtp.has_value(), config.has_mtp);
    EXPECT_EQ(weights->dspark.has_value(), config.dspark.has_value());
  }
}

TEST(Weights, LoadsTheShippedModel) {
  const std::string folder = CACHALOT_SOURCE_DIR "/models/calf";
  if (!std::filesystem::exists(folder + "/model.safetensors")) {
    GTEST_SKIP() << "needs " << folder;
  }
  const auto config = LoadModelConfig(folder);
  ASSERT_TRUE(config) << config.error().message;
  const auto weights = Weights::Load(folder, *config);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(weights->layers.size(), 6U);
  EXPECT_EQ(weights->layers[2].ffn.experts[3].w1.format, MatrixFormat::kFp4Block);
  EXPECT_TRUE(weights->mtp);
}

TEST(Weights, StaysTheSameAndInPlaceWhenBroughtIn) {
  const std::string folder = CACHALOT_SOURCE_DIR "/models/calf";
  const auto config = LoadModelConfig(folder);
  ASSERT_TRUE(config);
  for (const auto residence : {Weights::Residence::kMapped, Weights::Residence::kCopied}) {
    auto weights = Weights::Load(folder, *config);
    ASSERT_TRUE(weights);
    const Matrix before = weights->layers[2].ffn.experts[3].w1;
    const std::string bytes(reinterpret_cast<const char*>(before.values.raw()),
                            static_cast<size_t>(before.values.bytes()));
    std::vector<int64_t> dones;
    const auto status = weights->BringIn(
        residence,
        [](int64_t rows, const auto& visit) {
          std::thread half([&] { visit(0, rows / 2); });
          visit(rows / 2, rows);
          half.join();
        },
        [&](int64_t done, int64_t total) {
          EXPECT_EQ(total, weights->file_bytes());
          dones.push_back(done);
        });
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_TRUE(std::is_sorted(dones.begin(), dones.end()));
    ASSERT_FALSE(dones.empty());
    EXPECT_EQ(dones.back(), weights->file_bytes());
    const Matrix after = weights->layers[2].ffn.experts[3].w1;
    EXPECT_EQ(after.values.data, before.values.data);
    EXPECT_TRUE(bytes ==
                std::string(reinterpret_cast<const char*>(after.values.raw()), bytes.size()));
  }
}

TEST(Weights, ReadsTheBytesOfTheFile) {
  Edit edit("bytes", Nano(WeightLayout::kNative));
  const auto weights = Weights::Load(edit.original, edit.config);
  ASSERT_TRUE(weights) << weights.error().message;
  const auto& layer = weights->layers[1];
  const auto same = [&](const Tensor& tensor, const std::string& name) {
    const std::string& bytes = edit[name].bytes;
    return static_cast<size_t>(tensor.bytes()) == bytes.size() &&
           std::memcmp(tensor.data, bytes.data(), bytes.size()) == 0;
  };
  EXPECT_TRUE(same(layer.attn.wo_a.values, "layers.1.attn.wo_a.weight"));
  EXPECT_TRUE(same(layer.attn.wo_a.scales, "layers.1.attn.wo_a.scale"));
  EXPECT_TRUE(same(layer.ffn.experts[7].w2.values, "layers.1.ffn.experts.7.w2.weight"));
  EXPECT_TRUE(same(layer.ffn.experts[7].w2.scales, "layers.1.ffn.experts.7.w2.scale"));
  EXPECT_TRUE(same(layer.hc_ffn.base, "layers.1.hc_ffn_base"));
  EXPECT_TRUE(same(weights->mtp->h_proj.values, "mtp.0.h_proj.weight"));
  EXPECT_EQ(BytesOfFloats({layer.attn_norm.As<float>(), layer.attn_norm.As<float>() + 256}),
            Widened(edit["layers.1.attn_norm.weight"].bytes));
}

// Of the same size, and of no use to the model.
std::string_view WrongDtype(std::string_view dtype) {
  switch (BitsOfSafetensorsDtype(dtype)) {
    case 8:
      return "BOOL";
    case 16:
      return "F16";
    case 32:
      return "U32";
    default:
      return "U64";
  }
}

// One tensor of each pattern ("layers.#.attn.wq_a.scale"), damaged in a real file of that layout.
class Damaged : public testing::TestWithParam<WeightLayout> {};

TEST_P(Damaged, NamesTheTensor) {
  Edit edit("damaged",
            GetParam() == WeightLayout::kNative ? NanoDspark(GetParam()) : Nano(GetParam()));
  std::set<std::string> seen;
  const std::vector<SafetensorsEntry> entries = EntriesOf(edit.tensors);
  const std::string path = FreshFolder("damaged_sparse") + "/model.safetensors";
  const std::string folder = std::filesystem::path(path).parent_path();
  // Only the header is real, the data are a hole in the file.
  const auto load = [&](const std::vector<SafetensorsEntry>& changed, int64_t data_bytes) {
    const std::string header = FormatSafetensorsHeader(changed);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << header;
    std::filesystem::resize_file(path, header.size() + static_cast<uintmax_t>(data_bytes));
    return MessageOf(folder, edit.config);
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    std::string pattern = entries[i].name;
    std::replace_if(
        pattern.begin(), pattern.end(), [](char c) { return c >= '0' && c <= '9'; }, '#');
    if (!seen.insert(pattern).second) {
      continue;
    }
    const std::string name = entries[i].name;
    const int64_t all = entries.back().end;
    const int64_t size = entries[i].end - entries[i].begin;
    auto changed = entries;
    changed[i].name += "_renamed";
    EXPECT_THAT(load(changed, all), HasSubstr("tensor " + name));
    changed = entries;
    changed[i].dtype = WrongDtype(entries[i].dtype);
    EXPECT_THAT(load(changed, all),
                HasSubstr(fmt::format("\"{}\" has dtype {}", name, changed[i].dtype)));
    changed = entries;
    changed[i].shape.insert(changed[i].shape.begin(), 1);
    EXPECT_THAT(load(changed, all), HasSubstr(fmt::format("\"{}\" has shape [1, ", name)));
    EXPECT_THAT(load(entries, entries[i].end - 1),
                HasSubstr(fmt::format("\"{}\" ends at byte", name)));
    changed = entries;
    changed.erase(changed.begin() + static_cast<ptrdiff_t>(i));
    for (size_t j = i; j < changed.size(); ++j) {
      changed[j].begin -= size;
      changed[j].end -= size;
    }
    EXPECT_THAT(load(changed, all - size), HasSubstr("tensor " + name));
  }
  EXPECT_GT(seen.size(), 40U);
}

INSTANTIATE_TEST_SUITE_P(Nano, Damaged,
                         testing::Values(WeightLayout::kNative, WeightLayout::kBf16,
                                         WeightLayout::kW8A8));

TEST(Weights, RefusesScalesThatAreNotNumbers) {
  Edit native("scales", Nano(WeightLayout::kNative));
  auto& fp4 = native["layers.2.ffn.experts.3.w1.scale"];
  fp4.bytes[8 * 5 + 6] = static_cast<char>(0xFF);
  EXPECT_THAT(native.Message(),
              HasSubstr("tensor layers.2.ffn.experts.3.w1.scale has NaN at [5, 6], expected"));

  Edit w8a8("scales", Nano(WeightLayout::kW8A8));
  auto& int8 = w8a8["layers.2.attn.wo_b.scale"];
  const std::string good = int8.bytes;
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    int8.bytes = good;
    std::memcpy(int8.bytes.data() + 4 * 9, &bad, 4);
    EXPECT_THAT(
        w8a8.Message(),
        HasSubstr(fmt::format("tensor layers.2.attn.wo_b.scale has {} at [9, 0], expected", bad)));
  }
}

TEST(Weights, RefusesExpertIdsOutsideTheModel) {
  Edit edit("ids", Nano(WeightLayout::kNative));
  auto& table = edit["layers.0.ffn.gate.tid2eid"];
  for (const int64_t bad : {int64_t{-1}, int64_t{16}, std::numeric_limits<int64_t>::min()}) {
    std::memcpy(table.bytes.data() + 8 * (4 * 500 + 3), &bad, 8);
    EXPECT_THAT(edit.Message(), HasSubstr(fmt::format(
                                    "tensor layers.0.ffn.gate.tid2eid has {} at [500, 3], expected "
                                    "expert ids from 0 to 15",
                                    bad)));
  }
}

TEST(Weights, LoadsAtAnyAlignment) {
  for (const auto layout : {WeightLayout::kNative, WeightLayout::kW8A8}) {
    Edit edit("aligned", Nano(layout));
    const Values expected = ValuesOf(edit.original, edit.config);
    for (const int shift : {1, 2, 4}) {
      const std::string folder = FreshFolder("shifted");
      WriteTensors(folder + "/model.safetensors", edit.tensors, shift);
      EXPECT_EQ(ValuesOf(folder, edit.config), expected) << shift;
    }
  }
}

TEST(Weights, LoadsHarmlessVariantsOfStorage) {
  Edit edit("variants", Nano(WeightLayout::kNative));
  const Values expected = ValuesOf(edit.original, edit.config);
  edit["layers.1.attn.wq_a.scale"].dtype = "U8";
  edit["layers.1.attn.wq_a.scale"].name = "model.layers.1.self_attn.q_a_proj.weight_scale_inv";
  for (const char* name :
       {"layers.1.attn_norm.weight", "embed.weight", "layers.1.ffn.gate.weight"}) {
    edit[name].dtype = "F32";
    edit[name].bytes = Widened(edit[name].bytes);
  }
  auto& table = edit["layers.0.ffn.gate.tid2eid"];
  std::string narrow;
  for (size_t i = 0; i < table.bytes.size(); i += 8) {
    narrow += table.bytes.substr(i, 4);
  }
  table.dtype = "I32";
  table.bytes = narrow;
  EXPECT_EQ(ValuesOf(edit.Write(), edit.config), expected);
}

TEST(Weights, LoadsPartlyQuantisedInt8) {
  Edit edit("partly", Nano(WeightLayout::kW8A8));
  const Values expected = ValuesOf(edit.original, edit.config);
  // One scale named and shaped otherwise, one in bf16, one matrix not quantised at all.
  auto& named = edit["layers.1.attn.wo_b.scale"];
  named.name = "layers.1.attn.wo_b.weight_scale";
  named.shape = {256};
  auto& scale = edit["layers.1.attn.indexer.wq_b.scale"];
  std::vector<float> rounded;
  std::string bf16;
  for (size_t i = 0; i < scale.bytes.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, scale.bytes.data() + i, 4);
    const Bf16 code = FloatToBf16(value);
    bf16.append(reinterpret_cast<const char*>(&code), 2);
  }
  scale.dtype = "BF16";
  scale.bytes = bf16;
  auto& plain = edit["layers.2.attn.wq_b.weight"];
  plain.dtype = "BF16";
  plain.bytes = std::string(plain.bytes.size() * 2, '\0');
  std::erase_if(edit.tensors, [](const auto& t) { return t.name == "layers.2.attn.wq_b.scale"; });
  Values found = ValuesOf(edit.Write(), edit.config);
  EXPECT_EQ(found["layers.1.attn.wo_b.weight"], expected.at("layers.1.attn.wo_b.weight"));
  EXPECT_EQ(found["layers.2.attn.wq_b.weight"], std::vector<float>(2048 * 128, 0));
  const auto& indexer = found["layers.1.attn.indexer.wq_b.weight"];
  const auto& exact = expected.at("layers.1.attn.indexer.wq_b.weight");
  for (size_t i = 0; i < exact.size(); i += 97) {
    EXPECT_NEAR(indexer[i], exact[i], std::abs(exact[i]) / 256);
  }
}

// The published name in the spelling of transformers.
std::string TransformersName(std::string name) {
  const std::pair<std::string, std::string> replacements[] = {
      {".hc_attn_", ".attn_hc."},
      {".hc_ffn_", ".ffn_hc."},
      {"hc_head_", "hc_head.hc_"},
      {".attn.indexer.compressor.norm", ".self_attn.compressor.indexer.kv_norm"},
      {".attn.indexer.compressor.wkv", ".self_attn.compressor.indexer.kv_proj"},
      {".attn.indexer.compressor.wgate", ".self_attn.compressor.indexer.gate_proj"},
      {".attn.indexer.compressor.ape", ".self_attn.compressor.indexer.position_bias"},
      {".attn.indexer.wq_b", ".self_attn.compressor.indexer.q_b_proj"},
      {".attn.indexer.", ".self_attn.compressor.indexer."},
      {".attn.compressor.norm", ".self_attn.compressor.kv_norm"},
      {".attn.compressor.wkv", ".self_attn.compressor.kv_proj"},
      {".attn.compressor.wgate", ".self_attn.compressor.gate_proj"},
      {".attn.compressor.ape", ".self_attn.compressor.position_bias"},
      {".attn.attn_sink", ".self_attn.sinks"},
      {".attn.wq_a", ".self_attn.q_a_proj"},
      {".attn.q_norm", ".self_attn.q_a_norm"},
      {".attn.wq_b", ".self_attn.q_b_proj"},
      {".attn.wkv", ".self_attn.kv_proj"},
      {".attn.wo_a", ".self_attn.o_a_proj"},
      {".attn.wo_b", ".self_attn.o_b_proj"},
      {".attn.kv_norm", ".self_attn.kv_norm"},
      {".attn_norm.", ".input_layernorm."},
      {".ffn_norm.", ".post_attention_layernorm."},
      {".gate.bias", ".gate.e_score_correction_bias"},
      {".ffn.", ".mlp."},
      {".w1.", ".gate_proj."},
      {".w2.", ".down_proj."},
      {".w3.", ".up_proj."}};
  for (const auto& [published, given] : replacements) {
    const size_t at = name.find(published);
    if (at != std::string::npos) {
      name.replace(at, published.size(), given);
    }
  }
  return name == "head.weight"    ? "lm_head.weight"
         : name == "embed.weight" ? "model.embed_tokens.weight"
                                  : "model." + name;
}

TEST(Weights, LoadsTheNamesAndFusedExpertsOfTransformers) {
  ModelConfig config = Nano(WeightLayout::kBf16);
  config.has_mtp = false;
  Edit edit("transformers", config);
  const Values expected = ValuesOf(edit.original, config);
  const auto expert_bytes = [&](int layer, int e, const char* weight) {
    return edit[fmt::format("layers.{}.ffn.experts.{}.{}.weight", layer, e, weight)].bytes;
  };
  std::vector<EditableTensor> fused;
  for (int layer = 0; layer < 5; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.experts.", layer);
    EditableTensor up{prefix + "gate_up_proj", "BF16", {16, 256, 256}, ""};
    EditableTensor down{prefix + "down_proj", "BF16", {16, 256, 128}, ""};
    for (int e = 0; e < 16; ++e) {
      up.bytes += expert_bytes(layer, e, "w1") + expert_bytes(layer, e, "w3");
      down.bytes += expert_bytes(layer, e, "w2");
    }
    fused.push_back(std::move(up));
    fused.push_back(std::move(down));
  }
  std::erase_if(edit.tensors,
                [](const auto& t) { return t.name.find(".experts.") != std::string::npos; });
  for (auto& tensor : edit.tensors) {
    tensor.name = TransformersName(tensor.name);
  }
  edit.tensors.insert(edit.tensors.end(), fused.begin(), fused.end());
  EXPECT_EQ(ValuesOf(edit.Write(), config), expected);

  auto& up = edit["model.layers.3.mlp.experts.gate_up_proj"];
  up.shape = {16, 128, 512};
  EXPECT_THAT(edit.Message(), HasSubstr("(\"layers.3.ffn.experts.gate_up_proj\") has shape "
                                        "[16, 128, 512], expected [16, 256, 256]"));
  up.shape = {16, 256, 256};
  up.dtype = "F16";
  EXPECT_THAT(edit.Message(), HasSubstr("has dtype F16, expected BF16"));
}

TEST(Weights, SharesCopiesOfEmbedAndHead) {
  Edit edit("copies", Nano(WeightLayout::kNative));
  EditableTensor embed = edit["embed.weight"];
  embed.name = "mtp.0.emb.tok_emb.weight";
  EditableTensor head = edit["head.weight"];
  head.name = "mtp.0.head.weight";
  edit.tensors.push_back(embed);
  edit.tensors.push_back(head);
  EXPECT_EQ(edit.Message(), "no error");
  edit.tensors.back().bytes[77] ^= 1;
  EXPECT_THAT(edit.Message(), HasSubstr("mtp.0.head.weight differs from head.weight"));
  edit.tensors.back().shape = {256, 512};
  EXPECT_THAT(edit.Message(), HasSubstr("expected a copy of head.weight, BF16 [512, 256]"));
  edit.tensors.back().name = "mtp.1.head.weight";
  EXPECT_THAT(edit.Message(), HasSubstr("\"mtp.1.head.weight\" is unexpected"));
}

TEST(Weights, LoadsTheDraftOnlyWhereTheConfigHasIt) {
  Edit edit("draft", Nano(WeightLayout::kNative));
  edit.config.has_mtp = false;
  EXPECT_THAT(edit.Message(), HasSubstr("is unexpected"));
  EXPECT_THAT(edit.Message(), HasSubstr("mtp.0."));
}

}  // namespace
}  // namespace cachalot
