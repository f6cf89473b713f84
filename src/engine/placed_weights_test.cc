// Weights on a device of its own memory: placed they give the same bits, converted they give nearly
// the same logits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "device/forwarding_device.h"
#include "engine/runner.h"
#include "model/place_weights.h"

namespace cachalot {
namespace {

// What a placer was given.
struct Placed {
  int64_t vectors = 0;
  int64_t matrices = 0;
  int64_t experts = 0;
  int64_t bytes = 0;
  int64_t grouped = 0;
  int64_t fail_at = -1;  // the number of the call that fails
};

// Copies everything into memory of its own, experts side by side.
class CopyingPlacer final : public WeightPlacer {
 public:
  explicit CopyingPlacer(Placed& placed) : placed_(placed) {}

  Result<Tensor> Place(const Tensor& values, WeightUse use) override {
    EXPECT_TRUE(use == WeightUse::kValues || use == WeightUse::kNorm);
    CACHALOT_RETURN_IF_ERROR(CountCall());
    ++placed_.vectors;
    return CopyOf(values, NewBlock(values.bytes()));
  }

  Result<Matrix> Place(const Matrix& matrix, WeightUse use, int64_t groups) override {
    EXPECT_FALSE(use == WeightUse::kValues || use == WeightUse::kNorm);
    CACHALOT_RETURN_IF_ERROR(CountCall());
    ++placed_.matrices;
    placed_.grouped += groups > 1 ? 1 : 0;
    std::byte* block = NewBlock(matrix.bytes() + 8);
    return CopyOf(matrix, block, block + (matrix.values.bytes() + 7) / 8 * 8);
  }

  Result<std::vector<ExpertWeights>> PlaceExperts(int64_t count,
                                                  const ExpertSource& expert) override {
    std::vector<ExpertWeights> placed;
    std::byte* blocks[4] = {};  // w1 and w3, their scales, w2, its scales
    for (int64_t e = 0; e < count; ++e) {
      CACHALOT_RETURN_IF_ERROR(CountCall());
      CACHALOT_ASSIGN_OR_RETURN(const ExpertWeights from, expert(e));
      const int64_t up = from.w1.values.bytes();
      const int64_t up_scales = from.w1.bytes() - up;
      const int64_t down = from.w2.values.bytes();
      const int64_t down_scales = from.w2.bytes() - down;
      if (e == 0) {
        const int64_t sizes[4] = {2 * up, 2 * up_scales, down, down_scales};
        for (size_t i = 0; i < 4; ++i) {
          blocks[i] = NewBlock(count * sizes[i]);
        }
      }
      std::byte* w1 = blocks[0] + 2 * e * up;
      std::byte* scales = blocks[1] + 2 * e * up_scales;
      placed.push_back({CopyOf(from.w1, w1, scales),
                        CopyOf(from.w2, blocks[2] + e * down, blocks[3] + e * down_scales),
                        CopyOf(from.w3, w1 + up, scales + up_scales)});
      ++placed_.experts;
    }
    return placed;
  }

 private:
  Status CountCall() {
    if (calls_++ == placed_.fail_at) {
      return MakeError(StatusCode::kResourceExhausted, "no memory");
    }
    return {};
  }
  std::byte* NewBlock(int64_t bytes) {
    placed_.bytes += bytes;
    return blocks_.emplace_back(new std::byte[static_cast<size_t>(bytes)]).get();
  }
  static Tensor CopyOf(const Tensor& from, std::byte* to) {
    std::memcpy(to, from.data, static_cast<size_t>(from.bytes()));
    return {to, from.dtype, from.shape};
  }
  static Matrix CopyOf(const Matrix& from, std::byte* values, std::byte* scales) {
    Matrix matrix = from;
    matrix.values = CopyOf(from.values, values);
    if (!from.scales.empty()) {
      matrix.scales = CopyOf(from.scales, scales);
    }
    return matrix;
  }

  Placed& placed_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  int64_t calls_ = 0;
};

// A CPU that has weights in a place of their own.
class PlacingDevice final : public ForwardingDevice {
 public:
  PlacingDevice(WeightRecipe recipe, Placed& placed)
      : ForwardingDevice(*cpu::NewCpuDevice({.num_threads = 2, .isa = {}})),
        recipe_(recipe),
        placed_(placed) {}

  WeightRecipe weight_recipe() const override { return recipe_; }
  std::unique_ptr<WeightPlacer> NewWeightPlacer() override {
    return std::make_unique<CopyingPlacer>(placed_);
  }

 private:
  const WeightRecipe recipe_;
  Placed& placed_;
};

std::string Golden(const std::string& name) { return CACHALOT_SOURCE_DIR "/tests/golden/" + name; }

// Logits of the last tokens of a text, some of them decoded one by one.
std::vector<float> LogitsOn(Device& device, const std::string& golden) {
  ModelConfig config = *LoadModelConfig(Golden(golden));
  Weights weights = *Weights::Load(Golden(golden), config);
  ModelRunner runner =
      *ModelRunner::New(device, std::move(config), std::move(weights), {.max_context = 768});
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 300; ++i) {
    ids.push_back((i * i * 7 + i * 13) % 250 + 3);
  }
  const RequestSlot slot = *runner.Open();
  std::vector<float> all;
  const auto run = [&](size_t begin, size_t end) {
    const RequestTokens tokens = {slot, {ids.data() + begin, ids.data() + end}};
    EXPECT_TRUE(runner.Forward({&tokens, 1}));
    std::vector<float> logits;
    EXPECT_TRUE(runner.Logits(0, static_cast<int64_t>(end - begin), &logits));
    all.insert(all.end(), logits.begin(), logits.end());
  };
  run(0, 290);
  for (size_t i = 290; i < ids.size(); ++i) {
    run(i, i + 1);
  }
  return all;
}

double RelativeDistance(const std::vector<float>& found, const std::vector<float>& wanted) {
  double squares = 0;
  double differences = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    squares += static_cast<double>(wanted[i]) * wanted[i];
    differences += std::pow(static_cast<double>(found[i]) - wanted[i], 2);
  }
  return std::sqrt(differences / squares);
}

std::vector<float> LogitsOnCpu(const std::string& golden) {
  const auto device = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
  return LogitsOn(*device, golden);
}

TEST(PlacedWeights, GiveTheSameBits) {
  for (const char* golden : {"native", "bf16", "w8a8", "dspark"}) {
    SCOPED_TRACE(golden);
    Placed placed;
    PlacingDevice device(WeightRecipe::kStored, placed);
    EXPECT_EQ(LogitsOn(device, golden), LogitsOnCpu(golden));
    const ModelConfig config = *LoadModelConfig(Golden(golden));
    const int64_t blocks = config.num_layers + (config.has_mtp ? 1 : 0) +
                           (config.dspark ? config.dspark->num_stages : 0);
    EXPECT_EQ(placed.experts, blocks * (config.num_experts + 1));
    EXPECT_EQ(placed.grouped, blocks);
  }
}

TEST(PlacedWeights, OfAW8A8CheckpointAreItsOwn) {
  Placed placed;
  PlacingDevice device(WeightRecipe::kW8A8, placed);
  EXPECT_EQ(LogitsOn(device, "w8a8"), LogitsOnCpu("w8a8"));
}

TEST(PlacedWeights, AreNearTheCheckpointsWhenConverted) {
  for (const char* golden : {"native", "bf16", "dspark"}) {
    Placed placed;
    PlacingDevice device(WeightRecipe::kW8A8, placed);
    const double distance = RelativeDistance(LogitsOn(device, golden), LogitsOnCpu(golden));
    RecordProperty(golden, std::to_string(distance));
    EXPECT_GT(distance, 0);
    EXPECT_LT(distance, 0.05) << golden;
  }
}

TEST(PlacedWeights, OfADeviceThatConvertsHaveTheConfigAndFormatsOfW8A8) {
  Placed placed;
  PlacingDevice device(WeightRecipe::kW8A8, placed);
  const ModelConfig config = *LoadModelConfig(Golden("native"));
  EXPECT_EQ(ConfigOn(device, config).layout, WeightLayout::kW8A8);
  const Weights weights = *PlaceWeights(device, *Weights::Load(Golden("native"), config), config);
  for (const BlockWeights& block : weights.layers) {
    for (const Matrix* matrix : {&block.attn.wq_b, &block.attn.wo_b, &block.ffn.shared.w2}) {
      EXPECT_EQ(matrix->format, MatrixFormat::kInt8Channel);
    }
    for (const Matrix* matrix :
         {&block.attn.wq_a, &block.attn.wkv, &block.attn.wo_a, &block.ffn.gate}) {
      EXPECT_EQ(matrix->format, MatrixFormat::kBf16);
    }
    const std::vector<ExpertWeights>& experts = block.ffn.experts;
    for (size_t e = 0; e < experts.size(); ++e) {
      const Matrix& w1 = experts[e].w1;
      EXPECT_EQ(w1.format, MatrixFormat::kInt8Channel);
      EXPECT_EQ(experts[e].w3.values.raw(), w1.values.raw() + w1.values.bytes());
      EXPECT_EQ(w1.values.raw(),
                experts[0].w1.values.raw() + 2 * static_cast<int64_t>(e) * w1.values.bytes());
    }
  }
}

TEST(PlacedWeights, FailWithTheirPlacer) {
  for (const int64_t call : {0, 20, 200}) {
    Placed placed;
    placed.fail_at = call;
    PlacingDevice device(WeightRecipe::kW8A8, placed);
    const ModelConfig config = *LoadModelConfig(Golden("native"));
    const auto weights = PlaceWeights(device, *Weights::Load(Golden("native"), config), config);
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace cachalot
