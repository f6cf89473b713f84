#include "backends/ascend/ascend_weight_placer.h"

#include <algorithm>
#include <utility>

#include "backends/ascend/op_call.h"
#include "backends/ascend/runtime_stream.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

std::vector<Bf16> Rounded(const Tensor& values) {
  const float* from = values.As<float>();
  std::vector<Bf16> to(static_cast<size_t>(values.num_elements()));
  std::transform(from, from + to.size(), to.begin(), FloatToBf16);
  return to;
}

class AscendWeightPlacer final : public WeightPlacer {
 public:
  explicit AscendWeightPlacer(std::shared_ptr<RuntimeDevice> device)
      : device_(device), stream_(std::move(device), {}) {}

  Result<Tensor> Place(const Tensor& values, WeightUse use) override {
    if (use == WeightUse::kNorm) {
      return PlaceRounded(values);
    }
    return PlaceAsIs(values);
  }

  Result<Matrix> Place(const Matrix& matrix, WeightUse use, int64_t groups) override {
    Matrix placed = matrix;
    const bool in_blocks = use == WeightUse::kLinear && groups == 1;
    if (matrix.format == MatrixFormat::kBf16 && !in_blocks) {
      CACHALOT_ASSIGN_OR_RETURN(placed.values, PlaceAsIs(matrix.values));
      return placed;
    }
    const bool int8 = matrix.format == MatrixFormat::kInt8Channel && groups == 1 &&
                      (in_blocks || use == WeightUse::kLinearF32);
    if (!int8 && matrix.format != MatrixFormat::kBf16) {
      return MakeError(StatusCode::kInvalidArgument,
                       "ascend: a matrix [{}, {}] in {}{}, which its operators do not take",
                       matrix.rows, matrix.cols, NameOf(matrix.format),
                       groups > 1 ? " by groups" : "");
    }
    CACHALOT_RETURN_IF_ERROR(CheckBlocks(matrix));
    if (int8) {
      CACHALOT_ASSIGN_OR_RETURN(placed.scales, PlaceAsIs(matrix.scales));
    }
    CACHALOT_ASSIGN_OR_RETURN(placed.values, Take(matrix.values.dtype, matrix.values.shape));
    CACHALOT_RETURN_IF_ERROR(PutInBlocks({&matrix.values, 1}, placed.values));
    CACHALOT_RETURN_IF_ERROR(stream_.Synchronize());
    return placed;
  }

  Result<std::vector<ExpertWeights>> PlaceExperts(int64_t count,
                                                  const ExpertSource& expert) override {
    std::vector<ExpertWeights> placed;
    Tensor up, up_scales, down, down_scales;
    for (int64_t e = 0; e < count; ++e) {
      CACHALOT_ASSIGN_OR_RETURN(const ExpertWeights source, expert(e));
      const int64_t inner = source.w1.rows;
      const int64_t width = source.w1.cols;
      for (const Matrix* matrix : {&source.w1, &source.w2, &source.w3}) {
        if (matrix->format != MatrixFormat::kInt8Channel) {
          return MakeError(StatusCode::kInvalidArgument, "ascend: experts in {}, not int8",
                           NameOf(matrix->format));
        }
        CACHALOT_RETURN_IF_ERROR(CheckBlocks(*matrix));
      }
      if (e == 0) {
        const DType down_type = count > 1 ? DType::kBf16 : DType::kF32;
        CACHALOT_ASSIGN_OR_RETURN(up, Take(DType::kI8, {count, 2 * inner, width}));
        CACHALOT_ASSIGN_OR_RETURN(down, Take(DType::kI8, {count, width, inner}));
        CACHALOT_ASSIGN_OR_RETURN(up_scales, Take(DType::kF32, {count, 2 * inner}));
        CACHALOT_ASSIGN_OR_RETURN(down_scales, Take(down_type, {count, width}));
      }
      const Tensor up_of = up.Rows(e, e + 1).Reshaped({2 * inner, width});
      const Tensor down_of = down.Rows(e, e + 1).Reshaped({width, inner});
      const Tensor parts[] = {source.w1.values, source.w3.values};
      CACHALOT_RETURN_IF_ERROR(PutInBlocks(parts, up_of));
      CACHALOT_RETURN_IF_ERROR(PutInBlocks({&source.w2.values, 1}, down_of));
      const Tensor scales = up_scales.Rows(e, e + 1).Reshaped({2 * inner});
      stream_.Upload(source.w1.scales.data, scales.Rows(0, inner));
      stream_.Upload(source.w3.scales.data, scales.Rows(inner, 2 * inner));
      UploadAs(source.w2.scales, down_scales.Rows(e, e + 1).Reshaped({width}));
      ExpertWeights views = source;
      views.w1.values = views.w3.values = {up_of.data, DType::kI8, {inner, width}};
      views.w1.scales = scales.Rows(0, inner);
      views.w3.scales = scales.Rows(inner, 2 * inner);
      views.w2.values = down_of;
      views.w2.scales = down_scales.Rows(e, e + 1).Reshaped({width});
      placed.push_back(views);
    }
    CACHALOT_RETURN_IF_ERROR(stream_.Synchronize());
    return placed;
  }

 private:
  // Padding of blocks is left out: sizes of the model are whole blocks.
  static Status CheckBlocks(const Matrix& matrix) {
    const int64_t columns = kNzBytes / SizeOf(matrix.values.dtype);
    if (matrix.rows % kNzRows != 0 || matrix.cols % columns != 0) {
      return MakeError(StatusCode::kInvalidArgument,
                       "ascend: a matrix [{}, {}] in {}, expected multiples of {} and {}",
                       matrix.rows, matrix.cols, NameOf(matrix.format), kNzRows, columns);
    }
    return {};
  }

  Result<Tensor> Take(DType dtype, const Shape& shape) {
    CACHALOT_ASSIGN_OR_RETURN(Buffer buffer,
                              device_->Allocate(shape.num_elements() * SizeOf(dtype)));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().As(dtype, shape);
  }

  Result<Tensor> PlaceAsIs(const Tensor& values) {
    CACHALOT_ASSIGN_OR_RETURN(const Tensor placed, Take(values.dtype, values.shape));
    stream_.Upload(values.data, placed);
    CACHALOT_RETURN_IF_ERROR(stream_.Synchronize());
    return placed;
  }

  Result<Tensor> PlaceRounded(const Tensor& values) {
    CACHALOT_ASSIGN_OR_RETURN(const Tensor placed, Take(DType::kBf16, values.shape));
    UploadAs(values, placed);
    CACHALOT_RETURN_IF_ERROR(stream_.Synchronize());
    return placed;
  }

  // F32 values in the dtype of `placed`, that or BF16.
  void UploadAs(const Tensor& values, const Tensor& placed) {
    if (placed.dtype == values.dtype) {
      return stream_.Upload(values.data, placed);
    }
    const std::vector<Bf16> rounded = Rounded(values);
    stream_.Upload(rounded.data(), placed);
  }

  // Matrices of equal width, one below the other, in FRACTAL_NZ at `placed`.
  Status PutInBlocks(std::span<const Tensor> parts, const Tensor& placed) {
    stream_.BeginOperator();
    const Tensor rows = stream_.Scratch(placed.dtype, placed.shape);
    if (!stream_.faulted()) {
      int64_t row = 0;
      for (const Tensor& part : parts) {
        stream_.Upload(part.data, rows.Rows(row, row + part.shape[0]));
        row += part.shape[0];
      }
      Call(stream_, stream_.symbols().NpuFormatCast, rows, View(placed).Nz());
    }
    return stream_.faulted() ? stream_.Synchronize() : Status();
  }

  std::shared_ptr<RuntimeDevice> device_;
  RuntimeStream stream_;
  std::vector<Buffer> buffers_;
};

}  // namespace

std::unique_ptr<WeightPlacer> NewAscendWeightPlacer(std::shared_ptr<RuntimeDevice> device) {
  return std::make_unique<AscendWeightPlacer>(std::move(device));
}

}  // namespace cachalot::ascend
