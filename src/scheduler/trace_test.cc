#include "scheduler/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "io/json.h"
#include "scheduler/scheduler_scene.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

// A scene with every kind of event.
std::vector<std::string> Record() {
  SchedulerOptions options = TightOptions(12, 2);
  options.prefix.host_slots = {8, 8};
  SchedulerScene scene(options);
  std::string trace = TraceHeader(options) + "\n";
  scene.scheduler.Observe([&](const SchedulerEvent& event) { trace += TraceLine(event) + "\n"; });
  for (int i = 0; i < 5; ++i) {
    scene.Submit(Text(i % 2, 300) + Text(i, 40), {.max_new_tokens = 20});
  }
  scene.Submit(Text(9, 30), {.max_new_tokens = 2, .priority = 3, .deadline = 50});
  for (int step = 0; step < 20; ++step) {
    scene.now = step;
    scene.Step();
  }
  scene.scheduler.Cancel(RequestId(2));
  scene.scheduler.Retract(RequestId(3));
  scene.Step();
  scene.Plan();
  scene.Note(scene.scheduler.Fail());
  scene.Submit(Text(1, 300), {.max_new_tokens = 3, .run_whole_prompt = true});
  scene.Drain();
  return LinesOf(trace);
}

Error Refusal(const std::string& text) {
  const auto result = ReplayTrace(text, "trace");
  EXPECT_FALSE(result) << text;
  return result ? Error() : result.error();
}

TEST(Trace, GivesTheSamePlansWhenReplayed) {
  const auto lines = Record();
  const auto result = ReplayTrace(Joined(lines), "trace");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->events, static_cast<int64_t>(lines.size()) - 1);
  EXPECT_GT(result->plans, 22);
}

TEST(Trace, NamesTheLineWhereAPlanDiffers) {
  const auto lines = Record();
  int changed = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    Json line = Json::parse(lines[i]);
    if (line["event"] != "plan") {
      continue;
    }
    for (const char* part : {"step", "moves", "run", "ended"}) {
      auto damaged = lines;
      Json copy = line;
      copy["decision"][part] = Json::array({"something else"});
      damaged[i] = copy.dump();
      const Error error = Refusal(Joined(damaged));
      EXPECT_EQ(error.code, StatusCode::kDataLoss);
      EXPECT_THAT(error.message, HasSubstr(fmt::format("trace: line {}: the plan differs", i + 1)));
      ++changed;
    }
    auto without = lines;
    line.erase("decision");
    without[i] = line.dump();
    EXPECT_THAT(Refusal(Joined(without)).message, HasSubstr("recorded none"));
  }
  EXPECT_GT(changed, 50);
}

// An event that is left out shows in a plan after it, or nothing depended on it.
TEST(Trace, NoticesThatARequestIsMissing) {
  const auto lines = Record();
  for (size_t i = 1; i < lines.size(); ++i) {
    if (Json::parse(lines[i])["event"] == "submit") {
      auto without = lines;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(Refusal(Joined(without)).code, StatusCode::kDataLoss);
    }
  }
}

TEST(Trace, RefusesHeadersThatNoSchedulerHas) {
  EXPECT_THAT(Refusal("").message, HasSubstr("empty"));
  EXPECT_THAT(Refusal("\n").message, HasSubstr("line 1"));
  EXPECT_THAT(Refusal("[]\n").message, HasSubstr("expected an object"));
  EXPECT_THAT(Refusal("{}\n").message, HasSubstr("expected the scheduler's options"));
  EXPECT_THAT(Refusal("{\"scheduler\":3}\n").message, HasSubstr("expected the scheduler's"));
  const Json good = Json::parse(TraceHeader(RoomyOptions()));
  for (const auto& [key, value] : good["scheduler"].items()) {
    const Json bad_values[] = {
        "12",       nullptr, 1.5,          -1, int64_t{1} << 24, int64_t{1} << 62,
        UINT64_MAX, 1e300,   Json::array()};
    for (const Json& bad : bad_values) {
      Json header = good;
      header["scheduler"][key] = bad;
      const auto result = ReplayTrace(header.dump() + "\n", "trace");
      if (!result) {
        EXPECT_EQ(result.error().code, StatusCode::kDataLoss);
        EXPECT_THAT(result.error().message, HasSubstr("trace: line 1: "));
      } else {
        EXPECT_EQ(bad, int64_t{1} << 24) << key;
      }
    }
    Json header = good;
    header["scheduler"].erase(key);
    EXPECT_THAT(Refusal(header.dump()).message, HasSubstr(key));
  }
  Json header = good;
  header["scheduler"]["chunk_tokens"] = 200;
  EXPECT_THAT(Refusal(header.dump()).message, HasSubstr("expected a multiple of 128"));
}

TEST(Trace, RefusesEventsThatCannotBe) {
  const std::string header = TraceHeader(RoomyOptions()) + "\n";
  const std::string submit =
      R"({"event":"submit","id":1,"max_new_tokens":4,"priority":0,"deadline":9,)"
      R"("run_whole_prompt":0,"prompt":[1,2,3]})"
      "\n";
  const auto with = [&](const char* key, const Json& value) {
    Json line = Json::parse(submit);
    line[key] = value;
    return header + line.dump() + "\n";
  };
  ASSERT_TRUE(ReplayTrace(header + submit, "trace"));
  const std::string hostile[] = {
      header + "{\"event\":\"submit\"",
      header + "{}\n",
      header + "{\"event\":7}\n",
      header + "{\"event\":\"dance\"}\n",
      header + "{\"event\":\"plan\"}\n",
      header + "{\"event\":\"plan\",\"now\":1e9}\n",
      header + "{\"event\":\"plan\",\"now\":18446744073709551615}\n",
      header + "{\"event\":\"complete\"}\n",
      header + "{\"event\":\"complete\",\"sampled\":[]}\n",
      header + "{\"event\":\"cancel\"}\n",
      header + "{\"event\":\"retract\",\"id\":-1}\n",
      header + submit + submit,
      with("id", -1),
      with("id", UINT64_MAX),
      with("max_new_tokens", 0),
      with("priority", int64_t{1} << 40),
      with("deadline", UINT64_MAX),
      with("run_whole_prompt", 2),
      with("prompt", 5),
      with("prompt", Json::array()),
      with("prompt", {1, "2"}),
      with("prompt", {1, int64_t{1} << 33}),
      with("prompt", {1, UINT64_MAX}),
      with("prompt", Tokens(30000)),
  };
  for (const std::string& text : hostile) {
    const Error error = Refusal(text);
    EXPECT_EQ(error.code, StatusCode::kDataLoss) << text;
    EXPECT_THAT(error.message, HasSubstr("trace: line ")) << text;
  }
  // These are passed over by the scheduler too.
  EXPECT_TRUE(ReplayTrace(header + "{\"event\":\"cancel\",\"id\":77}\n" +
                              "{\"event\":\"retract\",\"id\":77}\n{\"event\":\"fail\"}\n",
                          "trace"));
}

TEST(Trace, RefusesResultsThatNoPlanAskedFor) {
  const auto lines = Record();
  size_t complete = 0;
  while (Json::parse(lines[complete]).value("event", "") != "complete" ||
         Json::parse(lines[complete])["sampled"].empty()) {
    ++complete;
  }
  const Json result = Json::parse(lines[complete]);
  const auto with = [&](const Json& sampled) {
    auto damaged = lines;
    Json line = result;
    line["sampled"] = sampled;
    damaged[complete] = line.dump();
    return Joined(damaged);
  };
  Json token = result["sampled"][0];
  Json unknown = token;
  unknown["id"] = 12345;
  EXPECT_THAT(Refusal(with(Json::array({unknown}))).message, HasSubstr("did not sample"));
  EXPECT_THAT(Refusal(with(Json::array({token, token}))).message, HasSubstr("did not sample"));
  EXPECT_THAT(Refusal(with(Json::array({5}))).message, HasSubstr("list of objects"));
  EXPECT_THAT(Refusal(with("x")).message, HasSubstr("without its plan"));
  token["stop"] = 2;
  EXPECT_THAT(Refusal(with(Json::array({token}))).message, HasSubstr("stop"));
  auto twice = lines;
  twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(complete), lines[complete]);
  EXPECT_FALSE(ReplayTrace(Joined(twice), "trace"));
}

// Lines lost, doubled, exchanged, cut: an error, or the same plans after all, never an abort.
TEST(Trace, SurvivesAnyDamage) {
  const auto lines = Record();
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    auto damaged = lines;
    for (uint32_t times = random() % 3 + 1; times > 0; --times) {
      const auto at = [&] {
        return damaged.begin() + static_cast<std::ptrdiff_t>(random() % damaged.size());
      };
      switch (random() % 5) {
        case 0:
          damaged.erase(at());
          break;
        case 1:
          damaged.insert(at(), *at());
          break;
        case 2:
          std::swap(*at(), *at());
          break;
        case 3: {
          std::string& line = *at();
          line.resize(random() % (line.size() + 1));
          break;
        }
        default: {
          std::string& line = *at();
          if (!line.empty()) {
            line[random() % line.size()] = static_cast<char>(random() % 256);
          }
        }
      }
    }
    refused += !ReplayTrace(Joined(damaged), "trace");
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace cachalot
