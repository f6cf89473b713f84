#include "checkpoint/storage_form.h"

namespace cachalot {
namespace {

int64_t CeilDivide(int64_t value, int64_t by) { return (value + by - 1) / by; }

StorageForm MatrixForm(MatrixFormat format, int64_t rows, int64_t cols) {
  switch (format) {
    case MatrixFormat::kF32:
      return {format, {DType::kF32, {rows, cols}}, std::nullopt};
    case MatrixFormat::kBf16:
      return {format, {DType::kBf16, {rows, cols}}, std::nullopt};
    case MatrixFormat::kFp8Block:
      return {format,
              {DType::kF8E4M3, {rows, cols}},
              StoredPart{DType::kF8E8M0,
                         {CeilDivide(rows, kFp8BlockSize), CeilDivide(cols, kFp8BlockSize)}}};
    case MatrixFormat::kFp4Block:
      return {format,
              {DType::kI8, {rows, cols / 2}},
              StoredPart{DType::kF8E8M0, {rows, cols / kFp4BlockSize}}};
    case MatrixFormat::kInt8Channel:
      return {format, {DType::kI8, {rows, cols}}, StoredPart{DType::kF32, {rows, 1}}};
  }
  return {};
}

std::vector<MatrixFormat> MatrixFormatsOf(TensorKind kind, const ModelConfig& config) {
  if (kind == TensorKind::kMatrix) {
    return {MatrixFormat::kBf16, MatrixFormat::kF32};
  }
  switch (config.layout) {
    case WeightLayout::kBf16:
      return {MatrixFormat::kBf16};
    case WeightLayout::kW8A8:
      if (kind == TensorKind::kLinearKept) {
        return {MatrixFormat::kBf16, MatrixFormat::kInt8Channel};
      }
      return {MatrixFormat::kInt8Channel, MatrixFormat::kBf16};
    case WeightLayout::kNative:
      break;
  }
  const bool fp4 = kind == TensorKind::kExpert && config.experts_fp4;
  return {fp4 ? MatrixFormat::kFp4Block : MatrixFormat::kFp8Block};
}

}  // namespace

std::vector<StorageForm> FormsOf(const TensorSpec& spec, const ModelConfig& config) {
  std::vector<DType> dtypes;
  switch (spec.kind) {
    case TensorKind::kNorm:
      dtypes = {DType::kBf16, DType::kF32};
      break;
    case TensorKind::kFloat:
      dtypes = {DType::kF32};
      break;
    case TensorKind::kTokenExperts:
      dtypes = {DType::kI64, DType::kI32};
      break;
    default: {
      std::vector<StorageForm> forms;
      for (const MatrixFormat format : MatrixFormatsOf(spec.kind, config)) {
        forms.push_back(MatrixForm(format, spec.shape[0], spec.shape[1]));
      }
      return forms;
    }
  }
  std::vector<StorageForm> forms;
  for (const DType dtype : dtypes) {
    forms.push_back({MatrixFormat::kF32, {dtype, spec.shape}, std::nullopt});
  }
  return forms;
}

int64_t ParametersOf(const TensorSpec& spec) {
  return spec.kind == TensorKind::kTokenExperts ? 0 : spec.shape.num_elements();
}

std::string ScaleNameOf(const std::string& weight_name) {
  constexpr std::string_view kSuffix = "weight";
  CACHALOT_CHECK(weight_name.ends_with(kSuffix), "{} has no scale", weight_name);
  return weight_name.substr(0, weight_name.size() - kSuffix.size()) + "scale";
}

}  // namespace cachalot
