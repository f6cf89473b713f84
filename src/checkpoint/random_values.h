// Random tensor contents at the speed of memory: value i of a stream depends on the stream's key
// and on i alone, so any piece can be made on its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace cachalot {

// 64 random bits for each counter (splitmix64).
inline uint64_t RandomBits(uint64_t key, uint64_t counter) {
  uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Nearly normal values in a stored dtype: the sum of four random bytes picks from a table of 1,021
// levels, which reach to 3.45 standard deviations.
class NormalCodes {
 public:
  // F32, BF16, F8_E4M3 or I8 values of this mean and standard deviation, rounded to the dtype.
  NormalCodes(DType dtype, double mean, double deviation);
  // Fills bytes with values [first, ...) of the stream; first must be even.
  void Fill(uint64_t key, int64_t first, std::span<std::byte> bytes) const;

 private:
  template <typename T>
  void FillAs(uint64_t key, int64_t first, std::span<std::byte> bytes) const;

  DType dtype_;
  std::vector<uint32_t> levels_;  // codes by sum
};

// Bytes [first, ...) of the stream, all values equally likely; first must be a multiple of 8.
void FillRandomBytes(uint64_t key, int64_t first, std::span<std::byte> bytes);

// ue8m0 codes of two neighbouring powers of two, mixed so that their mean square is deviation².
void FillRandomScales(uint64_t key, int64_t first, double deviation, std::span<std::byte> bytes);

// Rows [first, ...) of ids in [0, num_ids), distinct within a row of row_size.
void FillDistinctIds(uint64_t key, int64_t first, int64_t row_size, int64_t num_ids,
                     std::span<int64_t> ids);

}  // namespace cachalot
