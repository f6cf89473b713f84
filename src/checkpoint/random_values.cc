#include "checkpoint/random_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "numeric/formats.h"

namespace cachalot {
namespace {

constexpr int kLevels = 4 * 255 + 1;
constexpr double kMeanSum = 4 * 127.5;
// Of four uniform bytes: sqrt(4 (256² - 1) / 12).
constexpr double kSumDeviation = 147.79941;

uint32_t CodeOf(DType dtype, double value) {
  const auto rounded = static_cast<float>(value);
  switch (dtype) {
    case DType::kF32:
      return std::bit_cast<uint32_t>(rounded);
    case DType::kBf16:
      return FloatToBf16(rounded).bits;
    case DType::kF8E4M3:
      return FloatToE4m3(rounded);
    default:
      return static_cast<uint8_t>(
          static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.0, 127.0)));
  }
}

}  // namespace

NormalCodes::NormalCodes(DType dtype, double mean, double deviation) : dtype_(dtype) {
  CACHALOT_CHECK(dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF8E4M3 ||
                     dtype == DType::kI8,
                 "{}", NameOf(dtype));
  for (int sum = 0; sum < kLevels; ++sum) {
    levels_.push_back(CodeOf(dtype, mean + deviation * (sum - kMeanSum) / kSumDeviation));
  }
}

template <typename T>
void NormalCodes::FillAs(uint64_t key, int64_t first, std::span<std::byte> bytes) const {
  constexpr uint64_t kEvenBytes = 0x00FF00FF00FF00FFU;
  const uint32_t* levels = levels_.data();
  const size_t count = bytes.size() / sizeof(T);
  for (size_t i = 0; i < count; i += 2) {
    const uint64_t bits = RandomBits(key, static_cast<uint64_t>(first) / 2 + i / 2);
    // Two sums of four bytes, each from one half of the bits.
    const uint64_t pairs = (bits & kEvenBytes) + ((bits >> 8) & kEvenBytes);
    const uint64_t sums = pairs + (pairs >> 16);
    const T two[2] = {static_cast<T>(levels[sums & 0xFFFF]),
                      static_cast<T>(levels[(sums >> 32) & 0xFFFF])};
    std::memcpy(bytes.data() + i * sizeof(T), two, std::min<size_t>(2, count - i) * sizeof(T));
  }
}

void NormalCodes::Fill(uint64_t key, int64_t first, std::span<std::byte> bytes) const {
  CACHALOT_CHECK_EQ(first % 2, 0);
  switch (SizeOf(dtype_)) {
    case 4:
      return FillAs<uint32_t>(key, first, bytes);
    case 2:
      return FillAs<uint16_t>(key, first, bytes);
    default:
      return FillAs<uint8_t>(key, first, bytes);
  }
}

void FillRandomBytes(uint64_t key, int64_t first, std::span<std::byte> bytes) {
  CACHALOT_CHECK_EQ(first % 8, 0);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t bits = RandomBits(key, (static_cast<uint64_t>(first) + i) / 8);
    std::memcpy(bytes.data() + i, &bits, std::min<size_t>(8, bytes.size() - i));
  }
}

void FillRandomScales(uint64_t key, int64_t first, double deviation, std::span<std::byte> bytes) {
  const int exponent = static_cast<int>(std::floor(std::log2(deviation)));
  const double low = std::exp2(2.0 * exponent);  // mean square with the lower power alone
  const double share = (deviation * deviation - low) / (3 * low);
  const auto threshold = static_cast<uint8_t>(std::clamp(share * 256, 0.0, 255.0));
  const auto code = static_cast<uint8_t>(127 + exponent);
  FillRandomBytes(key, first, bytes);
  for (auto& byte : bytes) {
    const bool higher = static_cast<uint8_t>(byte) < threshold;
    byte = static_cast<std::byte>(code + (higher ? 1 : 0));
  }
}

void FillDistinctIds(uint64_t key, int64_t first, int64_t row_size, int64_t num_ids,
                     std::span<int64_t> ids) {
  CACHALOT_CHECK_LE(row_size, num_ids);
  std::vector<int64_t> all(static_cast<size_t>(num_ids));
  for (int64_t row = 0; row * row_size < static_cast<int64_t>(ids.size()); ++row) {
    for (int64_t i = 0; i < num_ids; ++i) {
      all[static_cast<size_t>(i)] = i;
    }
    for (int64_t i = 0; i < row_size; ++i) {
      const auto counter = static_cast<uint64_t>((first + row) * row_size + i);
      const auto left = static_cast<uint64_t>(num_ids - i);
      const auto pick = static_cast<size_t>(i) + RandomBits(key, counter) % left;
      std::swap(all[static_cast<size_t>(i)], all[pick]);
      ids[static_cast<size_t>(row * row_size + i)] = all[static_cast<size_t>(i)];
    }
  }
}

}  // namespace cachalot
