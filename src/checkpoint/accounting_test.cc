#include "checkpoint/accounting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/editable_checkpoint.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

struct Layout {
  std::string name;
  ModelConfig config;
};

std::vector<Layout> Layouts() {
  return {{"native", *NamedShape("nano", WeightLayout::kNative)},
          {"bf16", *NamedShape("nano", WeightLayout::kBf16)},
          {"w8a8", *NamedShape("nano", WeightLayout::kW8A8)},
          {"dspark", NanoDspark(WeightLayout::kNative)}};
}

// A nano checkpoint with its table, to be matched again and again.
class Checkpoint {
 public:
  explicit Checkpoint(const Layout& layout)
      : config(layout.config), files(*OpenShards(SynthFolder(layout.name, config))) {
    specs = ListTensors(config, tensors);
    found = *FindTensors(files, config);
  }
  std::string MessageOf(const std::vector<FoundTensor>& changed) const {
    const auto accounts = MatchTensors(specs, changed, config, "folder");
    return accounts ? "no error" : accounts.error().message;
  }

  ModelConfig config;
  std::vector<SafetensorsFile> files;
  ModelTensors tensors;
  std::vector<TensorSpec> specs;
  std::vector<FoundTensor> found;
};

class EveryTensor : public testing::TestWithParam<int> {
 protected:
  Layout layout() const { return Layouts()[static_cast<size_t>(GetParam())]; }
};

TEST_P(EveryTensor, IsMissedWhenRemovedOrRenamed) {
  const Checkpoint checkpoint(layout());
  EXPECT_EQ(checkpoint.MessageOf(checkpoint.found), "no error");
  std::vector<FoundTensor> changed = checkpoint.found;
  for (size_t i = 0; i < changed.size(); ++i) {
    const std::string name = checkpoint.found[i].name;
    changed[i].name = name + "_renamed";
    EXPECT_THAT(checkpoint.MessageOf(changed), testing::StartsWith("folder: tensor " + name));
    EXPECT_THAT(checkpoint.MessageOf(changed), testing::EndsWith("is missing"));
    changed[i].name = name;
    std::swap(changed[i], changed.back());
    const FoundTensor removed = changed.back();
    changed.pop_back();
    EXPECT_THAT(checkpoint.MessageOf(changed), HasSubstr("tensor " + name));
    changed.push_back(removed);
    std::swap(changed[i], changed.back());
  }
}

TEST_P(EveryTensor, IsNamedWhenRetypedOrReshaped) {
  const Checkpoint checkpoint(layout());
  std::vector<FoundTensor> changed = checkpoint.found;
  for (size_t i = 0; i < changed.size(); ++i) {
    const FoundTensor& original = checkpoint.found[i];
    const std::string place = fmt::format("{}: tensor \"{}\" has ", original.file, original.name);
    changed[i].dtype = "F16";
    EXPECT_THAT(checkpoint.MessageOf(changed), testing::StartsWith(place + "dtype F16, expected "));
    changed[i].dtype = original.dtype;

    const Shape& shape = original.shape;
    changed[i].shape = shape.rank() == 1 ? Shape({1, shape[0]}) : Shape({1, shape[0], shape[1]});
    EXPECT_THAT(checkpoint.MessageOf(changed), testing::StartsWith(place + "shape [1, "));
    changed[i].shape = shape.rank() == 1 ? Shape({shape[0] + 1}) : Shape({shape[0] + 1, shape[1]});
    EXPECT_THAT(checkpoint.MessageOf(changed), testing::StartsWith(place + "shape "));
    changed[i].shape = shape;
  }
}

TEST_P(EveryTensor, IsNamedWhenCutShort) {
  const Checkpoint checkpoint(layout());
  const SafetensorsFile& file = checkpoint.files[0];
  const std::string header = FormatSafetensorsHeader(file.entries());
  const auto head = std::as_bytes(std::span(header.data(), header.size()));
  for (const auto& entry : file.entries()) {
    const int64_t size = static_cast<int64_t>(header.size()) + (entry.begin + entry.end) / 2;
    const auto parsed = ParseSafetensorsHeader(head, size, "f");
    ASSERT_FALSE(parsed);
    EXPECT_THAT(
        parsed.error().message,
        HasSubstr(fmt::format("tensor \"{}\" ends at byte {} of the data", entry.name, entry.end)));
  }
}

TEST_P(EveryTensor, IsNamedWhenThereTwiceOrTooMuch) {
  const Checkpoint checkpoint(layout());
  std::vector<FoundTensor> changed = checkpoint.found;
  for (const FoundTensor& original : checkpoint.found) {
    changed.push_back(original);
    EXPECT_THAT(checkpoint.MessageOf(changed),
                HasSubstr(fmt::format("tensor \"{}\" is there twice", original.name)));
    changed.back().name += "_more";
    changed.back().given = changed.back().name;
    EXPECT_THAT(checkpoint.MessageOf(changed),
                HasSubstr(fmt::format("tensor \"{}_more\" is unexpected", original.name)));
    changed.pop_back();
  }
}

INSTANTIATE_TEST_SUITE_P(OfNano, EveryTensor, testing::Range(0, 4), [](const auto& test) {
  return Layouts()[static_cast<size_t>(test.param)].name;
});

TEST(Accounting, NamesBothSpellingsOfATensorThatIsThereTwice) {
  const Checkpoint checkpoint(Layouts()[0]);
  std::vector<FoundTensor> changed = checkpoint.found;
  FoundTensor alias = *std::find_if(changed.begin(), changed.end(), [](const auto& t) {
    return t.name == "layers.1.attn.wq_a.scale";
  });
  alias.given = "model.layers.1.self_attn.q_a_proj.weight_scale_inv";
  changed.push_back(alias);
  const std::string message = checkpoint.MessageOf(changed);
  EXPECT_THAT(message, HasSubstr("\"model.layers.1.self_attn.q_a_proj.weight_scale_inv\" "
                                 "(\"layers.1.attn.wq_a.scale\") is there twice, also as "
                                 "\"layers.1.attn.wq_a.scale\""));
}

TEST(Accounting, SaysWhoseScaleIsMissing) {
  const Checkpoint checkpoint(Layouts()[2]);
  std::vector<FoundTensor> changed = checkpoint.found;
  std::erase_if(changed, [](const auto& t) { return t.name == "layers.1.attn.wq_b.scale"; });
  EXPECT_EQ(
      checkpoint.MessageOf(changed),
      "folder: tensor layers.1.attn.wq_b.scale, the scale of layers.1.attn.wq_b.weight is missing");
}

TEST(Accounting, RefusesAScaleBesideAnUnquantisedMatrix) {
  const Checkpoint checkpoint(Layouts()[2]);
  std::vector<FoundTensor> changed = checkpoint.found;
  for (auto& tensor : changed) {
    if (tensor.name == "layers.1.attn.wq_b.weight") {
      tensor.dtype = "BF16";
    }
  }
  EXPECT_THAT(checkpoint.MessageOf(changed),
              HasSubstr("\"layers.1.attn.wq_b.scale\" is unexpected"));
}

}  // namespace
}  // namespace cachalot
