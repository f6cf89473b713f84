#include "backends/cpu/limits/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "backends/cpu/limits/probes.h"
#include "base/check.h"

namespace cachalot::cpu {
namespace {

constexpr int64_t kBufferBytes = int64_t{2} << 30;
constexpr int64_t kGranule = 256;
constexpr int64_t kRounds = 2'000'000;
constexpr int kTries = 5;

template <typename Work>
double BestSeconds(const Work& work) {
  double best = 1e9;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count());
  }
  return best;
}

}  // namespace

MachineLimits MeasureLimits(ThreadPool& pool, Isa isa) {
  CACHALOT_CHECK(isa >= Isa::kAvx2);
  const Probes& probes = isa >= Isa::kAvx512 ? avx512::kProbes : avx2::kProbes;
  // Each thread touches its own part first. Not zeros: some machines compress those.
  struct alignas(kGranule) Granule {
    uint64_t words[kGranule / sizeof(uint64_t)];
  };
  const std::unique_ptr<Granule[]> buffer(new Granule[kBufferBytes / kGranule]);
  pool.ParallelFor(kBufferBytes / kGranule, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (uint64_t& word : buffer[static_cast<size_t>(i)].words) {
        word = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U;
      }
    }
  });
  std::atomic<uint64_t> read_result = 0;
  const double read_seconds = BestSeconds([&] {
    pool.ParallelFor(kBufferBytes / kGranule, [&](int64_t begin, int64_t end) {
      read_result ^= probes.read(&buffer[static_cast<size_t>(begin)], (end - begin) * kGranule);
    });
  });
  std::atomic<float> sum_result = 0;
  const double fma_seconds =
      BestSeconds([&] { pool.Run([&](int) { sum_result = probes.multiply_add(kRounds); }); });
  const double flops = static_cast<double>(kRounds) * static_cast<double>(probes.flops_per_round) *
                       pool.num_threads();
  return {static_cast<double>(kBufferBytes) / read_seconds, flops / fma_seconds};
}

}  // namespace cachalot::cpu
