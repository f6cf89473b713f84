#include "checkpoint/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>

#include "checkpoint/editable_checkpoint.h"
#include "checkpoint/random_values.h"
#include "checkpoint/tensor_table.h"
#include "checkpoint/weights.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

ModelConfig Nano(WeightLayout layout) { return *NamedShape("nano", layout); }

bool Same(const std::vector<EditableTensor>& a, const std::vector<EditableTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.bytes == y.bytes;
  });
}

TEST(Synth, GivesTheSameBytesForTheSameSeed) {
  const ModelConfig config = Nano(WeightLayout::kNative);
  const auto one = ReadTensors(SynthFolder("seed", config));
  EXPECT_TRUE(Same(one, ReadTensors(SynthFolder("seed", config))));
  const std::string other = FreshFolder("seed");
  ASSERT_TRUE(WriteSynthCheckpoint(config, 2, other, nullptr));
  const auto two = ReadTensors(other);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(one[i].bytes.size() < 64 || one[i].bytes != two[i].bytes) << one[i].name;
  }
}

TEST(Synth, GivesMatricesTheirSpread) {
  for (const auto layout : {WeightLayout::kNative, WeightLayout::kBf16, WeightLayout::kW8A8}) {
    const ModelConfig config = Nano(layout);
    auto weights = Weights::Load(SynthFolder("spread", config), config);
    ASSERT_TRUE(weights) << weights.error().message;
    for (const auto& spec : ListTensors(config, *weights)) {
      auto* const* slot = std::get_if<Matrix*>(&spec.slot);
      if (slot == nullptr || spec.shape.num_elements() < 10000) {
        continue;
      }
      const Matrix& matrix = **slot;
      double squares = 0;
      double sum = 0;
      for (int64_t i = 0; i < spec.shape.num_elements(); ++i) {
        const double value = ElementOf(matrix, i / matrix.cols, i % matrix.cols);
        ASSERT_TRUE(std::isfinite(value)) << spec.name;
        squares += value * value;
        sum += value;
      }
      const bool adds_to_residual =
          spec.name.ends_with("wo_b.weight") || spec.name.ends_with("w2.weight");
      const double expected =
          spec.name == "embed.weight"
              ? 1
              : (adds_to_residual ? 0.3 : 1) / std::sqrt(static_cast<double>(matrix.cols));
      const auto count = static_cast<double>(spec.shape.num_elements());
      // A native matrix of few blocks has few scales to average over.
      EXPECT_NEAR(
          std::sqrt(squares / count) / expected, 1,
          matrix.scales.num_elements() < 100 && layout == WeightLayout::kNative ? 0.6 : 0.06)
          << spec.name;
      EXPECT_NEAR(sum / count / expected, 0, 0.05) << spec.name;
    }
  }
}

TEST(Synth, GivesDistinctExpertsToEveryToken) {
  const ModelConfig config = Nano(WeightLayout::kNative);
  auto tensors = ReadTensors(SynthFolder("experts", config));
  const auto& table = Find(tensors, "layers.0.ffn.gate.tid2eid");
  std::vector<int64_t> ids(table.bytes.size() / 8);
  std::memcpy(ids.data(), table.bytes.data(), table.bytes.size());
  std::vector<int> uses(16, 0);
  for (size_t row = 0; row < ids.size(); row += 4) {
    std::sort(ids.begin() + static_cast<ptrdiff_t>(row),
              ids.begin() + static_cast<ptrdiff_t>(row) + 4);
    for (size_t i = row; i < row + 4; ++i) {
      EXPECT_TRUE(i == row || ids[i] != ids[i - 1]);
      ++uses[static_cast<size_t>(ids[i])];
    }
  }
  EXPECT_GT(*std::min_element(uses.begin(), uses.end()), 64);
}

TEST(Synth, SplitsIntoShardsWithAnIndex) {
  const ModelConfig config = Nano(WeightLayout::kNative);
  const auto whole = ReadTensors(SynthFolder("whole", config));
  const std::string folder = FreshFolder("split");
  int64_t last = 0;
  int64_t total = 0;
  const auto progress = [&](int64_t done, int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(WriteSynthCheckpoint(config, 1, folder, progress, 1'500'000));
  EXPECT_EQ(last, total);
  EXPECT_TRUE(std::filesystem::exists(folder + "/model.safetensors.index.json"));
  const auto files = OpenShards(folder);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_GT(files->size(), 3U);
  EXPECT_TRUE(Weights::Load(folder, config));
  auto split = ReadTensors(folder);
  auto sorted = whole;
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(split.begin(), split.end(), by_name);
  std::sort(sorted.begin(), sorted.end(), by_name);
  EXPECT_TRUE(Same(split, sorted));
}

TEST(Synth, RefusesAFolderThatIsNotEmpty) {
  const std::string folder = FreshFolder("full");
  std::ofstream(folder + "/notes.txt") << "mine";
  const auto status = WriteSynthCheckpoint(Nano(WeightLayout::kNative), 1, folder, nullptr);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("there are files in it, expected an empty folder"));
  EXPECT_FALSE(
      WriteSynthCheckpoint(Nano(WeightLayout::kNative), 1, folder + "/notes.txt", nullptr));
}

TEST(Synth, RemovesWhatItWroteWhenTheDiskIsFull) {
  const std::string folder = FreshFolder("limit");
  // A limit on the size of a file stands for the full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit = {1'000'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto status = WriteSynthCheckpoint(Nano(WeightLayout::kNative), 1, folder, nullptr);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("model.safetensors: cannot write"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(RandomValues, DoNotDependOnHowTheyAreCut) {
  const NormalCodes codes(DType::kBf16, 0, 1);
  std::vector<std::byte> whole(200);
  std::vector<std::byte> part(100);
  codes.Fill(7, 0, whole);
  codes.Fill(7, 50, part);
  EXPECT_EQ(std::memcmp(whole.data() + 100, part.data(), 100), 0);
  FillRandomBytes(7, 0, whole);
  FillRandomBytes(7, 104, std::span(part).first(96));
  EXPECT_EQ(std::memcmp(whole.data() + 104, part.data(), 96), 0);
  std::vector<int64_t> ids(12);
  std::vector<int64_t> rows(6);
  FillDistinctIds(7, 0, 3, 5, ids);
  FillDistinctIds(7, 2, 3, 5, rows);
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), ids.begin() + 6));
}

TEST(RandomValues, HaveNoNanCodes) {
  std::vector<std::byte> bytes(1 << 20);
  NormalCodes(DType::kF8E4M3, 0, 60).Fill(3, 0, bytes);
  for (const auto byte : bytes) {
    ASSERT_NE(static_cast<uint8_t>(byte) & 0x7F, 0x7F);
  }
}

}  // namespace
}  // namespace cachalot
