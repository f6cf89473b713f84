// Named problems: what tests and benchmarks run every variant of an operator on. A problem's case
// is made anew for each run, the same to the last bit each time, so that operators may work in
// place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/ops.h"

namespace cachalot::cpu {

// Owner of a case's memory, each tensor a heap block of its own: a sanitizer sees any step outside.
class ProblemData {
 public:
  explicit ProblemData(uint32_t seed) : random_(seed) {}

  std::mt19937& random() { return random_; }
  // A whole number of [low, high].
  int64_t Between(int64_t low, int64_t high);

  // All bits set: floats are NaN and integers -1, so what an operator forgets to write shows.
  Tensor Unwritten(DType dtype, const Shape& shape);
  Tensor Normal(const Shape& shape, double scale = 1, double mean = 0);
  Tensor Floats(const Shape& shape, const std::vector<float>& values);
  Tensor Ints(const Shape& shape, const std::vector<int32_t>& values);
  Tensor Longs(const Shape& shape, const std::vector<int64_t>& values);
  // Random codes of the format, products of about unit size.
  Matrix Weight(MatrixFormat format, int64_t rows, int64_t cols);
  // Rows of normal values as the layout keeps them.
  RowPool Pool(const RowLayout& layout, int64_t num_rows);
  // Frequencies base^(-2i/dim).
  RopeTable Rope(int64_t dim, double base = 10000);
  // An object that lives as long as the case, for what its Params only point to.
  template <typename T>
  T& Keep() {
    const auto object = std::make_shared<T>();
    kept_.push_back(object);
    return *object;
  }
  // Requests as (start_pos, tokens).
  StepRequests Requests(const std::vector<std::pair<int32_t, int32_t>>& requests);
  // [requests, pages_each]: all pages from `first` on, shuffled.
  Tensor Pages(int64_t requests, int64_t pages_each, int32_t first = 0);
  // [0, count) shuffled.
  std::vector<int32_t> Shuffled(int64_t count);
  // Those of the requests' tokens that are in [begin, end), for a step of these alone.
  StepRequests Slice(const StepRequests& requests, int64_t begin, int64_t end);

 private:
  void* Allocate(int64_t bytes);

  std::mt19937 random_;
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
  std::vector<std::shared_ptr<void>> kept_;
};

// What a run leaves behind: a tensor, or the rows of a pool.
struct Output {
  std::string name;
  Tensor tensor;
  RowPool pool;
};

std::vector<float> ValuesOf(const Output& output);  // pool rows decoded, integers as they are
std::string BytesOf(const Output& output);

template <typename Params>
struct Case {
  explicit Case(uint32_t seed) : data(seed) {}

  ProblemData data;
  Params params;
  int64_t tokens = 0;
  std::vector<Output> outputs;
};

template <typename Params>
struct Problem {
  std::string name;
  std::string format;  // with the operator, the key of the table in bounds.h
  std::function<void(Case<Params>&)> fill;

  std::unique_ptr<Case<Params>> Make() const {
    auto made = std::make_unique<Case<Params>>(20240917U);
    fill(*made);
    return made;
  }
};

// "f32/fp8": the format, then the rounding where there is one.
std::string NameOf(const RowLayout& layout);

}  // namespace cachalot::cpu
