#include "backends/cpu/ops/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace cachalot::cpu {

void* ProblemData::Allocate(int64_t bytes) {
  blocks_.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  return blocks_.back().get();
}

int64_t ProblemData::Between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

Tensor ProblemData::Unwritten(DType dtype, const Shape& shape) {
  Tensor tensor{nullptr, dtype, shape};
  tensor.data = Allocate(tensor.bytes());
  std::memset(tensor.data, 0xFF, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

Tensor ProblemData::Normal(const Shape& shape, double scale, double mean) {
  const Tensor tensor = Unwritten(DType::kF32, shape);
  std::normal_distribution<double> normal(mean, scale);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(normal(random_));
  }
  return tensor;
}

Tensor ProblemData::Floats(const Shape& shape, const std::vector<float>& values) {
  const Tensor tensor = Unwritten(DType::kF32, shape);
  CACHALOT_CHECK_EQ(tensor.num_elements(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.As<float>());
  return tensor;
}

Tensor ProblemData::Ints(const Shape& shape, const std::vector<int32_t>& values) {
  const Tensor tensor = Unwritten(DType::kI32, shape);
  CACHALOT_CHECK_EQ(tensor.num_elements(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.As<int32_t>());
  return tensor;
}

Tensor ProblemData::Longs(const Shape& shape, const std::vector<int64_t>& values) {
  const Tensor tensor = Unwritten(DType::kI64, shape);
  CACHALOT_CHECK_EQ(tensor.num_elements(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.As<int64_t>());
  return tensor;
}

Matrix ProblemData::Weight(MatrixFormat format, int64_t rows, int64_t cols) {
  Matrix matrix{format, rows, cols, {}, {}};
  const double deviation = 1 / std::sqrt(static_cast<double>(cols));
  const auto bytes = [&](DType dtype, const Shape& shape, int64_t low, int64_t high) {
    const Tensor tensor = Unwritten(dtype, shape);
    for (int64_t i = 0; i < tensor.bytes(); ++i) {
      static_cast<uint8_t*>(tensor.data)[i] = static_cast<uint8_t>(Between(low, high));
    }
    return tensor;
  };
  // Scales around 2^center, so that products come out near one: random e4m3 codes have a root mean
  // square of about 2^7, e2m1 of about 2^1.
  const auto scales = [&](const Shape& shape, double code_exponent) {
    const auto center = static_cast<int64_t>(127 - code_exponent + std::log2(deviation));
    return bytes(DType::kF8E8M0, shape, center - 1, center + 1);
  };
  const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  switch (format) {
    case MatrixFormat::kF32:
      matrix.values = Normal({rows, cols}, deviation);
      break;
    case MatrixFormat::kBf16: {
      const Tensor values = Normal({rows, cols}, deviation);
      matrix.values = Unwritten(DType::kBf16, {rows, cols});
      std::transform(values.As<float>(), values.As<float>() + rows * cols, matrix.values.As<Bf16>(),
                     FloatToBf16);
      break;
    }
    case MatrixFormat::kFp8Block:
      matrix.values = bytes(DType::kF8E4M3, {rows, cols}, 0, 253);
      for (int64_t i = 0; i < rows * cols; ++i) {  // 0x7F is NaN, and so is 0xFF
        auto& code = static_cast<uint8_t*>(matrix.values.data)[i];
        code = code == 0x7F ? 0xFE : code;
      }
      matrix.scales = scales({blocks(rows, kFp8BlockSize), blocks(cols, kFp8BlockSize)}, 7);
      break;
    case MatrixFormat::kFp4Block:
      matrix.values = bytes(DType::kI8, {rows, cols / 2}, 0, 255);
      matrix.scales = scales({rows, cols / kFp4BlockSize}, 1);
      break;
    case MatrixFormat::kInt8Channel:
      matrix.values = bytes(DType::kI8, {rows, cols}, 0, 254);
      matrix.scales = Normal({rows}, 0.002 * deviation, 0.015 * deviation);
      for (int64_t i = 0; i < rows * cols; ++i) {  // -128 is no code
        auto& code = static_cast<int8_t*>(matrix.values.data)[i];
        code = code == -128 ? int8_t{-127} : code;
      }
      break;
  }
  return matrix;
}

RowPool ProblemData::Pool(const RowLayout& layout, int64_t num_rows) {
  const RowPool pool{Allocate(num_rows * layout.bytes()), layout, num_rows};
  std::vector<float> row(static_cast<size_t>(layout.width));
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < num_rows; ++i) {
    std::generate(row.begin(), row.end(), [&] { return normal(random_); });
    EncodeRow(layout, row, pool.row(i));
  }
  return pool;
}

RopeTable ProblemData::Rope(int64_t dim, double base) {
  auto& frequencies = Keep<std::vector<double>>();
  for (int64_t i = 0; i < dim / 2; ++i) {
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  }
  return {dim, frequencies};
}

StepRequests ProblemData::Requests(const std::vector<std::pair<int32_t, int32_t>>& requests) {
  std::vector<int32_t> starts = {0};
  std::vector<int32_t> positions;
  for (const auto& [start, tokens] : requests) {
    starts.push_back(starts.back() + tokens);
    positions.push_back(start);
  }
  const auto count = static_cast<int64_t>(requests.size());
  return {Ints({count + 1}, starts), Ints({count}, positions)};
}

std::vector<int32_t> ProblemData::Shuffled(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  std::shuffle(values.begin(), values.end(), random_);
  return values;
}

Tensor ProblemData::Pages(int64_t requests, int64_t pages_each, int32_t first) {
  std::vector<int32_t> pages = Shuffled(requests * pages_each);
  for (int32_t& page : pages) {
    page += first;
  }
  return Ints({requests, pages_each}, pages);
}

StepRequests ProblemData::Slice(const StepRequests& requests, int64_t begin, int64_t end) {
  const int64_t count = requests.start_pos.shape[0];
  const int32_t* starts = requests.query_starts.As<int32_t>();
  std::vector<std::pair<int32_t, int32_t>> sliced;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t first = std::clamp<int64_t>(starts[b], begin, end);
    const int64_t last = std::clamp<int64_t>(starts[b + 1], begin, end);
    const int64_t done = std::clamp<int64_t>(begin, starts[b], starts[b + 1]) - starts[b];
    sliced.emplace_back(requests.start_pos.As<int32_t>()[b] + static_cast<int32_t>(done),
                        static_cast<int32_t>(last - first));
  }
  return Requests(sliced);
}

std::vector<float> ValuesOf(const Output& output) {
  std::vector<float> values;
  if (!output.pool.empty()) {
    std::vector<float> row(static_cast<size_t>(output.pool.layout.width));
    for (int64_t i = 0; i < output.pool.num_rows; ++i) {
      DecodeRow(output.pool.layout, output.pool.row(i), row);
      values.insert(values.end(), row.begin(), row.end());
    }
  } else if (output.tensor.dtype == DType::kF32) {
    const float* from = output.tensor.As<float>();
    values.assign(from, from + output.tensor.num_elements());
  } else {
    const int32_t* from = output.tensor.As<int32_t>();
    values.assign(from, from + output.tensor.num_elements());
  }
  return values;
}

std::string BytesOf(const Output& output) {
  if (!output.pool.empty()) {
    return {static_cast<const char*>(output.pool.data),
            static_cast<size_t>(output.pool.num_rows * output.pool.layout.bytes())};
  }
  return {static_cast<const char*>(output.tensor.data), static_cast<size_t>(output.tensor.bytes())};
}

std::string NameOf(const RowLayout& layout) {
  static constexpr const char* kFormats[] = {"f32", "bf16", "fp8bf16", "fp4", "int8"};
  static constexpr const char* kRoundings[] = {"", "/fp8", "/fp4", "/int8"};
  return std::string(kFormats[static_cast<size_t>(layout.format)]) +
         kRoundings[static_cast<size_t>(layout.rounding)];
}

}  // namespace cachalot::cpu
