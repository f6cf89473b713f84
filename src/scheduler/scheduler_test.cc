#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/paged_state.h"
#include "scheduler/scheduler_scene.h"

namespace cachalot {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Scheduler, RunsARequestFromItsPromptToItsLength) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 300), {.max_new_tokens = 3});
  const StepPlan first = scene.Step();
  ASSERT_EQ(first.requests.size(), 1u);
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.moves, (std::vector<CacheMove>{ClearRequest{first.requests[0].slot}}));
  EXPECT_EQ(first.requests[0].start, TokenPos(0));
  EXPECT_EQ(first.requests[0].ids, Text(1, 256));
  EXPECT_FALSE(first.requests[0].samples);
  for (const int64_t expected : {44, 1, 1}) {
    scene.Step();
    EXPECT_EQ(scene.TokensOf(id), expected);
    EXPECT_TRUE(scene.EntryOf(id)->samples);
  }
  EXPECT_EQ(scene.ended.at(id), EndReason::kLength);
  EXPECT_EQ(scene.tokens[id].size(), 303u);
  EXPECT_EQ(scene.Drain(), 0);
}

TEST(Scheduler, EndsARequestThatStops) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 10), {.max_new_tokens = 100});
  scene.Step();
  scene.stop_next = {id};
  scene.Step();
  EXPECT_EQ(scene.ended.at(id), EndReason::kStopped);
  EXPECT_EQ(scene.tokens[id].size(), 12u);
  scene.Drain();
}

TEST(Scheduler, RefusesWhatCanNeverRun) {
  SchedulerOptions options = RoomyOptions();
  options.max_context = 1000;
  Scheduler scheduler(options);
  const auto refusal = [&](int64_t prompt, int64_t max_new_tokens) {
    const Status status = scheduler.Submit(
        {.id = RequestId(1), .prompt = Text(1, prompt), .max_new_tokens = max_new_tokens});
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().code, StatusCode::kInvalidArgument);
    return status.error().message;
  };
  EXPECT_THAT(refusal(0, 1), HasSubstr("no tokens"));
  EXPECT_THAT(refusal(5, 0), HasSubstr("0 new tokens"));
  EXPECT_THAT(refusal(1000, 1), HasSubstr("1000 tokens, but the context holds 1000"));
  EXPECT_TRUE(scheduler.idle());
  EXPECT_TRUE(
      scheduler.Submit({.id = RequestId(1), .prompt = Text(1, 999), .max_new_tokens = 1 << 30}));

  SchedulerOptions small = TightOptions(7, 2);
  Scheduler in_small_cache(small);
  const Status status =
      in_small_cache.Submit({.id = RequestId(1), .prompt = Text(1, 7 * 128), .max_new_tokens = 1});
  EXPECT_THAT(status.error().message, HasSubstr("896 tokens, but the cache holds 896"));
}

TEST(Scheduler, BoundsItsQueue) {
  SchedulerOptions options = RoomyOptions(1);
  options.max_waiting = 2;
  SchedulerScene scene(options);
  scene.Submit(Text(1, 5));
  scene.Step();  // runs, so it does not wait
  scene.Submit(Text(2, 5));
  scene.Submit(Text(3, 5));
  const RequestSpec more = {.id = RequestId(99), .prompt = Text(4, 5), .max_new_tokens = 1};
  const Status status = scene.scheduler.Submit(more);
  EXPECT_EQ(status.error().code, StatusCode::kResourceExhausted);
  EXPECT_EQ(scene.scheduler.stats().waiting, 2);
  scene.Drain();
  EXPECT_TRUE(scene.scheduler.Submit(more));
}

TEST(Scheduler, EndsAtTheLengthThatContextOrCacheAllow) {
  SchedulerOptions options = RoomyOptions();
  options.max_context = 200;
  SchedulerScene scene(options);
  const RequestId id = scene.Submit(Text(1, 190), {.max_new_tokens = 1000});
  scene.Drain();
  EXPECT_EQ(scene.ended.at(id), EndReason::kLength);
  EXPECT_EQ(scene.tokens[id].size(), 200u);

  SchedulerScene small(TightOptions(5, 2));
  const RequestId alone = small.Submit(Text(1, 500), {.max_new_tokens = 1000});
  const RequestId other = small.Submit(Text(2, 500), {.max_new_tokens = 1000});
  small.Drain();
  for (const RequestId request : {alone, other}) {
    EXPECT_EQ(small.ended.at(request), EndReason::kLength);
    EXPECT_EQ(small.tokens[request].size(), 5u * 128);
  }
}

TEST(Scheduler, RunsByPriorityThenByArrival) {
  SchedulerScene scene(RoomyOptions(1));
  std::vector<RequestId> ids;
  for (const int32_t priority : {0, 2, 1, 2, -1, 0}) {
    ids.push_back(
        scene.Submit(Text(priority + 5, 20), {.max_new_tokens = 2, .priority = priority}));
  }
  scene.Drain();
  EXPECT_THAT(scene.order_of_ends, ElementsAre(ids[1], ids[3], ids[2], ids[0], ids[5], ids[4]));
}

TEST(Scheduler, RefusesChunksThatAreNoWholePages) {
  for (const int64_t chunk : {0, -128, 1, 100, 129, 300}) {
    SchedulerOptions options = RoomyOptions();
    options.chunk_tokens = chunk;
    const Status status = CheckSchedulerOptions(options);
    ASSERT_FALSE(status) << chunk;
    EXPECT_THAT(status.error().message, HasSubstr("expected a multiple of 128"));
  }
}

TEST(Scheduler, RefusesPoolsInWhichARequestAloneCouldRunOut) {
  EXPECT_TRUE(CheckSchedulerOptions(RoomyOptions()));
  SchedulerOptions options = RoomyOptions();
  options.geometry.swa_pages = 14;  // 4 requests * 3, and 260 tokens
  EXPECT_THAT(CheckSchedulerOptions(options).error().message,
              HasSubstr("14 window pages, expected at least 15"));
  options = RoomyOptions();
  options.geometry.c128_pages = 28;
  EXPECT_THAT(CheckSchedulerOptions(options).error().message,
              HasSubstr("28 c128 pages, expected at least 29"));
}

SchedulerOptions PagedOptions(const SchedulerOptions& rings) {
  SchedulerOptions options = rings;
  const int64_t requests = options.geometry.max_requests;
  options.prefix.enabled = false;
  options.geometry.c4_state_pages = PagedStatePages(4, requests, options.chunk_tokens);
  options.geometry.c128_state_pages = PagedStatePages(128, requests, options.chunk_tokens);
  return options;
}

TEST(Scheduler, RefusesAPrefixIndexWithPagedState) {
  SchedulerOptions options = PagedOptions(RoomyOptions());
  EXPECT_TRUE(CheckSchedulerOptions(options));
  --options.geometry.c4_state_pages;
  EXPECT_THAT(CheckSchedulerOptions(options).error().message,
              HasSubstr("9 pages of c4 state, expected at least 10"));
  options = PagedOptions(RoomyOptions());
  options.prefix.enabled = true;
  EXPECT_THAT(CheckSchedulerOptions(options).error().message,
              HasSubstr("a prefix index together with paged state"));
}

// Row 84, the metadata: whatever the chunk, the same tokens run once each, in whole pages, and the
// same can be found afterwards.
TEST(Scheduler, CutsPromptsAtPagesWhateverTheChunk) {
  const Tokens prompt = Text(1, 1000);
  for (const int64_t chunk : {128, 256, 384, 1024}) {
    SchedulerOptions options = RoomyOptions();
    options.chunk_tokens = chunk;
    SchedulerScene scene(options);
    const RequestId id = scene.Submit(prompt, {.max_new_tokens = 30});
    Tokens run;
    while (run.size() < prompt.size()) {
      scene.Step();
      const PlannedRequest entry = *scene.EntryOf(id);
      ASSERT_EQ(entry.start.value, static_cast<int32_t>(run.size()));
      ASSERT_LE(scene.TokensOf(id), chunk);
      run.insert(run.end(), entry.ids.begin(), entry.ids.end());
      ASSERT_TRUE(run.size() % 128 == 0 || run.size() == prompt.size());
    }
    EXPECT_EQ(run, prompt);
    scene.StepUntilEnd(id);
    EXPECT_EQ(scene.scheduler.index().Match(scene.tokens[id]), (1000 + 30 - 1) / 128);
    scene.Drain();
  }
}

TEST(Scheduler, RunsSingleTokensBesideEveryChunk) {
  SchedulerScene scene(RoomyOptions());
  const RequestId talker = scene.Submit(Text(1, 40), {.max_new_tokens = 50});
  scene.Step();
  const RequestId reader = scene.Submit(Text(2, 2000), {.max_new_tokens = 50});
  for (int step = 0; step < 8; ++step) {
    scene.Step();
    EXPECT_EQ(scene.TokensOf(talker), 1);
    EXPECT_EQ(scene.TokensOf(reader), step < 7 ? 256 : 2000 - 7 * 256);
  }
  scene.Step();
  EXPECT_EQ(scene.TokensOf(talker), 1);
  EXPECT_EQ(scene.TokensOf(reader), 1);
  scene.Drain();
}

// S7, both ways.
TEST(Scheduler, LetsNeitherLongPromptsNorShortOnesStopTheOther) {
  SchedulerScene scene(RoomyOptions());
  const RequestId reader = scene.Submit(Text(1, 40 * 128), {.max_new_tokens = 2});
  std::vector<RequestId> talkers;
  for (int step = 0; step < 39; ++step) {
    talkers.push_back(scene.Submit(Text(10 + step, 100), {.max_new_tokens = 1}));
    scene.Step();
    EXPECT_GE(scene.TokensOf(reader), 128) << step;
    EXPECT_TRUE(scene.ended.contains(talkers.back())) << step;
    if (scene.EntryOf(reader)->samples) {
      break;
    }
  }
  scene.Step();
  scene.Step();
  EXPECT_TRUE(scene.ended.contains(reader));
  scene.Drain();
}

// S8.
TEST(Scheduler, PlansAheadWithTokensThatAreNotKnownYet) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 127), {.max_new_tokens = 4});
  scene.Plan();
  scene.Execute();
  for (int i = 0; i < 3; ++i) {
    scene.Plan();
    EXPECT_THAT(scene.EntryOf(id)->ids, ElementsAre(kUnknownToken));
    EXPECT_EQ(scene.EntryOf(id)->start, TokenPos(127 + i));
    scene.Complete();
    scene.Execute();
  }
  // Its last token is being sampled: there is nothing to plan.
  EXPECT_THAT(scene.Plan().requests, IsEmpty());
  scene.Complete();
  EXPECT_EQ(scene.ended.at(id), EndReason::kLength);
  EXPECT_EQ(scene.tokens[id].size(), 131u);
  scene.Drain();
}

// S8: its page would be full with the token of the entry that is not run.
TEST(Scheduler, KeepsNoPageThatADroppedEntryWouldHaveFilled) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 127), {.max_new_tokens = 100});
  scene.stop_next = {id};
  scene.Plan();
  scene.Execute();
  scene.Plan();  // with token 127 of page 0
  ASSERT_EQ(scene.TokensOf(id), 1);
  scene.Complete();
  EXPECT_EQ(scene.ended.at(id), EndReason::kStopped);
  EXPECT_EQ(scene.scheduler.index().device_pages(), 0);
  scene.Execute();
  scene.Complete();
  scene.Drain();
}

// S9: n copies of a prompt.
TEST(Scheduler, LetsOneRequestComputeWhatManyBeginWith) {
  SchedulerScene scene(RoomyOptions(8));
  const Tokens prompt = Text(1, 1000);
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(scene.Submit(prompt + Tokens{i}, {.max_new_tokens = 20}));
  }
  const RequestId stranger = scene.Submit(Text(2, 100));
  int64_t prompt_tokens_run = 0;
  for (int step = 0; step < 8; ++step) {
    const StepPlan plan = scene.Step();
    for (const PlannedRequest& entry : plan.requests) {
      if (entry.id != stranger && entry.start.value < 1001) {
        prompt_tokens_run += static_cast<int64_t>(entry.ids.size());
      }
    }
    if (step == 0) {
      EXPECT_EQ(scene.TokensOf(stranger), 100);
      EXPECT_EQ(scene.scheduler.stats().running, 2);
    }
  }
  // Of the copies only what is behind the last whole page.
  EXPECT_EQ(prompt_tokens_run, 1001 + 5 * (1001 - 7 * 128));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(scene.scheduler.cached_tokens(ids[i]), i == 0 ? 0 : 7 * 128);
  }
  EXPECT_EQ(scene.scheduler.stats().prompt_tokens, 6 * 1001 + 100);
  EXPECT_EQ(scene.scheduler.stats().cached_tokens, 5 * 7 * 128);
  scene.Drain();
}

TEST(Scheduler, WaitsForNoPrefixOfLowerPriorityOrWhereItIsNotWanted) {
  SchedulerScene scene(RoomyOptions());
  const Tokens prompt = Text(1, 2000);
  scene.Submit(prompt);
  scene.Step();
  const RequestId same = scene.Submit(prompt);
  const RequestId urgent = scene.Submit(prompt, {.max_new_tokens = 4, .priority = 1});
  scene.Step();
  EXPECT_GT(scene.TokensOf(urgent), 0);
  EXPECT_EQ(scene.TokensOf(same), 0);
  const RequestId whole = scene.Submit(prompt, {.max_new_tokens = 4, .run_whole_prompt = true});
  scene.Step();
  EXPECT_EQ(scene.scheduler.stats().running, 3);
  scene.Drain();
  EXPECT_EQ(scene.scheduler.stats().running, 0);
  EXPECT_EQ(scene.scheduler.stats().peak_running, 4);
  EXPECT_EQ(scene.ended.at(whole), EndReason::kLength);
}

TEST(Scheduler, AdoptsNothingForAPromptThatIsToBeRunAsAWhole) {
  SchedulerScene scene(RoomyOptions());
  scene.StepUntilEnd(scene.Submit(Text(1, 500)));
  const RequestId whole =
      scene.Submit(Text(1, 500), {.max_new_tokens = 4, .run_whole_prompt = true});
  scene.Step();
  EXPECT_EQ(scene.EntryOf(whole)->start, TokenPos(0));
  EXPECT_EQ(scene.scheduler.cached_tokens(whole), 0);
  scene.Drain();
}

// S9: a page more than each prompt needs must be there.
TEST(Scheduler, AdmitsOnlyWhoseWholePromptFitsBesideTheOthers) {
  SchedulerScene scene(TightOptions(12, 4));
  scene.Submit(Text(1, 4 * 128), {.max_new_tokens = 300});
  const RequestId second = scene.Submit(Text(2, 7 * 128), {.max_new_tokens = 300});
  const RequestId third = scene.Submit(Text(3, 10), {.max_new_tokens = 1});
  scene.Step();
  // 5 + 8 pages do not fit 12; nobody passes who is behind.
  EXPECT_EQ(scene.scheduler.stats().running, 1);
  EXPECT_FALSE(scene.ended.contains(third));
  EXPECT_EQ(scene.TokensOf(second), 0);
  scene.Drain();
  EXPECT_EQ(scene.scheduler.stats().retractions, 0);
}

// S10 and S11 (row 85, the metadata).
TEST(Scheduler, RetractsTheLastInOrderWhichGoesOnWhereItWas) {
  SchedulerScene scene(TightOptions(8, 3));
  const RequestId a = scene.Submit(Text(1, 200), {.max_new_tokens = 500});
  const RequestId b = scene.Submit(Text(2, 200), {.max_new_tokens = 400});
  const RequestId c = scene.Submit(Text(3, 100), {.max_new_tokens = 400});
  while (scene.scheduler.stats().retractions == 0) {
    scene.Step();
  }
  EXPECT_EQ(scene.TokensOf(a), 1);
  EXPECT_EQ(scene.TokensOf(b), 1);
  EXPECT_EQ(scene.TokensOf(c), 0);
  EXPECT_GT(scene.tokens[c].size(), 100u);
  const Tokens so_far = scene.tokens[c];
  while (!scene.EntryOf(c)) {
    scene.Step();
  }
  // Prompt and answer are its prompt now.
  EXPECT_EQ(scene.tokens[c].size() - scene.EntryOf(c)->samples, so_far.size());
  const auto entry = *scene.EntryOf(c);
  EXPECT_TRUE(std::ranges::equal(
      entry.ids,
      std::span(so_far).subspan(static_cast<size_t>(entry.start.value)).first(entry.ids.size())));
  scene.Drain();
  EXPECT_THAT(scene.order_of_ends.front(), a);
  for (const auto& [id, reason] : scene.ended) {
    EXPECT_EQ(reason, EndReason::kLength);
  }
}

TEST(Scheduler, ComesBackFromARetractionAtEveryStepWithTheSameAnswer) {
  Tokens alone;
  for (int at = 0; at <= 40; ++at) {
    SchedulerScene scene(RoomyOptions());
    const RequestId id = scene.Submit(Text(1, 350), {.max_new_tokens = 40});
    for (int step = 0; step < at; ++step) {
      scene.Step();
    }
    scene.scheduler.Retract(id);
    scene.Drain();
    if (at == 0) {
      alone = scene.tokens[id];
    }
    ASSERT_EQ(scene.tokens[id], alone) << at;
    ASSERT_EQ(scene.ended.at(id), EndReason::kLength);
    ASSERT_EQ(scene.scheduler.cached_tokens(id), 0);
  }
}

TEST(Scheduler, MakesWayForHigherPriority) {
  SchedulerScene scene(RoomyOptions(2));
  const RequestId a = scene.Submit(Text(1, 200), {.max_new_tokens = 50});
  const RequestId b = scene.Submit(Text(2, 200), {.max_new_tokens = 50});
  for (int i = 0; i < 5; ++i) {
    scene.Step();
  }
  const RequestId equal = scene.Submit(Text(3, 50));
  scene.Step();
  EXPECT_EQ(scene.scheduler.stats().retractions, 0);
  const RequestId urgent = scene.Submit(Text(4, 50), {.max_new_tokens = 2, .priority = 1});
  scene.Step();
  EXPECT_EQ(scene.TokensOf(urgent), 50);
  EXPECT_EQ(scene.TokensOf(a), 1);
  EXPECT_EQ(scene.TokensOf(b), 0);
  scene.Drain();
  EXPECT_THAT(scene.order_of_ends, ElementsAre(urgent, a, b, equal));
}

// Each state that a request can be in, and what is in flight of it.
enum class State { kWaiting, kReading, kTalking, kInFlight, kRetracted };

class SchedulerEnds : public testing::TestWithParam<State> {
 protected:
  // Brings request `id` there.
  void Reach(SchedulerScene& scene, RequestId id) {
    const State state = GetParam();
    if (state == State::kWaiting) {
      return;
    }
    scene.Step();
    for (int i = 0; i < 6 && state != State::kReading; ++i) {
      scene.Step();
    }
    if (state == State::kInFlight) {
      scene.Plan();
      scene.Execute();
    } else if (state == State::kRetracted) {
      scene.scheduler.Retract(id);
    }
  }
  void Finish(SchedulerScene& scene, RequestId id, EndReason reason) {
    const bool in_flight = GetParam() == State::kInFlight;
    scene.Plan();
    EXPECT_EQ(scene.ended.at(id), reason);
    EXPECT_FALSE(scene.EntryOf(id));
    if (in_flight) {
      scene.Complete();
    }
    scene.Execute();
    EXPECT_TRUE(scene.scheduler.idle());
    EXPECT_EQ(scene.scheduler.LeakReport(), "");
    EXPECT_EQ(scene.order_of_ends.size(), 1u);
  }
};

TEST_P(SchedulerEnds, WithTheNextPlanWhenCancelled) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 600), {.max_new_tokens = 100});
  scene.scheduler.Cancel(RequestId(12345));  // passed over
  Reach(scene, id);
  scene.scheduler.Cancel(id);
  scene.scheduler.Cancel(id);
  Finish(scene, id, EndReason::kCancelled);
  scene.scheduler.Cancel(id);
}

TEST_P(SchedulerEnds, AtItsDeadline) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 600), {.max_new_tokens = 100, .deadline = 7});
  scene.now = 6;
  Reach(scene, id);
  scene.now = 7;
  Finish(scene, id, EndReason::kDeadline);
}

INSTANTIATE_TEST_SUITE_P(States, SchedulerEnds,
                         testing::Values(State::kWaiting, State::kReading, State::kTalking,
                                         State::kInFlight, State::kRetracted));

TEST(Scheduler, FindsThePagesOfACancelledRequest) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 1000));
  scene.Step();
  scene.scheduler.Cancel(id);
  scene.Step();
  const RequestId next = scene.Submit(Text(1, 1000));
  scene.Step();
  EXPECT_EQ(scene.EntryOf(next)->start, TokenPos(256));
  scene.Drain();
}

TEST(Scheduler, EndsWhatRunsWhenAStepFailsAndTrustsNothingAfter) {
  SchedulerScene scene(RoomyOptions(2));
  const RequestId a = scene.Submit(Text(1, 600), {.max_new_tokens = 9});
  const RequestId b = scene.Submit(Text(2, 100), {.max_new_tokens = 9});
  const RequestId waiting = scene.Submit(Text(1, 700), {.max_new_tokens = 9});
  scene.Step();
  scene.Plan();
  scene.Plan();  // two plans without results
  scene.Note(scene.scheduler.Fail());
  EXPECT_EQ(scene.ended.at(a), EndReason::kFailed);
  EXPECT_EQ(scene.ended.at(b), EndReason::kFailed);
  EXPECT_FALSE(scene.ended.contains(waiting));
  EXPECT_EQ(scene.scheduler.index().Match(Text(1, 600)), 0);
  scene.Step();
  EXPECT_EQ(scene.EntryOf(waiting)->start, TokenPos(0));
  scene.Drain();
  EXPECT_EQ(scene.ended.at(waiting), EndReason::kLength);
}

TEST(Scheduler, FailsARetractedRequestWhoseTokenIsLost) {
  SchedulerScene scene(RoomyOptions());
  const RequestId id = scene.Submit(Text(1, 100), {.max_new_tokens = 9});
  scene.Plan();
  scene.scheduler.Retract(id);
  EXPECT_THAT(scene.scheduler.Fail(), ElementsAre(EndedRequest{id, EndReason::kFailed}));
  EXPECT_TRUE(scene.scheduler.idle());
  EXPECT_EQ(scene.scheduler.LeakReport(), "");
}

TEST(Scheduler, NamesThePoolsThatLackPages) {
  SchedulerScene scene(RoomyOptions());
  scene.Submit(Text(1, 300), {.max_new_tokens = 9});
  scene.Step();
  EXPECT_EQ(scene.scheduler.LeakReport(),
            "full: 398 of 400 are free, swa: 398 of 400 are free, c128: 119 of 120 are free, "
            "requests: 3 of 4 are free");
  scene.Drain();
}

// Two pages on disk, that is two histories and a window, and somebody who runs meanwhile.
TEST(Scheduler, WaitsForAllThatIsReadFromDiskAndLetsOthersPass) {
  SchedulerOptions options = RoomyOptions();
  options.prefix.host_slots = {4, 4};
  options.prefix.disk_slots = {8, 8};
  options.prefix.root = RootKey("model");
  Scheduler scheduler(options);
  const Tokens text = Text(1, 300);
  std::vector<StoredPage> stored(2);
  PageKey parent = options.prefix.root;
  for (size_t page = 0; page < stored.size(); ++page) {
    PageIdentity& identity = stored[page].page;
    const auto tokens = std::span(text).subspan(page * 128, 128);
    identity.parent = parent;
    std::ranges::copy(tokens, identity.tokens.begin());
    parent = identity.key = ChildKey(parent, tokens);
    stored[page].history = stored[page].window = true;
  }
  scheduler.Restore(stored);
  ASSERT_TRUE(scheduler.Submit({.id = RequestId(1), .prompt = text, .max_new_tokens = 1}));
  ASSERT_TRUE(scheduler.Submit({.id = RequestId(2), .prompt = Text(3, 9), .max_new_tokens = 9}));
  StepPlan plan = scheduler.Plan(0);
  const std::vector<DiskFetch> fetches = plan.fetches;
  ASSERT_EQ(fetches.size(), 3U);
  for (const DiskFetch& fetch : fetches) {
    ASSERT_EQ(plan.requests.size(), 1U);
    EXPECT_EQ(plan.requests[0].id, RequestId(2));
    const SampledToken sampled = {RequestId(2), 5};
    scheduler.Complete({&sampled, 1});
    scheduler.Fetched(fetch.id, true);
    plan = scheduler.Plan(0);
    EXPECT_TRUE(plan.fetches.empty());
  }
  EXPECT_EQ(plan.requests.size(), 2U);
  EXPECT_EQ(scheduler.cached_tokens(RequestId(1)), 256);
}

// A conversation of turns of a page each: its beginning had as many c128 pages as turns, which
// nobody could have back, and the request waited for ever.
TEST(Scheduler, CarriesOnALongConversationOfShortTurns) {
  SchedulerOptions options = TightOptions(40, 1);
  options.geometry.c128_pages = 40 / 16 + 1;
  SchedulerScene scene(options);
  Tokens talk;
  for (int turn = 0; turn < 37; ++turn) {
    talk = talk + Text(turn + 1, 100);
    const RequestId id = scene.Submit(talk, {.max_new_tokens = 28});
    scene.StepUntilEnd(id);
    ASSERT_FALSE(HasFatalFailure());
    talk = scene.tokens[id];
  }
  EXPECT_GT(scene.scheduler.stats().cached_tokens, scene.scheduler.stats().prompt_tokens / 2);
  scene.Drain();
}

}  // namespace
}  // namespace cachalot
