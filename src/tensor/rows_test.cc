#include "tensor/rows.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "numeric/formats.h"

namespace cachalot {
namespace {

std::vector<float> RandomRow(int64_t width) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<size_t>(width));
  for (float& value : row) {
    value = normal(random);
  }
  return row;
}

std::vector<float> ThereAndBack(const RowLayout& layout, const std::vector<float>& values) {
  std::vector<uint8_t> row(static_cast<size_t>(layout.bytes()));
  EncodeRow(layout, values, row.data());
  std::vector<float> back(values.size());
  DecodeRow(layout, row.data(), back);
  return back;
}

TEST(Rows, HaveTheirPublishedSizes) {
  EXPECT_EQ((RowLayout{RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64}.bytes()), 584);
  EXPECT_EQ((RowLayout{RowFormat::kFp4, RowRounding::kFp4, 128, 0}.bytes()), 68);
  EXPECT_EQ((RowLayout{RowFormat::kInt8, RowRounding::kInt8, 128, 0}.bytes()), 130);
  EXPECT_EQ((RowLayout{RowFormat::kBf16, RowRounding::kNone, 512, 64}.bytes()), 1024);
}

TEST(Rows, PackedFormsKeepExactlyWhatTheRoundingLeaves) {
  const std::vector<float> values = RandomRow(512);
  const auto fp8 = ThereAndBack({RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64}, values);
  const auto fp8_f32 = ThereAndBack({RowFormat::kF32, RowRounding::kFp8, 512, 64}, values);
  const auto fp8_bf16 = ThereAndBack({RowFormat::kBf16, RowRounding::kFp8, 512, 64}, values);
  for (size_t i = 0; i < 448; ++i) {
    ASSERT_EQ(fp8[i], fp8_f32[i]);
    ASSERT_EQ(fp8_bf16[i], fp8_f32[i]);
  }
  for (size_t i = 448; i < 512; ++i) {
    ASSERT_EQ(fp8[i], RoundToBf16(values[i]));
    ASSERT_EQ(fp8_f32[i], values[i]);
  }
  const std::vector<float> key = RandomRow(128);
  EXPECT_EQ(ThereAndBack({RowFormat::kFp4, RowRounding::kFp4, 128, 0}, key),
            ThereAndBack({RowFormat::kF32, RowRounding::kFp4, 128, 0}, key));
  EXPECT_EQ(ThereAndBack({RowFormat::kInt8, RowRounding::kInt8, 128, 0}, key),
            ThereAndBack({RowFormat::kF32, RowRounding::kInt8, 128, 0}, key));
}

TEST(Rows, StandInPlanesWithinTheBytesOfTheirPage) {
  constexpr int64_t kPageRows = 16;
  constexpr int64_t kRows = 3 * kPageRows;
  const RowLayout layout{RowFormat::kInt8, RowRounding::kInt8, 128, 0};
  std::vector<uint8_t> bytes(static_cast<size_t>(kRows * layout.bytes()), 0x5A);
  RowPool pool{bytes.data(), layout, kRows, kPageRows};
  pool.layout.planar = true;
  EXPECT_EQ(pool.layout.bytes(), 130);
  const std::vector<float> values = RandomRow(128);
  for (const int64_t index : {int64_t{0}, int64_t{17}, int64_t{31}, kRows - 1}) {
    const uint8_t* page = bytes.data() + index / kPageRows * kPageRows * 130;
    EXPECT_EQ(static_cast<void*>(pool.int8_values(index)), page + index % kPageRows * 128);
    EXPECT_EQ(pool.int8_scale(index), page + kPageRows * 128 + index % kPageRows * 2);
    const std::vector<uint8_t> before = bytes;
    EncodeRow(pool, index, values);
    std::vector<float> back(128);
    DecodeRow(pool, index, back);
    EXPECT_EQ(back, ThereAndBack(layout, values));
    int64_t changed = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      changed += bytes[i] != before[i] ? 1 : 0;
    }
    EXPECT_LE(changed, 130);
  }
  // The same functions over rows that stand one after the other.
  pool.layout = layout;
  EncodeRow(pool, 5, values);
  std::vector<float> back(128);
  DecodeRow(layout, bytes.data() + 5 * 130, back);
  EXPECT_EQ(back, ThereAndBack(layout, values));
  EXPECT_EQ(pool.int8_scale(5), bytes.data() + 5 * 130 + 128);
}

TEST(Rows, RefuseAFormatThatWouldLoseTheRounding) {
  EXPECT_FALSE((RowLayout{RowFormat::kFp8Bf16, RowRounding::kNone, 512, 64}.consistent()));
  EXPECT_FALSE((RowLayout{RowFormat::kFp4, RowRounding::kInt8, 128, 0}.consistent()));
  EXPECT_FALSE((RowLayout{RowFormat::kFp8Bf16, RowRounding::kFp8, 500, 64}.consistent()));
  EXPECT_TRUE((RowLayout{RowFormat::kBf16, RowRounding::kFp8, 512, 64}.consistent()));
  EXPECT_TRUE((RowLayout{RowFormat::kInt8, RowRounding::kInt8, 128, 0, true}.consistent()));
  EXPECT_FALSE((RowLayout{RowFormat::kFp4, RowRounding::kFp4, 128, 0, true}.consistent()));
}

}  // namespace
}  // namespace cachalot
