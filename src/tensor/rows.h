// Rows of the caches: how one key/value row or one indexer key is kept in memory, and the rounding
// that the model itself applies to it. Sources: the published fp8 row of 584 bytes, the fp4 key of
// 68, the int8 key of 130.
#pragma once

#include <cstdint>
#include <span>

namespace cachalot {

// What the model rounds before a row is kept, whatever keeps it.
enum class RowRounding : uint8_t {
  kNone,
  kFp8,   // all but the last rope_dim values: e4m3 in blocks of 64 with a power-of-two scale
  kFp4,   // e2m1 in blocks of 32 with a power-of-two scale
  kInt8,  // symmetric int8, one float16 scale for the row
};

// How a row is laid out, for a width of W values of which the last R are the rope part:
//   kF32      W float32                                           4 W bytes
//   kBf16     W bfloat16                                          2 W
//   kFp8Bf16  W-R e4m3 | R bf16 | (W-R)/64 ue8m0, padded to 8     584 for W 512, R 64
//   kFp4      W/2 pairs | W/32 ue8m0                              68 for W 128
//   kInt8     W int8 | one float16                                130 for W 128; or in planes
// kFp8Bf16, kFp4 and kInt8 keep exactly what the rounding of that name leaves, save that the rope
// part goes to bf16.
enum class RowFormat : uint8_t { kF32, kBf16, kFp8Bf16, kFp4, kInt8 };

struct RowLayout {
  RowFormat format = RowFormat::kF32;
  RowRounding rounding = RowRounding::kNone;
  int64_t width = 0;
  int64_t rope_dim = 0;  // for kFp8; otherwise 0
  // kInt8 alone: the values of all rows of a page, then their scales (RowPool).
  bool planar = false;

  int64_t bytes() const;
  // Whether the format can keep what the rounding leaves.
  bool consistent() const;
};

// Rounds `values` as the layout says and keeps them at `row`. The definition that kernels are
// tested against. For layouts that are not planar.
void EncodeRow(const RowLayout& layout, std::span<const float> values, void* row);
void DecodeRow(const RowLayout& layout, const void* row, std::span<float> values);

// A pool of rows that a page allocator addresses: row r is at data + r * layout.bytes(). In a planar
// pool a page of plane_rows rows has as many bytes and begins at the same place, but within it the
// values of row i are at i * W and its scale at plane_rows * W + 2 * i.
struct RowPool {
  void* data = nullptr;
  RowLayout layout;
  int64_t num_rows = 0;
  int64_t plane_rows = 0;  // rows of a page; 0 where the layout is not planar

  bool empty() const { return data == nullptr; }
  // Not of a planar pool.
  void* row(int64_t index) const { return static_cast<uint8_t*>(data) + index * layout.bytes(); }
  // The two parts of a kInt8 row, planar or not.
  int8_t* int8_values(int64_t index) const;
  void* int8_scale(int64_t index) const;
};

// As the functions of the same name, for a row of a pool, planar or not.
void EncodeRow(const RowPool& pool, int64_t index, std::span<const float> values);
void DecodeRow(const RowPool& pool, int64_t index, std::span<float> values);

}  // namespace cachalot
