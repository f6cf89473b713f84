#include "checkpoint/materialise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace cachalot {
namespace {

constexpr size_t kAlignment = 64;

// Element i of data at any address.
template <typename T>
T At(std::span<const std::byte> data, size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

// The file's own bytes, or a copy of them where their address does not suit the dtype.
Tensor View(const FoundTensor& found, DType dtype, const Shape& shape, CopyArena& arena) {
  const auto address = reinterpret_cast<uintptr_t>(found.data.data());
  if (address % static_cast<uintptr_t>(SizeOf(dtype)) == 0) {
    return {const_cast<std::byte*>(found.data.data()), dtype, shape};
  }
  std::byte* copy = arena.Allocate(found.data.size());
  std::memcpy(copy, found.data.data(), found.data.size());
  return {copy, dtype, shape};
}

// bf16 as F32.
Tensor Widen(const FoundTensor& found, const Shape& shape, CopyArena& arena) {
  const size_t count = found.data.size() / sizeof(Bf16);
  auto* values = reinterpret_cast<float*>(arena.Allocate(count * sizeof(float)));
  for (size_t i = 0; i < count; ++i) {
    values[i] = Bf16ToFloat(At<Bf16>(found.data, i));
  }
  return {values, DType::kF32, shape};
}

Tensor AsFloats(const FoundTensor& found, const Shape& shape, CopyArena& arena) {
  return found.dtype == NameOf(DType::kBf16) ? Widen(found, shape, arena)
                                             : View(found, DType::kF32, shape, arena);
}

tl::unexpected<Error> BadElement(const FoundTensor& found, int64_t index, const std::string& value,
                                 const std::string& expected) {
  const int64_t cols = found.shape.rank() > 1 ? found.shape[found.shape.rank() - 1] : 1;
  return MakeError(StatusCode::kDataLoss, "{}: tensor {} has {} at [{}, {}], expected {}",
                   found.file, found.name, value, index / cols, index % cols, expected);
}

Result<Tensor> BlockScales(const FoundTensor& found) {
  const auto* codes = reinterpret_cast<const uint8_t*>(found.data.data());
  const void* nan = found.data.empty() ? nullptr : std::memchr(codes, 0xFF, found.data.size());
  if (nan != nullptr) {
    return BadElement(found, static_cast<const uint8_t*>(nan) - codes, "NaN",
                      "a power of two in every scale");
  }
  return Tensor{const_cast<std::byte*>(found.data.data()), DType::kF8E8M0, found.shape};
}

Result<Tensor> RowScales(const FoundTensor& found, int64_t rows, CopyArena& arena) {
  const Tensor scales = AsFloats(found, {rows}, arena);
  const auto* values = scales.As<float>();
  for (int64_t i = 0; i < rows; ++i) {
    if (!std::isfinite(values[i]) || values[i] <= 0) {
      return BadElement(found, i, fmt::format("{}", values[i]), "finite scales above 0");
    }
  }
  return scales;
}

Result<Tensor> TokenExperts(const FoundTensor& found, const Shape& shape, int64_t num_experts,
                            CopyArena& arena) {
  Tensor table;
  if (found.dtype == NameOf(DType::kI64)) {
    table = View(found, DType::kI64, shape, arena);
  } else {
    const size_t count = found.data.size() / sizeof(int32_t);
    auto* ids = reinterpret_cast<int64_t*>(arena.Allocate(count * sizeof(int64_t)));
    for (size_t i = 0; i < count; ++i) {
      ids[i] = At<int32_t>(found.data, i);
    }
    table = {ids, DType::kI64, shape};
  }
  const auto* ids = table.As<int64_t>();
  for (int64_t i = 0; i < table.num_elements(); ++i) {
    if (ids[i] < 0 || ids[i] >= num_experts) {
      return BadElement(found, i, fmt::format("{}", ids[i]),
                        fmt::format("expert ids from 0 to {}", num_experts - 1));
    }
  }
  return table;
}

Result<Matrix> ToMatrix(const TensorSpec& spec, const MatchedTensor& match, CopyArena& arena) {
  Matrix matrix;
  matrix.format = match.form.format;
  matrix.rows = spec.shape[0];
  matrix.cols = spec.shape[1];
  matrix.values = View(*match.values, match.form.values.dtype, match.form.values.shape, arena);
  if (match.form.format == MatrixFormat::kInt8Channel) {
    CACHALOT_ASSIGN_OR_RETURN(matrix.scales, RowScales(*match.scales, matrix.rows, arena));
  } else if (match.scales != nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(matrix.scales, BlockScales(*match.scales));
  }
  return matrix;
}

}  // namespace

void CopyArena::Free::operator()(std::byte* block) const { std::free(block); }

std::byte* CopyArena::Allocate(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* block = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  CACHALOT_CHECK(block != nullptr, "no memory for {} bytes", rounded);
  blocks_.emplace_back(block);
  return block;
}

Status Materialise(const TensorSpec& spec, const MatchedTensor& match, const ModelConfig& config,
                   CopyArena& arena) {
  if (auto* const* matrix = std::get_if<Matrix*>(&spec.slot)) {
    CACHALOT_ASSIGN_OR_RETURN(**matrix, ToMatrix(spec, match, arena));
    return {};
  }
  Tensor& tensor = *std::get<Tensor*>(spec.slot);
  if (spec.kind == TensorKind::kTokenExperts) {
    CACHALOT_ASSIGN_OR_RETURN(tensor,
                              TokenExperts(*match.values, spec.shape, config.num_experts, arena));
  } else {
    tensor = AsFloats(*match.values, spec.shape, arena);
  }
  return {};
}

}  // namespace cachalot
