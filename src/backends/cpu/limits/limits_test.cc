#include "backends/cpu/limits/limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/limits/probes.h"

namespace cachalot::cpu {
namespace {

TEST(Probes, ReadEveryByte) {
  if (DetectIsa() < Isa::kAvx2) {
    GTEST_SKIP() << "no AVX2";
  }
  const Probes& probes = DetectIsa() >= Isa::kAvx512 ? avx512::kProbes : avx2::kProbes;
  struct alignas(64) Granule {
    uint64_t words[32];
  };
  std::vector<Granule> data(3);
  const uint64_t before = probes.read(data.data(), 3 * 256);
  for (Granule& granule : data) {
    for (uint64_t& word : granule.words) {
      word ^= 1;
      EXPECT_NE(probes.read(data.data(), 3 * 256), before);
      word ^= 1;
    }
  }
}

TEST(Probes, CarryOutAllProducts) {
  if (DetectIsa() < Isa::kAvx512 || !__builtin_cpu_supports("avx512vnni")) {
    GTEST_SKIP() << "no AVX-512 VNNI";
  }
  EXPECT_EQ(avx512_vnni::kInt8.run(5), 5 * 2.0 * 16 * 16);
  if (DetectIsa() < Isa::kAmx) {
    GTEST_SKIP() << "no AMX";
  }
  EXPECT_EQ(amx::kBf16.run(5), 5 * 2.0 * 4 * 256);
  EXPECT_EQ(amx::kInt8.run(5), 5 * 128.0 * 4 * 256);
}

TEST(MachineLimits, BindByTheLongerOfTwoTimes) {
  MachineLimits limits;
  limits.stream_bytes_per_second = 100;
  limits.fma_flops_per_second = 10;
  EXPECT_EQ(limits.SecondsFor({400, 20}), 4);
  EXPECT_STREQ(limits.Binding({400, 20}), "memory");
  EXPECT_EQ(limits.SecondsFor({100, 20}), 2);
  EXPECT_STREQ(limits.Binding({100, 20}), "compute");
  limits.tile_bf16_flops_per_second = 80;
  EXPECT_EQ(limits.SecondsFor({100, 20}), 1);
}

}  // namespace
}  // namespace cachalot::cpu
