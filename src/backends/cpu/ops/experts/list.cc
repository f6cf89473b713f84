#include <algorithm>

#include "backends/cpu/ops/experts/ref.h"
#include "backends/cpu/ops/experts/vector.h"
#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {
namespace {

bool Fits(const ExpertWeights& expert) {
  const int64_t cols = std::max(expert.w1.cols, expert.w2.cols);
  return expert.w1.format != MatrixFormat::kInt8Channel || cols <= amx::kMaxInt8Cols;
}

const char* AmxSupports(const ExpertsParams& params) {
  const bool fits = Fits(params.routed[0]) && Fits(*params.shared);
  return fits ? nullptr : "sums of so many int8 products leave 32 bits";
}

}  // namespace

std::span<const Variant<ExpertsParams>> ExpertsVariants() {
  static constexpr Variant<ExpertsParams> kVariants[] = {
      {"amx_experts", Isa::kAmx, AmxSupports, AmxExperts},
      {"avx512_experts", Isa::kAvx512, SupportsAll, Avx512Experts},
      {"avx2_experts", Isa::kAvx2, SupportsAll, Avx2Experts},
      {"ref_experts", Isa::kRef, SupportsAll, RefExperts},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
