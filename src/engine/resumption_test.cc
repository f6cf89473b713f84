// Prompts that begin as others did, requests that come back, settings that cut a text otherwise: the
// same bits as those of a request that has the engine to itself, in answers and in the caches.
#include <gtest/gtest.h>

#include "engine/step_loop_scene.h"

namespace cachalot {
namespace {

constexpr RequestSlot kOnlySlot(1);

// Both parts of the first pages of a text, whose prompt is run and still has its slot.
std::vector<std::string> PagesOf(StepLoopScene& scene, const Tokens& prompt, int64_t num_pages) {
  const auto heard = scene.Submit(Ask(prompt, 3));
  while (heard->ids.empty()) {
    scene.Step();
  }
  std::vector<std::string> pages;
  for (int64_t page = 0; page < num_pages; ++page) {
    pages.push_back(scene.PageBytes(kOnlySlot, PagePart::kHistory, page));
    pages.push_back(scene.PageBytes(kOnlySlot, PagePart::kWindow, page));
  }
  scene.Drain();
  return pages;
}

class Resumption : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, Resumption, testing::Values("native", "w8a8"));

// Of one checkpoint at every boundary, of the other at some.
TEST_P(Resumption, AtEveryPageBoundaryEqualsAColdRun) {
  const int64_t stride = GetParam() == std::string("native") ? 128 : 512;
  const Tokens prompt = RandomText(1, 2000);
  StepLoopScene cold(Cold(GetParam()));
  StepLoopScene warm({.golden = GetParam(), .cache_tokens = 16384});
  warm.Answer(Ask(prompt, 1));
  for (int64_t boundary = 128; boundary < 2000; boundary += stride) {
    for (const int64_t more : {1, 37}) {
      const Tokens text = First(prompt, boundary + more);
      const auto found = warm.Answer(Ask(text, 2));
      EXPECT_EQ(found->usage.cached_tokens, boundary);
      EXPECT_EQ(AnswerBits(*found), AnswerBits(*ColdAnswer(cold, Ask(text, 2))))
          << more << " tokens after " << boundary;
    }
  }
  EXPECT_EQ(warm.LeakReport(), "");
}

TEST_P(Resumption, FindsThePageEndsThatAColdRunLeaves) {
  const Tokens prompt = RandomText(3, 1000);
  StepLoopScene scene({.golden = GetParam(), .max_running = 1, .chunk = 1024});
  const auto whole = PagesOf(scene, prompt, 7);
  for (int64_t page = 1; page <= 7; ++page) {
    StepLoopScene stops({.golden = GetParam(), .max_running = 1, .chunk = 1024});
    const auto pages = PagesOf(stops, First(prompt, page * kPageTokens), page);
    for (size_t part = 0; part < pages.size(); ++part) {
      EXPECT_TRUE(pages[part] == whole[part]) << "part " << part << " of " << page << " pages";
    }
  }
}

TEST_P(Resumption, LeavesTheSameBytesWhateverTheChunks) {
  const Tokens prompt = RandomText(4, 900);
  std::vector<std::string> wanted;
  std::vector<std::vector<uint32_t>> answer;
  for (const int64_t chunk : {1024, 128, 256, 384, 512}) {
    SCOPED_TRACE(chunk);
    StepLoopScene scene({.golden = GetParam(), .max_running = 1, .chunk = chunk});
    const auto pages = PagesOf(scene, prompt, 7);
    const auto bits = AnswerBits(*scene.Answer(Ask(prompt, 3)));
    if (wanted.empty()) {
      wanted = pages;
      answer = bits;
    }
    EXPECT_TRUE(pages == wanted);
    EXPECT_EQ(bits, answer);
  }
}

// Also pages that were handed on, not run again.
TEST(ResumptionOfOne, HandsTheSameBytesOn) {
  const Tokens prompt = RandomText(5, 600);
  StepLoopScene scene({.max_running = 1});
  const auto wanted = PagesOf(scene, prompt, 4);
  EXPECT_TRUE(PagesOf(scene, First(prompt, 560) + RandomText(6, 100), 4) == wanted);
}

TEST(ResumptionOfOne, KeepsRequestsApartThatShareABeginning) {
  StepLoopScene cold(Cold());
  for (const int64_t common : {127, 128, 129, 300, 512}) {
    SCOPED_TRACE(common);
    const Tokens beginning = RandomText(7, common);
    const std::vector<Tokens> prompts = {beginning + RandomText(8, 200),
                                         beginning + RandomText(9, 200)};
    for (const bool at_once : {true, false}) {
      StepLoopScene scene({.chunk = 128});
      std::vector<std::shared_ptr<const Heard>> found;
      for (const Tokens& prompt : prompts) {
        found.push_back(scene.Submit(Ask(prompt, 6)));
        if (!at_once) {
          scene.Drain();
        }
      }
      scene.Drain();
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(AnswerBits(*found[i]), AnswerBits(*ColdAnswer(cold, Ask(prompts[i], 6))));
      }
      EXPECT_EQ(found[1]->usage.cached_tokens, common / 128 * 128);
      EXPECT_EQ(scene.LeakReport(), "");
    }
  }
}

TEST(ResumptionOfOne, StartsAfreshInASlotThatAnotherHad) {
  StepLoopScene fresh(Cold());
  StepLoopScene used(Cold());
  used.Answer(Ask(RandomText(10, 777), 5));
  for (const int64_t length : {3, 130, 400}) {
    const auto wanted = ColdAnswer(fresh, Ask(RandomText(11, length), 4));
    used.Answer(Ask(RandomText(12, 2000), 3));
    EXPECT_EQ(AnswerBits(*used.Answer(Ask(RandomText(11, length), 4))), AnswerBits(*wanted));
  }
}

TEST(ResumptionOfOne, OfARetractedRequestEqualsARunToTheEnd) {
  const Tokens prompt = RandomText(13, 250);
  StepLoopScene cold(Cold());
  const auto wanted = ColdAnswer(cold, Ask(prompt, 12));
  const std::vector<SceneSettings> ways = {
      {.chunk = 128},
      {.chunk = 128, .prefix_cache = false},
      {.chunk = 128, .prefix_cache = false, .state = StateKind::kPaged}};
  for (SceneSettings settings : ways) {
    for (const bool plan_ahead : {false, true}) {
      settings.plan_ahead = plan_ahead;
      for (size_t at = 1; at < 12; at += 2) {
        SCOPED_TRACE(at);
        StepLoopScene scene(settings);
        const auto neighbour = scene.Submit(Ask(RandomText(14, 40), 30));
        const auto heard = scene.Submit(Ask(prompt, 12));
        while (heard->ids.size() < at) {
          scene.Step();
        }
        scene.loop().scheduler().Retract(scene.last_id());
        scene.Drain();
        EXPECT_EQ(AnswerBits(*heard), AnswerBits(*wanted));
        EXPECT_EQ(neighbour->ids.size(), 30U);
        EXPECT_EQ(scene.loop().scheduler().stats().retractions, 1);
        EXPECT_EQ(scene.LeakReport(), "");
      }
    }
  }
}

// Requests that do not fit beside each other.
TEST(ResumptionOfOne, OfThoseThatGaveWayEqualsARunToTheEnd) {
  StepLoopScene cold(Cold());
  std::vector<std::vector<std::vector<uint32_t>>> wanted;
  for (uint32_t i = 0; i < 4; ++i) {
    wanted.push_back(AnswerBits(*ColdAnswer(cold, Ask(RandomText(20 + i, 100), 220))));
  }
  const SceneSettings rings = {.max_running = 4, .chunk = 128, .cache_tokens = 1024};
  SceneSettings paged = rings;
  paged.prefix_cache = false;
  paged.state = StateKind::kPaged;
  for (const SceneSettings& settings : {rings, paged}) {
    StepLoopScene scene(settings);
    std::vector<std::shared_ptr<const Heard>> found;
    for (uint32_t i = 0; i < 4; ++i) {
      found.push_back(scene.Submit(Ask(RandomText(20 + i, 100), 220)));
    }
    scene.Drain();
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(AnswerBits(*found[i]), wanted[i]);
    }
    EXPECT_GT(scene.loop().scheduler().stats().retractions, 0);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

TEST_P(Resumption, AndEverySwitchGiveTheSameTokens) {
  StepLoopScene cold(Cold(GetParam()));
  std::vector<Tokens> prompts;
  for (uint32_t i = 0; i < 5; ++i) {
    prompts.push_back(RandomText(30 + i % 2, 140) + RandomText(40 + i, 30));
  }
  const std::vector<SceneSettings> ways = {
      {},
      {.graph = false},
      {.plan_ahead = true},
      {.prefix_cache = false},
      {.prefix_cache = false, .state = StateKind::kPaged},
      {.threads = 2},
      {.max_running = 1},
      {.host_slots = {4, 4}},
      {.max_running = 2, .prefix_cache = false, .graph = false, .plan_ahead = true, .threads = 2}};
  for (size_t way = 0; way < ways.size(); ++way) {
    SCOPED_TRACE(way);
    SceneSettings settings = ways[way];
    settings.golden = GetParam();
    StepLoopScene scene(settings);
    std::vector<std::shared_ptr<const Heard>> found;
    for (const Tokens& prompt : prompts) {
      found.push_back(scene.Submit(Ask(prompt, 5)));
    }
    scene.Drain();
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(AnswerBits(*found[i]), AnswerBits(*ColdAnswer(cold, Ask(prompts[i], 5))));
    }
  }
}

}  // namespace
}  // namespace cachalot
