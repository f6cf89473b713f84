// Prefixes that have left the device and come back from the host's memory or from disk: the same
// answers, whatever has become of the files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "engine/engine.h"
#include "engine/step_loop_scene.h"

namespace cachalot {
namespace {

namespace fs = std::filesystem;

class CacheTiers : public testing::Test {
 protected:
  CacheTiers() : folder_(fs::path(testing::TempDir()) / "cache_tiers") { fs::remove_all(folder_); }
  ~CacheTiers() override { fs::remove_all(folder_); }

  // A device for 6 pages of tokens.
  SceneSettings Small(std::array<int64_t, 2> host_slots, const std::string& golden = "native") {
    return {.golden = golden, .max_running = 2, .cache_tokens = 768, .host_slots = host_slots};
  }
  SceneSettings OnDisk(const std::string& golden = "native") {
    SceneSettings settings = Small({12, 12}, golden);
    settings.disk_folder = folder_;
    return settings;
  }

  void ExpectColdAnswers(StepLoopScene& scene, int64_t cached, const std::string& golden) {
    auto& wanted = cold_answers_[golden];
    if (wanted.empty()) {
      StepLoopScene cold(Cold(golden));
      for (const Tokens& prompt : prompts_) {
        wanted.push_back(AnswerBits(*ColdAnswer(cold, Ask(prompt, 3))));
      }
    }
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const auto found = scene.Answer(Ask(prompts_[i], 3));
      EXPECT_EQ(AnswerBits(*found), wanted[i]);
      EXPECT_EQ(found->usage.cached_tokens, cached);
    }
  }

  // Changes a byte in every 1000 of the files of that name.
  void Damage(const std::string& name) {
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().filename() != name) {
        continue;
      }
      ++files;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto size = static_cast<int64_t>(fs::file_size(entry.path()));
      for (int64_t at = 200; at < size; at += 1000) {
        file.seekg(at);
        const auto byte = static_cast<char>(file.get() ^ 0x40);
        file.seekp(at);
        file.put(byte);
      }
    }
    EXPECT_EQ(files, 1) << name;
  }

  const std::string folder_;
  std::map<std::string, std::vector<std::vector<std::vector<uint32_t>>>> cold_answers_;
  const std::vector<Tokens> prompts_ = {RandomText(1, 400), RandomText(2, 500), RandomText(3, 390)};
};

TEST_F(CacheTiers, BringPrefixesBackFromTheHost) {
  for (const std::string golden : {"native", "w8a8"}) {
    StepLoopScene scene(Small({12, 12}, golden));
    ExpectColdAnswers(scene, 0, golden);
    ExpectColdAnswers(scene, 384, golden);
    ExpectColdAnswers(scene, 384, golden);
    EXPECT_GT(scene.prefix_stats().from_host, 0);
    EXPECT_GT(scene.loop().host_bytes_moved(), 0);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

TEST_F(CacheTiers, BringPrefixesBackFromTheDiskAfterARestart) {
  for (const std::string golden : {"native", "w8a8"}) {
    {
      StepLoopScene scene(OnDisk(golden));
      ExpectColdAnswers(scene, 0, golden);
    }
    StepLoopScene scene(OnDisk(golden));
    ExpectColdAnswers(scene, 384, golden);
    EXPECT_GT(scene.prefix_stats().from_disk, 0);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

TEST_F(CacheTiers, FindNothingOfAnotherModel) {
  {
    StepLoopScene scene(OnDisk("native"));
    ExpectColdAnswers(scene, 0, "native");
  }
  StepLoopScene other(OnDisk("w8a8"));
  ExpectColdAnswers(other, 0, "w8a8");
}

TEST_F(CacheTiers, GiveTheSameAnswersFromDamagedFiles) {
  for (const std::string name : {"history.slabs", "window.slabs", "index"}) {
    SCOPED_TRACE(name);
    fs::remove_all(folder_);
    {
      StepLoopScene scene(OnDisk());
      ExpectColdAnswers(scene, 0, "native");
    }
    Damage(name);
    StepLoopScene scene(OnDisk());
    ExpectColdAnswers(scene, 0, "native");
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

// One host slot for each part: what one request takes from it is what another's fetch is read into.
TEST_F(CacheTiers, ReadNothingIntoAHostSlotThatIsStillToBeCopied) {
  SceneSettings settings = OnDisk();
  settings.host_slots = {1, 1};
  const Tokens in_host = RandomText(4, 140);
  const Tokens on_disk = RandomText(5, 140);
  StepLoopScene cold(Cold());
  StepLoopScene scene(settings);
  scene.faults.before_upload = [&] { scene.disk().Flush(); };  // reads as soon as it may
  scene.Answer(Ask(on_disk, 1));
  scene.Answer(Ask(in_host, 1));
  scene.Answer(Ask(RandomText(6, 760), 1));  // all of the device
  ASSERT_EQ(scene.prefix_stats().host_pages, 1);
  const auto a = scene.Submit(Ask(in_host, 4));
  const auto b = scene.Submit(Ask(on_disk, 4));
  scene.Drain();
  EXPECT_EQ(scene.prefix_stats().from_disk, 2);
  EXPECT_EQ(a->usage.cached_tokens, 128);
  EXPECT_EQ(b->usage.cached_tokens, 128);
  EXPECT_EQ(AnswerBits(*a), AnswerBits(*ColdAnswer(cold, Ask(in_host, 4))));
  EXPECT_EQ(AnswerBits(*b), AnswerBits(*ColdAnswer(cold, Ask(on_disk, 4))));
}

// Through the engine, whose key of a folder's pages is made of weights and rows.
TEST_F(CacheTiers, OfAnEngineOutliveIt) {
  StepLoopScene cold(Cold());
  const auto wanted = AnswerBits(*ColdAnswer(cold, Ask(prompts_[0], 3)));
  const auto device = *cpu::NewCpuDevice({.num_threads = 1, .isa = {}});
  const auto cached = [&](const std::string& golden) {
    ModelConfig config = *LoadModelConfig(Golden(golden));
    Weights weights = *Weights::Load(Golden(golden), config);
    EngineOptions options;
    options.max_running = 2;
    options.max_context = 1024;
    options.cache_tokens = 1024;
    options.host_cache_bytes = 4 << 20;
    options.disk_cache_folder = folder_;
    options.disk_cache_bytes = 64 << 20;
    auto engine = Engine::New(*device, std::move(config), std::move(weights), options);
    EXPECT_TRUE(engine) << engine.error().message;
    EngineRequest request = Ask(prompts_[0], 3);
    const auto heard = Listen(request);
    EXPECT_TRUE((*engine)->Submit(std::move(request)));
    (*engine)->Drain();
    EXPECT_TRUE(heard->ok());
    if (golden == "native") {
      EXPECT_EQ(AnswerBits(*heard), wanted);
    }
    EXPECT_EQ((*engine)->LeakReport(), "");
    return heard->usage.cached_tokens;
  };
  EXPECT_EQ(cached("native"), 0);
  EXPECT_EQ(cached("native"), 384);
  EXPECT_EQ(cached("w8a8"), 0);
}

}  // namespace
}  // namespace cachalot
