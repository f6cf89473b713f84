// Rows of operands as floats: what the DeepSeek-V4 operators read and write in bulk. Offsets count
// elements from the operand's first one and rows lie in one piece, as phase 1 has checked.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "half.h"
#include "op.h"

namespace ascend_emulator {

class Rows {
 public:
  Rows(Kernel& kernel, const Operand& operand)
      : data_(kernel.Data<uint8_t>(operand)), dtype_(operand.dtype), size_(SizeOf(operand.dtype)) {}

  void Read(int64_t at, int64_t count, float* to) const {
    const uint8_t* from = data_ + at * size_;
    if (dtype_ == ACL_FLOAT) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    const auto* bits = reinterpret_cast<const uint16_t*>(from);
    if (dtype_ == ACL_BF16) {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = FromBf16(bits[i]);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = FromFp16(bits[i]);
      }
    }
  }

  std::vector<float> Read(int64_t at, int64_t count) const {
    std::vector<float> row(static_cast<size_t>(count));
    Read(at, count, row.data());
    return row;
  }

  // Rounds to the operand's dtype, to nearest even.
  void Write(int64_t at, int64_t count, const float* from) {
    uint8_t* to = data_ + at * size_;
    if (dtype_ == ACL_FLOAT) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    auto* bits = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < count; ++i) {
      bits[i] = dtype_ == ACL_BF16 ? ToBf16(from[i]) : ToFp16(from[i]);
    }
  }

  // What an operator leaves undefined reads as NaN, so that its use shows.
  void Poison(int64_t at, int64_t count) {
    const std::vector<float> nan(static_cast<size_t>(count),
                                 std::numeric_limits<float>::quiet_NaN());
    Write(at, count, nan.data());
  }

 private:
  uint8_t* data_;
  aclDataType dtype_;
  int64_t size_;
};

// Four floats at a time, whatever the compiler makes of loops.
using FourFloats = float __attribute__((vector_size(16)));

inline FourFloats LoadFour(const float* from) {
  FourFloats four;
  std::memcpy(&four, from, sizeof(four));
  return four;
}

// Sixteen partial sums, added pairwise: an order that is not that of the program's kernels.
inline float Dot(const float* a, const float* b, int64_t count) {
  FourFloats sums[4] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int part = 0; part < 4; ++part) {
      sums[part] += LoadFour(a + i + 4 * part) * LoadFour(b + i + 4 * part);
    }
  }
  float lanes[16];
  std::memcpy(lanes, sums, sizeof(lanes));
  for (int lane = 0; i < count; ++i, ++lane) {
    lanes[lane] += a[i] * b[i];
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

// to += factor * from.
inline void AddScaled(float factor, const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const FourFloats sum = LoadFour(to + i) + factor * LoadFour(from + i);
    std::memcpy(to + i, &sum, sizeof(sum));
  }
  for (; i < count; ++i) {
    to[i] += factor * from[i];
  }
}

// Rotates the pairs of a row: neighbours where `interleaved`, else elements half a row apart. Tables
// hold one entry per element.
inline void Rotate(float* row, const float* cos, const float* sin, int64_t width,
                   bool interleaved) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t a = interleaved ? 2 * i : i;
    const int64_t b = interleaved ? 2 * i + 1 : i + half;
    const float x = row[a];
    const float y = row[b];
    row[a] = x * cos[a] - y * sin[a];
    row[b] = y * cos[b] + x * sin[b];
  }
}

}  // namespace ascend_emulator
