#include "cli/engine_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/named_shapes.h"
#include "cli/flags.h"

namespace cachalot {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

EngineFlags Parsed(std::vector<const char*> arguments) {
  CLI::App app;
  EngineFlags flags;
  flags.AddTo(app);
  arguments.insert(arguments.begin(), "cachalot");
  app.parse(ReversedArguments(static_cast<int>(arguments.size()), arguments.data()));
  return flags;
}

ModelConfig Nano() { return *NamedShape("nano", WeightLayout::kNative); }

TEST(EngineFlags, TakeSizesAsPeopleWriteThem) {
  const EngineFlags flags = Parsed({"--cache_bytes", "2G", "--host-cache-bytes", "512M",
                                    "--disk-cache", "x", "--disk-cache-bytes", "1000"});
  EXPECT_EQ(flags.cache_bytes, 2 * kGiB);
  EXPECT_EQ(flags.host_cache_bytes, kGiB / 2);
  EXPECT_EQ(flags.disk_cache_bytes, 1000);
  EXPECT_EQ(Parsed({"--cache-bytes", "auto"}).cache_bytes, 0);
  EXPECT_THROW(Parsed({"--cache-bytes", "much"}), CLI::ParseError);
  EXPECT_THROW(Parsed({"--host-cache-bytes", "-1"}), CLI::ParseError);
}

TEST(EngineFlags, SwitchOffWhatIsOn) {
  EXPECT_TRUE(Parsed({}).graph);
  EXPECT_TRUE(Parsed({}).prefix_cache);
  EXPECT_FALSE(Parsed({"--graph", "off"}).graph);
  EXPECT_TRUE(Parsed({"--graph", "on"}).graph);
  EXPECT_FALSE(Parsed({"--no-prefix-cache"}).prefix_cache);
  EXPECT_EQ(Parsed({}).state, StateKind::kRing);
  EXPECT_EQ(Parsed({"--state", "paged"}).state, StateKind::kPaged);
  EXPECT_EQ(EngineOptionsOf({.prefix_cache = false, .state = StateKind::kPaged}, Nano())->state,
            StateKind::kPaged);
  EXPECT_THROW(Parsed({"--state", "heap"}), CLI::ParseError);
  EXPECT_THROW(Parsed({"--graph", "perhaps"}), CLI::ParseError);
}

TEST(EngineFlags, GiveADiskCacheAHostCacheToGoThrough) {
  const EngineOptions none = *EngineOptionsOf({}, Nano());
  EXPECT_EQ(none.host_cache_bytes, 0);
  EXPECT_EQ(none.disk_cache_bytes, 0);
  const EngineOptions disk = *EngineOptionsOf({.disk_cache_folder = "x"}, Nano());
  EXPECT_EQ(disk.host_cache_bytes, kGiB);
  EXPECT_EQ(disk.disk_cache_bytes, 16 * kGiB);
  EXPECT_EQ(
      EngineOptionsOf({.host_cache_bytes = 7, .disk_cache_folder = "x"}, Nano())->host_cache_bytes,
      7);
}

TEST(EngineFlags, NameThoseThatContradictEachOther) {
  const auto error = [](const EngineFlags& flags) {
    return EngineOptionsOf(flags, Nano()).error().message;
  };
  EXPECT_THAT(error({.prefix_cache = false, .host_cache_bytes = 1}),
              testing::HasSubstr("--host-cache-bytes"));
  EXPECT_THAT(error({.prefix_cache = false, .disk_cache_folder = "x"}),
              testing::HasSubstr("--no-prefix-cache"));
  EXPECT_THAT(error({.disk_cache_bytes = 1}), testing::HasSubstr("--disk-cache"));
  EXPECT_THAT(error({.state = StateKind::kPaged}),
              testing::HasSubstr("--state paged keeps no state of prefixes, expected "
                                 "--no-prefix-cache with it"));
  EXPECT_THAT(error({.context = Nano().max_position + 1}), testing::HasSubstr("context"));
}

TEST(DefaultCacheBytes, AreAQuarterOfMemoryWithinWhatIsOfUse) {
  const auto device = *OpenDevice({.num_threads = 1});
  EngineOptions options = *EngineOptionsOf({.max_running = 4, .context = 2048}, Nano());
  const auto bytes = [&](int64_t available) {
    return *DefaultCacheBytes(*device, Nano(), options, available);
  };
  // Whatever there is, it is enough for an engine.
  options.cache_bytes = bytes(0);
  EXPECT_TRUE(PlanCache(*device, Nano(), options).has_value());
  --options.cache_bytes;
  EXPECT_FALSE(PlanCache(*device, Nano(), options).has_value());

  const int64_t between = 2 * bytes(0);
  EXPECT_EQ(bytes(4 * between), between);

  options.cache_bytes = bytes(1000 * kGiB);
  EXPECT_LT(options.cache_bytes, 250 * kGiB);
  const CachePlan plan = *PlanCache(*device, Nano(), options);
  EXPECT_EQ(plan.geometry.full_pages * kPageTokens, 4 * 2048);
}

}  // namespace
}  // namespace cachalot
