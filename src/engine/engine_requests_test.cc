// The engine from outside: its thread, its queue, its options (docs/contracts/engine.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/cpu/cpu_device.h"
#include "engine/engine.h"
#include "engine/listening.h"
#include "scheduler/trace.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

EngineOptions SmallOptions() {
  EngineOptions options;
  options.max_running = 3;
  options.max_context = 1024;
  options.chunked_prefill_size = 128;
  options.cache_tokens = 4096;
  return options;
}

class EngineRequests : public testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> New(const EngineOptions& options) {
    ModelConfig config = *LoadModelConfig(Golden("native"));
    Weights weights = *Weights::Load(Golden("native"), config);
    return Engine::New(*device_, std::move(config), std::move(weights), options);
  }
  std::unique_ptr<Engine> Open(const EngineOptions& options = SmallOptions()) {
    auto engine = New(options);
    EXPECT_TRUE(engine) << engine.error().message;
    return *std::move(engine);
  }
  std::string Refusal(const EngineOptions& options) {
    const auto engine = New(options);
    return engine ? "" : engine.error().message;
  }

  std::unique_ptr<Device> device_ = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
};

TEST_F(EngineRequests, ComeFromManyThreads) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEach = 5;
  std::vector<std::vector<std::vector<uint32_t>>> wanted;
  {
    EngineOptions alone = SmallOptions();
    alone.max_running = 1;
    alone.prefix_cache = false;
    const auto engine = Open(alone);
    for (uint32_t i = 0; i < kEach; ++i) {
      EngineRequest request = Ask(RandomText(i, 30 + 60 * i));
      const auto heard = Listen(request);
      ASSERT_TRUE(engine->Submit(std::move(request)));
      engine->Drain();
      wanted.push_back(AnswerBits(*heard));
    }
  }
  EngineOptions options = SmallOptions();
  options.plan_ahead = true;
  const auto engine = Open(options);
  std::vector<std::shared_ptr<const Heard>> found(size_t{kThreads * kEach});
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < kEach; ++i) {
        EngineRequest request = Ask(RandomText(i, 30 + 60 * i));
        found[thread * kEach + i] = Listen(request);
        EXPECT_TRUE(engine->Submit(std::move(request)));
        EXPECT_GE(engine->stats().scheduler.waiting, 0);
      }
      engine->Drain();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i]->ok());
    EXPECT_EQ(AnswerBits(*found[i]), wanted[i % kEach]);
  }
  EXPECT_GT(engine->stats().scheduler.cached_tokens, 0);
  EXPECT_EQ(engine->stats().scheduler.prompt_tokens, kThreads * (5 * 30 + 60 * 10));
  EXPECT_EQ(engine->LeakReport(), "");
}

TEST_F(EngineRequests, AreCancelledFromAnyThread) {
  const auto engine = Open();
  std::vector<std::shared_ptr<const Heard>> heard;
  for (uint32_t i = 0; i < 12; ++i) {
    EngineRequest request = Ask(RandomText(i, 200), 800);
    heard.push_back(Listen(request));
    const auto id = engine->Submit(std::move(request));
    ASSERT_TRUE(id);
    std::thread([&engine, id = *id] { engine->Cancel(id); }).join();
  }
  engine->Cancel(RequestId(1));  // once more, or too late
  engine->Drain();
  for (const auto& one : heard) {
    EXPECT_EQ(one->end, EndReason::kCancelled);
    EXPECT_TRUE(one->orderly);
  }
  EXPECT_EQ(engine->LeakReport(), "");
}

TEST_F(EngineRequests, MayBeSubmittedAndCancelledByAListener) {
  const auto engine = Open();
  std::shared_ptr<const Heard> second;
  EngineRequest request = Ask(RandomText(1, 20), 800);
  const auto first = Listen(
      request,
      [&](const GeneratedToken& token) {
        if (token.index == 2) {
          engine->Cancel(RequestId(1));
        }
        return true;
      },
      [&] {
        EngineRequest next = Ask(RandomText(2, 20), 3);
        second = Listen(next);
        EXPECT_TRUE(engine->Submit(std::move(next)));
      });
  ASSERT_TRUE(engine->Submit(std::move(request)));
  engine->Drain();
  EXPECT_EQ(first->end, EndReason::kCancelled);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->ids.size(), 3U);
}

// engine.E8
TEST_F(EngineRequests, EndWithTheirEngine) {
  for (const bool plan_ahead : {false, true}) {
    EngineOptions options = SmallOptions();
    options.plan_ahead = plan_ahead;
    std::vector<std::shared_ptr<const Heard>> heard;
    std::atomic<int> ends = 0;
    int resubmitted = 0;
    {
      auto engine = Open(options);
      for (uint32_t i = 0; i < 8; ++i) {
        EngineRequest request = Ask(RandomText(i, 100), 900);
        // Those who ask again at their end get no answer from an engine that goes.
        heard.push_back(Listen(request, {}, [&, engine = engine.get()] {
          ++ends;
          EngineRequest again = Ask(RandomText(1, 10), 900);
          again.listener =
              std::make_unique<Recorder>(std::make_shared<Heard>(), Recorder::OnTokenHook(), [] {});
          resubmitted += engine->Submit(std::move(again)) ? 1 : 0;
        }));
        ASSERT_TRUE(engine->Submit(std::move(request)));
      }
      while (engine->stats().times.steps < 3) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(ends, 8);
    EXPECT_EQ(resubmitted, 0);
    for (const auto& one : heard) {
      EXPECT_EQ(one->end, EndReason::kCancelled);
      EXPECT_TRUE(one->orderly);
    }
  }
}

TEST_F(EngineRequests, AreRefusedWhereTheQueueIsFull) {
  EngineOptions options = SmallOptions();
  options.max_running = 1;
  options.max_waiting = 2;
  const auto engine = Open(options);
  std::vector<std::shared_ptr<const Heard>> heard;
  Status refused;
  for (uint32_t i = 0; i < 20 && refused; ++i) {
    EngineRequest request = Ask(RandomText(i, 100), 900);
    auto one = Listen(request);
    if (const auto id = engine->Submit(std::move(request)); id) {
      heard.push_back(std::move(one));
    } else {
      refused = tl::unexpected(id.error());
      EXPECT_FALSE(one->end);
    }
  }
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message, "the queue is full: 2 requests wait");
  EXPECT_GE(heard.size(), 2U);
  for (size_t i = 0; i < heard.size(); ++i) {
    engine->Cancel(RequestId(static_cast<int64_t>(i) + 1));
  }
  engine->Drain();
  EngineRequest request = Ask(RandomText(50, 100), 1);
  const auto last = Listen(request);
  ASSERT_TRUE(engine->Submit(std::move(request)));
  engine->Drain();
  EXPECT_TRUE(last->ok());
}

TEST_F(EngineRequests, AreRefusedByNameWhereTheyCanNeverRun) {
  const auto engine = Open();
  const auto message = [&](EngineRequest request) {
    const auto heard = Listen(request);
    const auto id = engine->Submit(std::move(request));
    EXPECT_FALSE(heard->end);
    EXPECT_TRUE(id || id.error().code == StatusCode::kInvalidArgument);
    return id ? "" : id.error().message;
  };
  const auto with = [&](const auto& change) {
    EngineRequest request = Ask(RandomText(1, 10));
    change(request);
    return message(std::move(request));
  };
  EXPECT_EQ(message(Ask({3, 256})), "token 1 of the prompt is 256, expected 0 to 255");
  EXPECT_EQ(message(Ask({-1})), "token 0 of the prompt is -1, expected 0 to 255");
  EXPECT_EQ(message(Ask({})), "the prompt has no tokens");
  EXPECT_EQ(message(Ask(RandomText(1, 1024))),
            "the prompt has 1024 tokens, but the context holds 1024, the answer included");
  EXPECT_EQ(message(Ask(RandomText(1, 10), 0)), "0 new tokens asked for, expected at least 1");
  EXPECT_THAT(with([](EngineRequest& r) { r.sampling.top_p = 2; }), HasSubstr("top_p is 2"));
  EXPECT_THAT(with([](EngineRequest& r) { r.sampling.stop_ids = {256}; }), HasSubstr("256"));
  EXPECT_THAT(with([](EngineRequest& r) { r.sampling.logit_bias = {{-4, 1}}; }), HasSubstr("-4"));
  EXPECT_EQ(with([](EngineRequest& r) { r.top_logprobs = 21; }),
            "top_logprobs is 21, expected 0 to 20");
  EXPECT_EQ(with([](EngineRequest& r) { r.timeout = -1; }),
            "timeout is -1 seconds, expected 0 to 1e9");
  EXPECT_THAT(with([](EngineRequest& r) { r.timeout = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("timeout"));
  EXPECT_EQ(engine->LeakReport(), "");
}

TEST_F(EngineRequests, EndAtOnceWhereTheyHaveNoTime) {
  const auto engine = Open();
  EngineRequest request = Ask(RandomText(1, 10));
  request.timeout = 0;
  const auto heard = Listen(request);
  ASSERT_TRUE(engine->Submit(std::move(request)));
  engine->Drain();
  EXPECT_EQ(heard->end, EndReason::kDeadline);
}

TEST_F(EngineRequests, LeaveATraceThatReplays) {
  std::string trace;
  EngineOptions options = SmallOptions();
  options.host_cache_bytes = 1 << 20;
  options.cache_tokens = 1024;
  options.on_trace = [&](const std::string& line) { trace += line + "\n"; };
  {
    const auto engine = Open(options);
    for (uint32_t i = 0; i < 10; ++i) {
      EngineRequest request = Ask(RandomText(i % 3, 400), 10);
      Listen(request);
      ASSERT_TRUE(engine->Submit(std::move(request)));
    }
    engine->Drain();
  }
  const auto replayed = ReplayTrace(trace, "trace");
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_GT(replayed->plans, 10);
}

TEST_F(EngineRequests, NeedAnEngineWhoseOptionsMakeSense) {
  const auto with = [&](const auto& change) {
    EngineOptions options = SmallOptions();
    change(options);
    return Refusal(options);
  };
  EXPECT_THAT(with([](EngineOptions& o) { o.max_running = 0; }), HasSubstr("0 requests at once"));
  EXPECT_THAT(with([](EngineOptions& o) { o.chunked_prefill_size = 0; }),
              HasSubstr("0 tokens of prompts in a step"));
  EXPECT_THAT(with([](EngineOptions& o) { o.max_waiting = 0; }), HasSubstr("0 waiting requests"));
  EXPECT_THAT(with([](EngineOptions& o) { o.max_context = -1; }), HasSubstr("-1"));
  EXPECT_THAT(with([](EngineOptions& o) { o.max_context = int64_t{1} << 21; }),
              HasSubstr("the model's 1048576"));
  EXPECT_THAT(with([](EngineOptions& o) { o.cache_tokens = 0; }), HasSubstr("bytes"));
  EXPECT_THAT(with([](EngineOptions& o) { o.capture_sizes = {4, 2}; }), HasSubstr("2 requests"));
  EXPECT_THAT(with([](EngineOptions& o) { o.state = StateKind::kPaged; }),
              HasSubstr("paged state together with a prefix cache"));
}

TEST_F(EngineRequests, NeedADiskCacheThatCanBeUsed) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "engine_requests";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file") << "not a folder";
  EngineOptions options = SmallOptions();
  options.disk_cache_folder = folder / "file" / "cache";
  options.disk_cache_bytes = 64 << 20;
  EXPECT_THAT(Refusal(options), HasSubstr("by way of the host cache"));
  options.host_cache_bytes = 1 << 20;
  EXPECT_THAT(Refusal(options), HasSubstr(options.disk_cache_folder));
  options.disk_cache_folder = folder;
  options.disk_cache_bytes = 1;
  EXPECT_NE(Refusal(options), "");
  options.disk_cache_bytes = 64 << 20;
  options.on_trace = [](const std::string&) {};
  EXPECT_THAT(Refusal(options), HasSubstr("no trace together with a disk cache"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cachalot
