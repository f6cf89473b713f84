#include <bit>
#include <cmath>
#include <vector>

#include "backends/ascend/op_context.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

std::vector<Bf16> OnesOf(int64_t n) {
  return std::vector<Bf16>(static_cast<size_t>(n), FloatToBf16(1));
}

std::vector<Bf16> HadamardOf(int64_t n) {
  CACHALOT_CHECK(std::has_single_bit(static_cast<uint64_t>(n)), "a Hadamard matrix of {}", n);
  const auto value = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  std::vector<Bf16> matrix;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      const bool negative = std::popcount(static_cast<uint64_t>(row & column)) % 2 == 1;
      matrix.push_back(FloatToBf16(negative ? -value : value));
    }
  }
  return matrix;
}

}  // namespace

Tensor Constants::Ones(int64_t n) { return Get(Kind::kOnes, n).Reshaped({n}); }

Tensor Constants::Hadamard(int64_t n) { return Get(Kind::kHadamard, n).Reshaped({n, n}); }

Tensor Constants::Get(Kind kind, int64_t n) {
  const int64_t count = kind == Kind::kOnes ? n : n * n;
  Buffer& buffer = made_[{kind, n}];
  if (buffer.data() == nullptr) {
    CACHALOT_CHECK(!stream_.capturing(), "a constant that is first asked for in a capture");
    Result<Buffer> allocated = device_->Allocate(count * SizeOf(DType::kBf16));
    if (!allocated) {
      stream_.Fail(allocated.error());
      return {nullptr, DType::kBf16, {count}};
    }
    buffer = std::move(*allocated);
    const std::vector<Bf16> values = kind == Kind::kOnes ? OnesOf(n) : HadamardOf(n);
    stream_.Upload(values.data(), buffer.As(DType::kBf16, {count}));
  }
  return buffer.As(DType::kBf16, {count});
}

}  // namespace cachalot::ascend
