#include "checkpoint/convert_w8a8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "numeric/formats.h"

namespace cachalot {
namespace {

constexpr int64_t kRows = 130;  // more than one block of fp8
constexpr int64_t kCols = 160;

void InThreeThreads(int64_t rows, const std::function<void(int64_t, int64_t)>& visit) {
  std::vector<std::thread> threads;
  for (int64_t part = 0; part < 3; ++part) {
    threads.emplace_back(visit, rows * part / 3, rows * (part + 1) / 3);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// A matrix of random codes, of which row 5 is zeros, and its memory.
struct Stored {
  explicit Stored(MatrixFormat format) : matrix{format, kRows, kCols, {}, {}} {
    std::normal_distribution<float> normal;
    const auto code = [&] { return static_cast<uint8_t>(random() % 127 + random() % 2 * 128); };
    switch (format) {
      case MatrixFormat::kF32:
        floats.resize(kRows * kCols);
        std::generate(floats.begin(), floats.end(), [&] { return normal(random); });
        std::fill_n(floats.begin() + 5 * kCols, kCols, 0.0F);
        matrix.values = {floats.data(), DType::kF32, {kRows, kCols}};
        return;
      case MatrixFormat::kBf16:
        halves.resize(kRows * kCols);
        std::generate(halves.begin(), halves.end(), [&] { return FloatToBf16(normal(random)); });
        std::fill_n(halves.begin() + 5 * kCols, kCols, Bf16{});
        matrix.values = {halves.data(), DType::kBf16, {kRows, kCols}};
        return;
      case MatrixFormat::kFp8Block:
        codes.resize(kRows * kCols);
        std::generate(codes.begin(), codes.end(), code);
        std::fill_n(codes.begin() + 5 * kCols, kCols, uint8_t{0});
        scales = {120, 121, 118, 123};
        matrix.values = {codes.data(), DType::kF8E4M3, {kRows, kCols}};
        matrix.scales = {scales.data(), DType::kF8E8M0, {2, 2}};
        return;
      case MatrixFormat::kFp4Block:
        codes.resize(kRows * kCols / 2);
        std::generate(codes.begin(), codes.end(), code);
        std::fill_n(codes.begin() + 5 * kCols / 2, kCols / 2, uint8_t{0x80});
        scales.resize(kRows * kCols / 32);
        std::generate(scales.begin(), scales.end(),
                      [&] { return static_cast<uint8_t>(115 + random() % 8); });
        matrix.values = {codes.data(), DType::kI8, {kRows, kCols / 2}};
        matrix.scales = {scales.data(), DType::kF8E8M0, {kRows, kCols / 32}};
        return;
      case MatrixFormat::kInt8Channel:
        codes.resize(kRows * kCols);
        std::generate(codes.begin(), codes.end(), code);
        floats.assign(kRows, 0.25F);
        matrix.values = {codes.data(), DType::kI8, {kRows, kCols}};
        matrix.scales = {floats.data(), DType::kF32, {kRows}};
        return;
    }
  }

  std::mt19937 random{7};
  std::vector<float> floats;
  std::vector<Bf16> halves;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  Matrix matrix;
};

constexpr MatrixFormat kFloatFormats[] = {MatrixFormat::kF32, MatrixFormat::kBf16,
                                          MatrixFormat::kFp8Block, MatrixFormat::kFp4Block};

TEST(ConvertW8A8, LeavesEveryValueWithinHalfAStepOfItsRow) {
  MatrixBuffer buffer;
  for (const MatrixFormat format : kFloatFormats) {
    SCOPED_TRACE(NameOf(format));
    const Stored stored(format);
    const Matrix converted = ToInt8Channel(stored.matrix, InThreeThreads, buffer);
    ASSERT_EQ(converted.format, MatrixFormat::kInt8Channel);
    ASSERT_EQ(converted.scales.shape, Shape({kRows}));
    for (int64_t row = 0; row < kRows; ++row) {
      const float scale = converted.scales.As<float>()[row];
      ASSERT_GT(scale, 0);
      int most = 0;
      for (int64_t col = 0; col < kCols; ++col) {
        const float value = ElementOf(stored.matrix, row, col);
        ASSERT_LE(std::fabs(ElementOf(converted, row, col) - value), scale * 0.50002F)
            << row << ", " << col;
        most = std::max(most, std::abs(converted.values.As<int8_t>()[row * kCols + col]));
      }
      EXPECT_EQ(most, row == 5 ? 0 : 127);
    }
  }
}

TEST(ConvertW8A8, KeepsBlocksOfSmallFloatsExactlyInBf16) {
  MatrixBuffer buffer;
  for (const MatrixFormat format : kFloatFormats) {
    SCOPED_TRACE(NameOf(format));
    const Stored stored(format);
    const Matrix converted = ToBf16(stored.matrix, InThreeThreads, buffer);
    ASSERT_EQ(converted.format, MatrixFormat::kBf16);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t col = 0; col < kCols; ++col) {
        const float value = ElementOf(stored.matrix, row, col);
        ASSERT_EQ(ElementOf(converted, row, col),
                  format == MatrixFormat::kF32 ? RoundToBf16(value) : value);
      }
    }
  }
}

TEST(ConvertW8A8, PassesOnWhatIsInItsFormatAlready) {
  MatrixBuffer buffer;
  const Stored int8(MatrixFormat::kInt8Channel);
  const Stored bf16(MatrixFormat::kBf16);
  EXPECT_EQ(ToInt8Channel(int8.matrix, InThreeThreads, buffer).values.data, int8.codes.data());
  EXPECT_EQ(ToBf16(int8.matrix, InThreeThreads, buffer).scales.data, int8.floats.data());
  EXPECT_EQ(ToBf16(bf16.matrix, InThreeThreads, buffer).values.data, bf16.halves.data());
}

TEST(ConvertW8A8, GivesTheModelTheRoundingOfAW8A8Checkpoint) {
  ModelConfig config;
  config.layout = WeightLayout::kNative;
  config.experts_fp4 = true;
  EXPECT_TRUE(config.quantised_kv());
  const ModelConfig converted = W8A8ConfigOf(config);
  EXPECT_FALSE(converted.quantised_kv());
  EXPECT_FALSE(converted.experts_fp4);
}

TEST(Matrix, GivesARowAsItsElements) {
  for (const MatrixFormat format :
       {MatrixFormat::kF32, MatrixFormat::kBf16, MatrixFormat::kFp8Block, MatrixFormat::kFp4Block,
        MatrixFormat::kInt8Channel}) {
    const Stored stored(format);
    std::vector<float> values(kCols);
    for (int64_t row = 0; row < kRows; ++row) {
      ReadRow(stored.matrix, row, values);
      for (int64_t col = 0; col < kCols; ++col) {
        ASSERT_EQ(values[static_cast<size_t>(col)], ElementOf(stored.matrix, row, col))
            << NameOf(format) << " at " << row << ", " << col;
      }
    }
  }
}

}  // namespace
}  // namespace cachalot
