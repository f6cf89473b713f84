#include "backends/cpu/ops/kernel_bench.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace cachalot::cpu {
namespace {

TEST(KernelBench, ReportsEveryVariantWithinItsBound) {
  if (DetectIsa() < Isa::kAvx2) {
    GTEST_SKIP() << "no kernels";
  }
  KernelBenchOptions options;
  options.op = "rms_norm";
  options.problem = "[3, 4, 512]";
  options.threads = {1, 2};
  options.repetitions = 2;
  options.test_problems = true;
  std::vector<KernelResult> results;
  BenchKernels(options, [&](const KernelResult& result) { results.push_back(result); });
  const auto variants = static_cast<size_t>(DetectIsa() >= Isa::kAvx512 ? 2 : 1);
  ASSERT_EQ(results.size(), 2 * variants);
  for (const KernelResult& result : results) {
    EXPECT_EQ(result.op, "rms_norm");
    EXPECT_EQ(result.tokens, 3);
    EXPECT_EQ(result.tokens_checked, 3);
    EXPECT_EQ(result.cost.bytes, 2.0 * 3 * 4 * 512 * 4);
    EXPECT_GT(result.seconds, 0);
    EXPECT_TRUE(result.within_bound());
  }
}

TEST(KernelBench, ChecksTheLastTokenOfALargeProblem) {
  if (DetectIsa() < Isa::kAvx2) {
    GTEST_SKIP() << "no kernels";
  }
  KernelBenchOptions options;
  options.op = "hc_pre";
  options.problem = "512 tokens, 4 streams of 1024";
  options.isas = {Isa::kAvx2};
  options.threads = {1};
  options.repetitions = 1;
  std::vector<KernelResult> results;
  BenchKernels(options, [&](const KernelResult& result) { results.push_back(result); });
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].tokens, 512);
  EXPECT_EQ(results[0].tokens_checked, 1);
  EXPECT_TRUE(results[0].within_bound());
  EXPECT_GT(results[0].error, 0);
}

TEST(KernelBench, NamesItsOperatorsOnce) {
  std::vector<std::string> names = BenchedOperators();
  EXPECT_THAT(names, testing::Contains("linear"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace cachalot::cpu
