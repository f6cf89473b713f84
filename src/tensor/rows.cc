#include "tensor/rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "numeric/formats.h"
#include "numeric/quantise.h"

namespace cachalot {
namespace {

constexpr int64_t kFp8Block = 64;
constexpr int64_t kFp4Block = 32;
constexpr int64_t kInt8ScaleBytes = 2;  // a float16

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void Round(const RowLayout& layout, std::span<float> values) {
  switch (layout.rounding) {
    case RowRounding::kNone:
      return;
    case RowRounding::kFp8:
      RoundFp8Blocks(values.first(values.size() - static_cast<size_t>(layout.rope_dim)), kFp8Block);
      return;
    case RowRounding::kFp4:
      RoundFp4Blocks(values, kFp4Block);
      return;
    case RowRounding::kInt8:
      RoundInt8Row(values);
      return;
  }
}

void EncodeFp8Bf16(const RowLayout& layout, std::span<const float> values, uint8_t* row) {
  const int64_t nope = layout.width - layout.rope_dim;
  uint8_t* scales = row + nope + 2 * layout.rope_dim;
  for (int64_t begin = 0; begin < nope; begin += kFp8Block) {
    const float scale = QuantiseFp8(values.subspan(static_cast<size_t>(begin), kFp8Block),
                                    {row + begin, static_cast<size_t>(kFp8Block)});
    scales[begin / kFp8Block] = PowerOfTwoToUe8m0(scale);
  }
  for (int64_t i = 0; i < layout.rope_dim; ++i) {
    const Bf16 value = FloatToBf16(values[static_cast<size_t>(nope + i)]);
    std::memcpy(row + nope + 2 * i, &value, sizeof(value));
  }
}

void DecodeFp8Bf16(const RowLayout& layout, const uint8_t* row, std::span<float> values) {
  const int64_t nope = layout.width - layout.rope_dim;
  const uint8_t* scales = row + nope + 2 * layout.rope_dim;
  for (int64_t i = 0; i < nope; ++i) {
    values[static_cast<size_t>(i)] = E4m3ToFloat(row[i]) * Ue8m0ToFloat(scales[i / kFp8Block]);
  }
  for (int64_t i = 0; i < layout.rope_dim; ++i) {
    Bf16 value;
    std::memcpy(&value, row + nope + 2 * i, sizeof(value));
    values[static_cast<size_t>(nope + i)] = Bf16ToFloat(value);
  }
}

void EncodeFp4(const RowLayout& layout, std::span<const float> values, uint8_t* row) {
  uint8_t* scales = row + layout.width / 2;
  for (int64_t begin = 0; begin < layout.width; begin += kFp4Block) {
    const float scale = QuantiseFp4(values.subspan(static_cast<size_t>(begin), kFp4Block),
                                    {row + begin / 2, static_cast<size_t>(kFp4Block / 2)});
    scales[begin / kFp4Block] = PowerOfTwoToUe8m0(scale);
  }
}

void DecodeFp4(const RowLayout& layout, const uint8_t* row, std::span<float> values) {
  const uint8_t* scales = row + layout.width / 2;
  for (int64_t i = 0; i < layout.width; ++i) {
    const int code = (i % 2 == 0 ? row[i / 2] : row[i / 2] >> 4) & 0xF;
    values[static_cast<size_t>(i)] =
        E2m1ToFloat(static_cast<uint8_t>(code)) * Ue8m0ToFloat(scales[i / kFp4Block]);
  }
}

void EncodeInt8(std::span<const float> values, int8_t* codes, void* scale) {
  const uint16_t kept = FloatToF16(QuantiseInt8(values, {codes, values.size()}));
  std::memcpy(scale, &kept, sizeof(kept));
}

void DecodeInt8(const int8_t* codes, const void* scale, std::span<float> values) {
  uint16_t kept = 0;
  std::memcpy(&kept, scale, sizeof(kept));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(codes[i]) * F16ToFloat(kept);
  }
}

}  // namespace

int64_t RowLayout::bytes() const {
  switch (format) {
    case RowFormat::kF32:
      return 4 * width;
    case RowFormat::kBf16:
      return 2 * width;
    case RowFormat::kFp8Bf16:
      return width + rope_dim + RoundUp((width - rope_dim) / kFp8Block, 8);
    case RowFormat::kFp4:
      return width / 2 + width / kFp4Block;
    case RowFormat::kInt8:
      return width + kInt8ScaleBytes;
  }
  return 0;
}

bool RowLayout::consistent() const {
  if (planar && format != RowFormat::kInt8) {
    return false;
  }
  switch (format) {
    case RowFormat::kF32:
      return true;
    case RowFormat::kBf16:
      return rounding == RowRounding::kNone || rounding == RowRounding::kFp8;
    case RowFormat::kFp8Bf16:
      return rounding == RowRounding::kFp8 && (width - rope_dim) % kFp8Block == 0;
    case RowFormat::kFp4:
      return rounding == RowRounding::kFp4 && width % kFp4Block == 0;
    case RowFormat::kInt8:
      return rounding == RowRounding::kInt8;
  }
  return false;
}

void EncodeRow(const RowLayout& layout, std::span<const float> values, void* row) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(values.size()), layout.width);
  CACHALOT_CHECK(!layout.planar, "a planar row has no address of its own");
  auto* bytes = static_cast<uint8_t*>(row);
  switch (layout.format) {
    case RowFormat::kFp8Bf16:
      return EncodeFp8Bf16(layout, values, bytes);
    case RowFormat::kFp4:
      return EncodeFp4(layout, values, bytes);
    case RowFormat::kInt8:
      return EncodeInt8(values, reinterpret_cast<int8_t*>(bytes), bytes + layout.width);
    case RowFormat::kF32:
    case RowFormat::kBf16:
      break;
  }
  std::vector<float> rounded(values.begin(), values.end());
  Round(layout, rounded);
  if (layout.format == RowFormat::kF32) {
    std::memcpy(row, rounded.data(), rounded.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < rounded.size(); ++i) {
    const Bf16 value = FloatToBf16(rounded[i]);
    std::memcpy(bytes + 2 * i, &value, sizeof(value));
  }
}

void DecodeRow(const RowLayout& layout, const void* row, std::span<float> values) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(values.size()), layout.width);
  CACHALOT_CHECK(!layout.planar, "a planar row has no address of its own");
  const auto* bytes = static_cast<const uint8_t*>(row);
  switch (layout.format) {
    case RowFormat::kF32:
      std::memcpy(values.data(), row, values.size() * sizeof(float));
      return;
    case RowFormat::kBf16:
      for (size_t i = 0; i < values.size(); ++i) {
        Bf16 value;
        std::memcpy(&value, bytes + 2 * i, sizeof(value));
        values[i] = Bf16ToFloat(value);
      }
      return;
    case RowFormat::kFp8Bf16:
      return DecodeFp8Bf16(layout, bytes, values);
    case RowFormat::kFp4:
      return DecodeFp4(layout, bytes, values);
    case RowFormat::kInt8:
      return DecodeInt8(reinterpret_cast<const int8_t*>(bytes), bytes + layout.width, values);
  }
}

int8_t* RowPool::int8_values(int64_t index) const {
  auto* bytes = static_cast<int8_t*>(data);
  if (!layout.planar) {
    return bytes + index * layout.bytes();
  }
  return bytes + index / plane_rows * plane_rows * layout.bytes() +
         index % plane_rows * layout.width;
}

void* RowPool::int8_scale(int64_t index) const {
  if (!layout.planar) {
    return int8_values(index) + layout.width;
  }
  auto* page = static_cast<int8_t*>(data) + index / plane_rows * plane_rows * layout.bytes();
  return page + plane_rows * layout.width + index % plane_rows * kInt8ScaleBytes;
}

void EncodeRow(const RowPool& pool, int64_t index, std::span<const float> values) {
  if (!pool.layout.planar) {
    return EncodeRow(pool.layout, values, pool.row(index));
  }
  CACHALOT_CHECK_EQ(static_cast<int64_t>(values.size()), pool.layout.width);
  EncodeInt8(values, pool.int8_values(index), pool.int8_scale(index));
}

void DecodeRow(const RowPool& pool, int64_t index, std::span<float> values) {
  if (!pool.layout.planar) {
    return DecodeRow(pool.layout, pool.row(index), values);
  }
  CACHALOT_CHECK_EQ(static_cast<int64_t>(values.size()), pool.layout.width);
  DecodeInt8(pool.int8_values(index), pool.int8_scale(index), values);
}

}  // namespace cachalot
