#include "backends/ascend/step_image.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "backends/ascend/test_step.h"

namespace cachalot::ascend {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Requests = std::vector<std::pair<int32_t, int32_t>>;

const std::vector<double>& Frequencies(double base) {
  static std::map<double, std::vector<double>> tables;
  std::vector<double>& table = tables[base];
  if (table.empty()) {
    for (int i = 0; i < 32; ++i) {
      table.push_back(std::pow(base, -i / 32.0));
    }
  }
  return table;
}

StepShape TestShape() {
  const RopeTable compressed = {64, Frequencies(160000)};
  return {.heads = 4,
          .head_dim = 512,
          .index_heads = 8,
          .index_head_dim = 128,
          .top_k = 32,
          .window = 128,
          .has_c4 = true,
          .has_c128 = true,
          .rope = {64, Frequencies(10000)},
          .rope_c4 = compressed,
          .rope_c128 = compressed};
}

StepImage ImageOf(const Requests& requests) {
  StepImage image({.cores = 24, .host_schedules = true});
  image.Build(TestStep(TestShape(), requests).metadata());
  return image;
}

std::vector<int32_t> Ints(const StepImage& image, const StepField& field) {
  const auto values = image.Ints(field);
  return {values.begin(), values.end()};
}

TEST(StepImage, CountsTokensAndKeysOfEachRequest) {
  const StepImage image = ImageOf({{0, 3}, {200, 1}, {126, 2}});
  const StepFields& f = image.fields();
  EXPECT_THAT(Ints(image, f.query_starts), ElementsAre(0, 3, 4, 6));
  EXPECT_THAT(Ints(image, f.query_ends), ElementsAre(3, 4, 6));
  EXPECT_THAT(Ints(image, f.kv_lengths), ElementsAre(3, 201, 128));
  EXPECT_THAT(Ints(image, f.new_tokens), ElementsAre(3, 1, 2));
  EXPECT_THAT(Ints(image, f.start_pos), ElementsAre(0, 200, 126));
  EXPECT_THAT(Ints(image, f.c4.residual), ElementsAre(3, 1, 0));
  EXPECT_THAT(Ints(image, f.c4.lengths), ElementsAre(0, 50, 32));
  EXPECT_THAT(Ints(image, f.c128.lengths), ElementsAre(0, 1, 1));
  EXPECT_THAT(Ints(image, f.window_slots), ElementsAre(1, 0, 1, 1, 1, 2, 3, 72, 4, 126, 4, 127));
  EXPECT_EQ(f.most_tokens, 3);
  EXPECT_EQ(f.longest, 201);
}

TEST(StepImage, GivesPaddingRequestsOneTokenAndNothingToKeep) {
  const StepImage image = ImageOf({{7, 1}, {0, 0}, {0, 0}});
  const StepFields& f = image.fields();
  EXPECT_THAT(Ints(image, f.query_starts), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Ints(image, f.kv_lengths), ElementsAre(8, 1, 1));
  EXPECT_THAT(Ints(image, f.new_tokens), ElementsAre(1, 0, 0));
  EXPECT_EQ(f.c4.closed, 1);
  EXPECT_THAT(Ints(image, f.c4.slots), ElementsAre(1, 1, 0, 0, 0, 1));
  const int32_t none = TestStep::kC4State.num_rows - 1;
  const std::vector<int32_t> rows = Ints(image, f.c4.state_rows);
  EXPECT_THAT(std::vector<int32_t>(rows.begin() + 9, rows.end()), Each(none));
  EXPECT_THAT(Ints(image, f.c4.kept_rows), ElementsAre(8 + 7, 0, 0));
  // The schedule is that of three requests with a token each.
  EXPECT_EQ(image.Ints(f.window_schedule)[4], 1);
}

TEST(StepImage, FindsTheStateOfEveryPosition) {
  const StepImage image = ImageOf({{3, 2}, {130, 1}});
  const CompressionFields& c4 = image.fields().c4;
  ASSERT_EQ(c4.state_rows.shape, Shape({2, 10}));
  const int32_t none = TestStep::kC4State.num_rows - 1;
  // The first request has page 1 and with it rows 8 ... 15; the second page 2, then page 3.
  EXPECT_THAT(Ints(image, c4.state_rows),
              ElementsAre(none, none, none, none, none, 8, 9, 10, 11, 12,  //
                          18, 19, 20, 21, 22, 23, 24, 25, 26, none));
  EXPECT_THAT(Ints(image, c4.history), ElementsAre(none, none, none, none, none, 8, 9, 10,  //
                                                   18, 19, 20, 21, 22, 23, 24, 25));
  EXPECT_THAT(Ints(image, c4.kept_rows), ElementsAre(11, 12, 26));
  EXPECT_THAT(Ints(image, c4.ape_rows), ElementsAre(3, 0, 2));
  // Entry 0 pools positions -4 ... 3: of them 0, 1 and 2 from the state, 3 is new.
  const std::vector<int32_t> pooled = Ints(image, c4.entry_rows);
  EXPECT_THAT(std::vector<int32_t>(pooled.begin(), pooled.begin() + 8),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 16));
  const CompressionFields& c128 = image.fields().c128;
  EXPECT_THAT(Ints(image, c128.kept_rows), ElementsAre(128 + 3, 128 + 4, 256 + 2));
}

TEST(StepImage, FindsTheStateOfRandomSteps) {
  std::mt19937 random(9);
  for (int round = 0; round < 40; ++round) {
    Requests requests;
    for (uint32_t left = random() % 4 + 1; left > 0; --left) {
      requests.emplace_back(random() % 300, random() % 30 + 1);
    }
    requests.resize(requests.size() + random() % 2);  // or padding too
    const TestStep step(TestShape(), requests);
    const StepImage image = ImageOf(requests);
    for (const CompressionFields* c : {&image.fields().c4, &image.fields().c128}) {
      const bool c4 = c->ratio == 4;
      const int64_t before = c4 ? 8 : 128;
      const int64_t columns = before + image.fields().most_tokens;
      std::vector<int32_t> wanted;
      for (size_t b = 0; b < requests.size(); ++b) {
        const auto [start, count] = requests[b];
        for (int64_t column = 0; column < columns; ++column) {
          const int64_t position = start - before + column;
          if (count == 0 || position < 0 || column >= before + count) {
            wanted.push_back(TestStep::kC4State.num_rows - 1);
            continue;
          }
          const int64_t page = c4 ? step.pages()[b * static_cast<size_t>(step.columns()) +
                                                 static_cast<size_t>(position / 128)]
                                  : step.c128_state_pages()[b];
          wanted.push_back(static_cast<int32_t>(page * before + position % before));
        }
      }
      ASSERT_EQ(c->state_rows.shape, Shape({static_cast<int64_t>(requests.size()), columns}));
      ASSERT_EQ(Ints(image, c->state_rows), wanted) << "ratio " << c->ratio;
    }
  }
}

// The room is known from the numbers of tokens and requests alone.
TEST(StepImage, HasRoomForEveryEntryThatAStepCloses) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    Requests requests;
    int32_t tokens = 0;
    for (uint32_t left = random() % 6 + 1; left > 0; --left) {
      const auto start = static_cast<int32_t>(random() % 400);
      const auto count = static_cast<int32_t>(random() % (left % 2 == 0 ? 200 : 6)) + 1;
      requests.emplace_back(start, count);
      tokens += count;
    }
    const StepImage image = ImageOf(requests);
    for (const CompressionFields* c : {&image.fields().c4, &image.fields().c128}) {
      const auto ratio = static_cast<int32_t>(c->ratio);
      int32_t closed = 0;
      for (const auto& [start, count] : requests) {
        closed += (start + count) / ratio - start / ratio;
      }
      const int64_t room =
          std::min<int64_t>(tokens, tokens / ratio + static_cast<int64_t>(requests.size()));
      EXPECT_EQ(c->closed, closed);
      EXPECT_EQ(c->slots.shape, Shape({room, 2}));
      EXPECT_LE(c->closed, room);
    }
  }
}

TEST(StepImage, KeepsOfARingTheLastTokenOfEachRow) {
  const StepImage image = ImageOf({{0, 20}});
  const std::vector<int32_t> kept = Ints(image, image.fields().c4.kept_rows);
  EXPECT_THAT(std::vector<int32_t>(kept.begin(), kept.begin() + 12), Each(0));
  EXPECT_THAT(std::vector<int32_t>(kept.begin() + 12, kept.end()),
              ElementsAre(12, 13, 14, 15, 8, 9, 10, 11));
}

TEST(StepImage, MakesARequestOfEachTokenOfADraftBlock) {
  StepShape shape = TestShape();
  shape.has_c4 = shape.has_c128 = false;
  const TestStep step(shape, {{300, 3}});
  StepMetadata block = step.metadata();
  const std::vector<int32_t> begin(3, 172);
  const std::vector<int32_t> end(3, 303);
  block.key_begin = begin;
  block.key_end = end;
  StepImage image({.cores = 24, .host_schedules = true});
  image.Build(block);
  const StepFields& f = image.fields();
  EXPECT_THAT(Ints(image, f.query_starts), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Ints(image, f.kv_lengths), ElementsAre(303, 303, 303));
  EXPECT_EQ(f.window_left, 130);
  EXPECT_THAT(Ints(image, f.window_pages), ElementsAre(1, 2, 3, 1, 2, 3, 1, 2, 3));
}

TEST(StepImage, PutsFieldsOfEqualStepsInOnePlace) {
  StepImage image({.cores = 24, .host_schedules = true});
  image.Build(TestStep(TestShape(), {{7, 1}, {300, 1}, {0, 0}}).metadata());
  const StepFields before = image.fields();
  const size_t bytes = image.bytes().size();
  image.Build(TestStep(TestShape(), {{90, 1}, {0, 0}, {0, 0}}).metadata());
  const StepFields& after = image.fields();
  EXPECT_EQ(image.bytes().size(), bytes);
  EXPECT_EQ(after.kv_lengths.offset, before.kv_lengths.offset);
  EXPECT_EQ(after.c128.kept_rows.offset, before.c128.kept_rows.offset);
  EXPECT_EQ(after.c128.kept_rows.shape, before.c128.kept_rows.shape);
  EXPECT_EQ(after.rotary.at(1).minus_sin.offset, before.rotary.at(1).minus_sin.offset);
}

TEST(StepImage, TurnsTokensByTheirPositionAndEntriesByTheirFirst) {
  const StepImage image = ImageOf({{1000003, 2}});
  const StepFields& f = image.fields();
  ASSERT_EQ(f.rotary.size(), 2U) << "layers of both ratios turn by one table";
  for (const RotaryFields& rotary : f.rotary) {
    const std::span frequencies(rotary.frequencies, 32);
    const auto* cos = reinterpret_cast<const float*>(image.bytes().data() + rotary.cos.offset);
    const auto* sin = reinterpret_cast<const float*>(image.bytes().data() + rotary.sin.offset);
    const auto* back =
        reinterpret_cast<const float*>(image.bytes().data() + rotary.minus_sin.offset);
    for (size_t i = 0; i < 64; ++i) {
      const double angle = 1000004 * frequencies[i / 2];
      EXPECT_NEAR(cos[64 + i], std::cos(angle), 1e-7) << i;
      EXPECT_NEAR(sin[64 + i], std::sin(angle), 1e-7) << i;
      EXPECT_EQ(back[64 + i], -sin[64 + i]);
    }
  }
  ASSERT_EQ(f.c4.closed, 1);
  const auto* cos = reinterpret_cast<const float*>(image.bytes().data() + f.c4.cos.offset);
  EXPECT_NEAR(cos[0], std::cos(1000000.0), 1e-7);
}

}  // namespace
}  // namespace cachalot::ascend
