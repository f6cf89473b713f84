#include "checkpoint/footprint.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/named_shapes.h"
#include "checkpoint/tensor_table.h"

namespace cachalot {
namespace {

struct Published {
  const char* component;
  int64_t flash_parameters;
  int64_t flash_bytes;
  int64_t pro_parameters;
  int64_t pro_bytes;
};

// Of the published checkpoints, 284 and 1,573 billion parameters.
constexpr Published kPublished[] = {
    {"attention", 4'599'054'336, 4'599'335'040, 18'293'456'896, 18'294'573'440},
    {"compressors", 261'443'584, 525'680'640, 670'097'408, 1'344'503'808},
    {"indexers", 225'727'488, 275'347'968, 501'381'120, 625'359'360},
    {"hyper-connections", 33'884'439, 135'537'756, 84'069'603, 336'278'412},
    {"gates", 45'099'008, 90'218'496, 167'925'504, 335'895'552},
    {"hash tables", 0, 18'616'320, 0, 18'616'320},
    {"shared experts", 1'082'130'432, 1'082'196'480, 4'029'677'568, 4'029'923'520},
    {"routed experts", 277'025'390'592, 147'169'738'752, 1'547'396'186'112, 822'054'223'872},
    {"embed", 529'530'880, 1'059'061'760, 926'679'040, 1'853'358'080},
    {"head", 529'530'880, 1'059'061'760, 926'679'040, 1'853'358'080},
    {"norms and sinks", 448'832, 903'168, 1'049'472, 2'114'560},
    {"mtp", 6'610'048'891, 3'593'787'756, 25'840'145'979, 13'956'587'692},
};

std::map<std::string, ComponentSize> ByName(const ModelConfig& config) {
  std::map<std::string, ComponentSize> sizes;
  for (const auto& size : CountWeights(config)) {
    sizes[size.component] = size;
  }
  return sizes;
}

TEST(Footprint, CountsThePublishedCheckpointsToTheByte) {
  const ModelConfig flash = *NamedShape("flash", WeightLayout::kNative);
  const ModelConfig pro = *NamedShape("pro", WeightLayout::kNative);
  const auto of_flash = ByName(flash);
  const auto of_pro = ByName(pro);
  EXPECT_EQ(of_flash.size(), std::size(kPublished));
  for (const auto& row : kPublished) {
    EXPECT_EQ(of_flash.at(row.component).parameters, row.flash_parameters) << row.component;
    EXPECT_EQ(of_flash.at(row.component).bytes, row.flash_bytes) << row.component;
    EXPECT_EQ(of_pro.at(row.component).parameters, row.pro_parameters) << row.component;
    EXPECT_EQ(of_pro.at(row.component).bytes, row.pro_bytes) << row.component;
  }
  const WeightTotals flash_total = TotalOf(CountWeights(flash));
  EXPECT_EQ(flash_total.backbone_parameters, 284'332'240'471);
  EXPECT_EQ(flash_total.backbone_bytes, 156'015'698'140);
  EXPECT_EQ(flash_total.parameters, 290'942'289'362);
  EXPECT_EQ(flash_total.bytes, 159'609'485'896);
  const WeightTotals pro_total = TotalOf(CountWeights(pro));
  EXPECT_EQ(pro_total.backbone_parameters, 1'572'997'201'763);
  EXPECT_EQ(pro_total.backbone_bytes, 850'748'205'004);
  EXPECT_EQ(pro_total.parameters, 1'598'837'347'742);
  EXPECT_EQ(pro_total.bytes, 864'704'792'696);
}

TEST(Footprint, CountsTheDsparkStagesOfTheFlashRelease) {
  ModelConfig config = *NamedShape("flash", WeightLayout::kNative);
  config.has_mtp = false;
  config.dspark = DsparkConfig{3, 5, 128799, {40, 41, 42}, 256};
  EXPECT_EQ(ByName(config).at("dspark").bytes, 10'862'838'300);
  EXPECT_EQ(TotalOf(CountWeights(config)).bytes, 166'878'536'440);
}

TEST(Footprint, CountsTensorsOfThePublishedFiles) {
  // With its scales a quantised matrix is two tensors.
  const auto count = [](const ModelConfig& config) {
    ModelTensors tensors;
    int64_t files_have = 0;
    for (const auto& spec : ListTensors(config, tensors)) {
      const bool quantised = spec.kind == TensorKind::kLinear ||
                             spec.kind == TensorKind::kLinearKept ||
                             spec.kind == TensorKind::kExpert;
      files_have += quantised ? 2 : 1;
    }
    return files_have;
  };
  EXPECT_EQ(count(*NamedShape("flash", WeightLayout::kNative)), 67'612 + 1'575);
  EXPECT_EQ(count(*NamedShape("pro", WeightLayout::kNative)), 142'773 + 2'343);
}

TEST(Footprint, CountsActiveParameters) {
  const auto flash = CountActiveParameters(*NamedShape("flash", WeightLayout::kNative));
  const auto pro = CountActiveParameters(*NamedShape("pro", WeightLayout::kNative));
  EXPECT_NEAR(static_cast<double>(flash), 13.80e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(pro), 49.78e9, 0.005e9);
}

TEST(Footprint, CountsCaches) {
  ModelConfig flash = *NamedShape("flash", WeightLayout::kNative);
  flash.has_mtp = false;
  const CacheFootprint cache = CountCache(flash);
  EXPECT_EQ(cache.kv_row_bytes, 584);
  EXPECT_EQ(cache.index_row_bytes, 68);
  EXPECT_DOUBLE_EQ(cache.bytes_per_token, 3514.25);
  EXPECT_EQ(cache.window_bytes, 43 * 128 * 584);
  EXPECT_EQ(cache.compressor_state_bytes, 21 * 81'920 + 20 * 524'288);
  // 17.6, 463.8 and 3,688 MB of rows.
  const auto megabytes = [&](int64_t context) {
    return static_cast<double>(CountRequestBytes(flash, context) - cache.compressor_state_bytes) /
           1e6;
  };
  EXPECT_NEAR(megabytes(4096), 17.6, 0.05);
  EXPECT_NEAR(megabytes(131072), 463.8, 0.05);
  EXPECT_NEAR(megabytes(1048576), 3688, 0.5);
  EXPECT_EQ(CountRequestBytes(flash, 3), cache.fixed_bytes());

  flash.has_mtp = true;
  EXPECT_EQ(CountCache(flash).window_bytes, 44 * 128 * 584);
  const CacheFootprint pro = CountCache(*NamedShape("pro", WeightLayout::kNative));
  EXPECT_NEAR(pro.bytes_per_token, 5031, 0.5);
}

// The limits of the operators for Atlas A3, by operator, and those of a test's patience.
TEST(NamedShapes, HasOneThatEveryOperatorOfAnNpuTakes) {
  const ModelConfig c = *NamedShape("a3", WeightLayout::kW8A8);
  EXPECT_EQ(c.hidden_size, 4096);     // HcPre: 4096 or 7168
  EXPECT_EQ(c.hidden_size % 512, 0);  // Compressor, which takes 1024 to 10240
  EXPECT_EQ(c.hc_mult, 4);            // HcPre, HcPost
  EXPECT_EQ(c.head_dim, 512);         // SparseAttnSharedkv, Compressor
  EXPECT_EQ(c.rope_dim, 64);          // Compressor
  EXPECT_EQ(c.num_heads % 4, 0);      // SparseAttnSharedkv
  EXPECT_LE(c.num_heads, 128);        // SparseAttnSharedkv
  EXPECT_EQ(c.window, 128);           // SparseAttnSharedkv: 127 to the left
  EXPECT_EQ(c.index_heads, 64);       // QuantLightningIndexer
  EXPECT_EQ(c.index_head_dim, 128);   // QuantLightningIndexer, Compressor
  EXPECT_EQ(c.index_topk, 512);       // SparseAttnSharedkv
  EXPECT_LE(c.experts_per_token, c.num_experts);
  // Blocks of the matrix formats of int8: 32 in depth, 16 across.
  EXPECT_EQ(c.q_lora_rank % 32, 0);
  EXPECT_EQ(c.o_groups * c.o_lora_rank % 32, 0);
  EXPECT_EQ(c.expert_inter_size % 32, 0);
  EXPECT_EQ(c.compress_ratios, (std::vector<int64_t>{0, 4, 128}));
  EXPECT_LT(TotalOf(CountWeights(c)).bytes, 400'000'000);
}

TEST(Footprint, CountsCachesOfInt8Checkpoints) {
  const CacheFootprint cache = CountCache(*NamedShape("flash", WeightLayout::kW8A8));
  EXPECT_EQ(cache.kv_row_bytes, 1024);
  EXPECT_EQ(cache.index_row_bytes, 130);
}

TEST(CostOfStep, IsThatOfThePublishedModels) {
  const ModelConfig flash = *NamedShape("flash", WeightLayout::kNative);
  const ModelConfig pro = *NamedShape("pro", WeightLayout::kNative);
  const auto gigabytes = [](const ModelConfig& config, int64_t tokens) {
    return CostOfStep(config, tokens, tokens).bytes / 1e9;
  };
  EXPECT_NEAR(gigabytes(flash, 1), 11.2, 0.05);
  EXPECT_NEAR(gigabytes(flash, 8), 33.2, 0.1);
  EXPECT_NEAR(gigabytes(flash, 256), 154.6, 0.3);
  EXPECT_NEAR(gigabytes(pro, 1), 39.7, 0.1);
  EXPECT_NEAR(CostOfStep(flash, 1, 1).flops / 1e9, 26.5, 0.1);
  EXPECT_NEAR(CostOfStep(flash, 1, 0).flops / 1e9, 25.5, 0.1);
  EXPECT_NEAR(CostOfStep(pro, 1, 1).flops / 1e9, 97.7, 0.3);
}

TEST(CostOfAttention, IsThatOfTheRowsThatTokensSee) {
  const ModelConfig flash = *NamedShape("flash", WeightLayout::kNative);
  const auto none = CostOfAttention(flash, 0, 1);
  EXPECT_EQ(none.bytes, 43 * 584);
  EXPECT_EQ(none.flops, 43 * 4.0 * 64 * 512);
  // 21 layers of ratio 4 choose 512 of 4096 entries, 20 of ratio 128 take all 128.
  const auto deep = CostOfAttention(flash, 16383, 1);
  EXPECT_EQ(deep.bytes, (43 * 128 + 21 * 512 + 20 * 128) * 584.0 + 21 * 4096 * 68.0);
  EXPECT_EQ(deep.flops,
            (43 * 128 + 21 * 512 + 20 * 128) * 4.0 * 64 * 512 + 21 * 4096 * 2.0 * 64 * 128);
  // A prompt reads the rows of all its tokens once.
  const auto prompt = CostOfAttention(flash, 0, 512);
  EXPECT_EQ(prompt.bytes, (43 * 512 + 21 * 128 + 20 * 4) * 584.0);
  EXPECT_EQ(CostOfAttention(flash, 100, 0).flops, 0);
}

}  // namespace
}  // namespace cachalot
