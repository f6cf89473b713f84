#include "model/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cachalot {
namespace {

ModelConfig PublishedConfig() {
  ModelConfig config;
  config.rope_dim = 64;
  config.rope_theta = 10000;
  config.compress_rope_theta = 160000;
  config.yarn = {16, 32, 1, 65536};
  return config;
}

TEST(RopeFrequencies, PlainTableIsGeometric) {
  const RopeFrequencies rope(PublishedConfig());
  const RopeTable table = rope.ForRatio(0);
  ASSERT_EQ(table.frequencies.size(), 32U);
  EXPECT_EQ(table.frequencies[0], 1);
  EXPECT_NEAR(table.frequencies[16], 0.01, 1e-15);
}

TEST(RopeFrequencies, CompressedTableHasThePublishedValues) {
  const RopeFrequencies rope(PublishedConfig());
  for (const int64_t ratio : {4, 128}) {
    const RopeTable table = rope.ForRatio(ratio);
    EXPECT_EQ(table.frequencies[0], 1);
    EXPECT_NEAR(table.frequencies[16], 0.002265625, 1e-12);
    EXPECT_NEAR(table.frequencies[20], 2.96977778e-4, 1e-12);
    EXPECT_NEAR(table.frequencies[24], 1.953125e-5, 1e-13);
    EXPECT_NEAR(table.frequencies[31], 5.68052904e-7, 1e-15);
  }
}

}  // namespace
}  // namespace cachalot
