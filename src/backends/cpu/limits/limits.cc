#include "backends/cpu/limits/limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "backends/cpu/limits/probes.h"
#include "base/check.h"

namespace cachalot::cpu {
namespace {

constexpr int64_t kBufferBytes = int64_t{2} << 30;
constexpr int64_t kHugePage = int64_t{2} << 20;
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

double StreamRate(ThreadPool& pool, const Probes& probes) {
  struct FreeMemory {
    void operator()(uint64_t* data) const { std::free(data); }
  };
  const std::unique_ptr<uint64_t, FreeMemory> buffer(
      static_cast<uint64_t*>(std::aligned_alloc(kHugePage, kBufferBytes)));
  CACHALOT_CHECK(buffer != nullptr, "no memory for {} bytes to read", kBufferBytes);
  ::madvise(buffer.get(), kBufferBytes, MADV_HUGEPAGE);
  // Each thread touches its own part first. Not zeros: some machines compress those.
  constexpr int64_t kWords = kGranule / static_cast<int64_t>(sizeof(uint64_t));
  pool.ParallelFor(kBufferBytes / kGranule, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kWords; i < end * kWords; ++i) {
      buffer.get()[i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U;
    }
  });
  std::atomic<uint64_t> result = 0;
  const double seconds = BestSeconds([&] {
    pool.ParallelFor(kBufferBytes / kGranule, [&](int64_t begin, int64_t end) {
      result ^= probes.read(buffer.get() + begin * kWords, (end - begin) * kGranule);
    });
  });
  return static_cast<double>(kBufferBytes) / seconds;
}

double PeakRate(ThreadPool& pool, const Peak& peak) {
  std::atomic<double> result = 0;
  const double seconds = BestSeconds([&] { pool.Run([&](int) { result = peak.run(kRounds); }); });
  return static_cast<double>(kRounds) * static_cast<double>(peak.operations_per_round) *
         pool.num_threads() / seconds;
}

}  // namespace

const char* MachineLimits::Binding(const OperatorCost& cost) const {
  const double move = cost.bytes / stream_bytes_per_second;
  return move >= cost.flops / best_flops_per_second() ? "memory" : "compute";
}

MachineLimits MeasureLimits(ThreadPool& pool, Isa isa) {
  CACHALOT_CHECK(isa >= Isa::kAvx2);
  const CallerPin pin(pool);
  const Probes& probes = isa >= Isa::kAvx512 ? avx512::kProbes : avx2::kProbes;
  MachineLimits limits;
  limits.stream_bytes_per_second = StreamRate(pool, probes);
  limits.fma_flops_per_second = PeakRate(pool, probes.fma);
  if (isa >= Isa::kAvx512 && __builtin_cpu_supports("avx512vnni")) {
    limits.vnni_ops_per_second = PeakRate(pool, avx512_vnni::kInt8);
  }
  if (isa >= Isa::kAmx) {
    limits.tile_bf16_flops_per_second = PeakRate(pool, amx::kBf16);
    limits.tile_int8_ops_per_second = PeakRate(pool, amx::kInt8);
  }
  return limits;
}

}  // namespace cachalot::cpu
