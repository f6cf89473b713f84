#include "checkpoint/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "checkpoint/editable_checkpoint.h"
#include "checkpoint/weights.h"
#include "io/json.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

const std::vector<EditableTensor> kFirst = {{"a", "U8", {2}, "aa"}, {"b", "U8", {1}, "b"}};
const std::vector<EditableTensor> kSecond = {{"c", "U8", {3}, "ccc"}};

// Two shards and their index.
std::string TwoShards() {
  const std::string folder = FreshFolder("shards");
  WriteTensors(folder + "/one.safetensors", kFirst);
  WriteTensors(folder + "/two.safetensors", kSecond);
  return folder;
}

void WriteIndex(const std::string& folder, const std::string& text) {
  std::ofstream(folder + "/model.safetensors.index.json") << text;
}

std::string MessageOf(const std::string& folder) {
  const auto files = OpenShards(folder);
  return files ? "no error" : files.error().message;
}

TEST(Shards, OpensWhatTheIndexNames) {
  const std::string folder = TwoShards();
  WriteTensors(folder + "/other.safetensors", {{"x", "U8", {1}, "x"}});
  WriteIndex(folder, R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors",
                        "c":"two.safetensors"}})");
  const auto files = OpenShards(folder);
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[1].entries()[0].name, "c");
}

TEST(Shards, OpensEveryFileWithoutAnIndex) {
  const std::string folder = TwoShards();
  EXPECT_EQ(OpenShards(folder)->size(), 2U);
  WriteTensors(folder + "/model.safetensors", kSecond);
  EXPECT_EQ(OpenShards(folder)->size(), 1U);
}

TEST(Shards, NamesWhatIsWrongWithTheIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"},"x":1)", "JSON damaged"},
      {"[]", "weight_map is missing"},
      {"{}", "weight_map is missing"},
      {R"({"weight_map":{}})", "weight_map is missing"},
      {R"({"weight_map":{"a":1}})", R"(weight_map has "1" for tensor "a")"},
      {R"({"weight_map":{"a":"../one.safetensors"}})", "expected the name of a safetensors file"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "expected the name of a safetensors file"},
      {R"({"weight_map":{"a":"one.safetensors\u0000"}})",
       "expected the name of a safetensors file"},
      {R"({"weight_map":{"a":"three.safetensors"}})",
       "three.safetensors: cannot open: No such file"},
      {R"({"weight_map":{"a":"one.safetensors"}})",
       R"(tensor "b" is in one.safetensors, but the index says nothing)"},
      {R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"}})",
       R"(tensor "b" is in one.safetensors, but the index says "two.safetensors")"},
      {R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors","d":"one.safetensors"}})",
       R"(one.safetensors: tensor "d" is missing, the index expects it)"},
  };
  for (const auto& [text, message] : cases) {
    const std::string folder = TwoShards();
    WriteIndex(folder, text);
    EXPECT_THAT(MessageOf(folder), HasSubstr(message)) << text;
  }
}

TEST(Shards, NamesAFolderWithoutWeights) {
  EXPECT_THAT(MessageOf(FreshFolder("empty")), HasSubstr("no weights, expected model.safetensors"));
  EXPECT_THAT(MessageOf("/nonexistent"), HasSubstr("/nonexistent: cannot list the folder"));
}

TEST(Shards, RefusesATensorInTwoShards) {
  const ModelConfig config = *NamedShape("nano", WeightLayout::kNative);
  const std::string folder = SynthFolder("twice", config);
  auto tensors = ReadTensors(folder);
  WriteTensors(folder + "/second.safetensors", {Find(tensors, "norm.weight")});
  std::filesystem::rename(folder + "/model.safetensors", folder + "/first.safetensors");
  const auto weights = Weights::Load(folder, config);
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().message,
              HasSubstr("second.safetensors: tensor \"norm.weight\" is there twice"));
  EXPECT_THAT(weights.error().message, HasSubstr("first.safetensors"));
}

}  // namespace
}  // namespace cachalot
