// aclnnQuantMatmulWeightNz and aclnnQuantMatmulV5: INT8 · INT8 with INT32 sums, scaled per token and
// per channel. The per-group, INT4 and packed-scale (UINT64) forms are left out.
//
//   BF16:  x1Scale? FP32 [m], x2Scale FP32 | BF16 [n] | [1], bias? INT32 | BF16 | FP32
//   FP16:  x1Scale FP32 [m],  x2Scale FP32,                  bias? INT32 | FP16 | FP32
//   INT32: no x1Scale, x2Scale there but not used,           bias? INT32
#include <algorithm>

#include "export.h"
#include "matrix.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

struct Arguments {
  const aclTensor* x1;
  const aclTensor* x2;
  const aclTensor* x1_scale;
  const aclTensor* x2_scale;
  const aclTensor* y_scale;
  const aclTensor* x1_offset;
  const aclTensor* x2_offset;
  const aclTensor* y_offset;
  const aclTensor* bias;
  bool transpose_x1;
  bool transpose_x2;
  int64_t group_size;
  const aclTensor* out;
};

struct Scales {
  Operand row;      // absent: 1
  Operand channel;  // [n] or [1]
  Operand bias;     // absent: 0
};

void CheckCombination(Call& call, const Scales& scales, aclDataType out) {
  if (out == ACL_FLOAT16) {
    call.Present(scales.row, "an FP16 result needs it");
    call.Expect(scales.channel.dtype == ACL_FLOAT, kAclnnInvalid,
                "x2Scale: {} where an FP16 result needs FLOAT", NameOf(scales.channel.dtype));
  }
  if (out == ACL_INT32) {
    call.Absent(scales.row, "an INT32 result is not scaled");
  }
  const aclDataType bias = scales.bias.dtype;
  const bool fits = scales.bias.absent() || bias == ACL_INT32 ||
                    (out != ACL_INT32 && (bias == ACL_FLOAT || bias == out));
  call.Expect(fits, kAclnnInvalid, "bias: {} with a result of {}", NameOf(bias), NameOf(out));
}

void AddBias(Kernel& kernel, const Operand& bias, std::vector<int32_t>& sums) {
  const std::vector<int64_t> values = kernel.LoadIntegers(bias);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] += static_cast<int32_t>(values[i % values.size()]);
  }
}

// (sums · x2Scale) · x1Scale + bias
void Dequantise(Kernel& kernel, const std::vector<int32_t>& sums, const Scales& scales,
                const Operand& result) {
  const Rows out(kernel, result);
  const int64_t n = out.width();
  const std::vector<float> channel = kernel.LoadAll(scales.channel);
  const std::vector<float> rows =
      scales.row.absent() ? std::vector<float>(out.count(), 1.0F) : kernel.LoadAll(scales.row);
  const std::vector<float> bias = scales.bias.absent() || scales.bias.dtype == ACL_INT32
                                      ? std::vector<float>(n)
                                      : kernel.LoadAll(scales.bias);
  std::vector<float> values(n);
  for (int64_t row = 0; row < out.count(); ++row) {
    for (int64_t i = 0; i < n; ++i) {
      const float scaled =
          static_cast<float>(sums[row * n + i]) * channel[channel.size() == 1 ? 0 : i];
      values[i] = scaled * rows[row] + bias[i];
    }
    out.Write(row, values.data());
  }
}

aclnnStatus QuantMatmul(const char* name, const Arguments& in, aclFormat format, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call(name, size, executor);
  Operand x1 = call.Input("x1", in.x1, {ACL_INT8});
  const Operand x2 = call.Input("x2", in.x2, {ACL_INT8});
  Scales scales;
  scales.row = call.OptionalInput("x1Scale", in.x1_scale, {ACL_FLOAT});
  scales.channel = call.Input("x2Scale", in.x2_scale, {ACL_FLOAT, ACL_BF16});
  call.Absent(call.OptionalInput("yScale", in.y_scale, kMovable), "A2 and A3 have none");
  call.Absent(call.OptionalInput("x1Offset", in.x1_offset, kMovable), "it is reserved");
  call.Absent(call.OptionalInput("x2Offset", in.x2_offset, kMovable), "it is for INT8 results");
  call.Absent(call.OptionalInput("yOffset", in.y_offset, kMovable), "it is for INT4 weights");
  scales.bias = call.OptionalInput("bias", in.bias, {ACL_INT32, ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  const Operand out = call.Output("out", in.out, {ACL_BF16, ACL_FLOAT16, ACL_INT32});
  call.Rank(x1, {2});
  call.Rank(x2, {2});
  call.Expect(in.group_size == 0, kAclnnInvalid, "groupSize: {} where per-channel scales need 0",
              in.group_size);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Contiguous(x1);
  call.Contiguous(out);
  FormatIs(call, x1, ACL_FORMAT_ND);
  FormatIs(call, x2, format);
  for (const Operand& operand : {x1, x2, out}) {
    call.Expect(operand.count() > 0, kAclnnInvalid, "{}: empty, shape {}", operand.name,
                ShapeText(operand.shape));
  }
  call.Expect(x1.dim(-1) <= 65535, kAclnnInvalid, "x1: last axis is {}, more than 65535",
              x1.dim(-1));
  call.Expect(x2.dim(-1) <= 65535, kAclnnInvalid, "x2: last axis is {}, more than 65535",
              x2.dim(-1));
  if (in.transpose_x1) {
    x1 = Transposed(x1, 0, 1);
  }
  const MatrixLayout layout = LayoutOf(call, x2, in.transpose_x2);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const int64_t m = x1.dim(0);
  call.Expect(x1.dim(1) == layout.k, kAclnnInvalid, "x2: k is {} where x1 has {}", layout.k,
              x1.dim(1));
  call.Shape(out, {m, layout.n});
  if (!scales.row.absent()) {
    call.Shape(scales.row, {m});
  }
  if (scales.channel.shape != std::vector<int64_t>{1}) {
    call.Shape(scales.channel, {layout.n});
  }
  if (!scales.bias.absent()) {
    call.Shape(scales.bias, {layout.n});
  }
  CheckCombination(call, scales, out.dtype);
  return call.Finish([=](Kernel& kernel) {
    const auto* from = kernel.Data<int8_t>(x1);
    std::vector<int8_t> x(m * layout.k);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t k = 0; k < layout.k; ++k) {
        x[row * layout.k + k] = from[row * x1.strides[0] + k * x1.strides[1]];
      }
    }
    std::vector<int32_t> sums = Multiply(x, m, layout, kernel.Data<int8_t>(x2));
    if (scales.bias.dtype == ACL_INT32) {
      AddBias(kernel, scales.bias, sums);
    }
    if (out.dtype == ACL_INT32) {
      std::copy(sums.begin(), sums.end(), kernel.Data<int32_t>(out));
    } else {
      Dequantise(kernel, sums, scales, out);
    }
  });
}

aclnnStatus QuantMatmulWeightNzSize(const aclTensor* x1, const aclTensor* x2,
                                    const aclTensor* x1_scale, const aclTensor* x2_scale,
                                    const aclTensor* y_scale, const aclTensor* x1_offset,
                                    const aclTensor* x2_offset, const aclTensor* y_offset,
                                    const aclTensor* bias, bool transpose_x1, bool transpose_x2,
                                    int64_t group_size, aclTensor* out, uint64_t* size,
                                    aclOpExecutor** executor) {
  return QuantMatmul("aclnnQuantMatmulWeightNz",
                     {x1, x2, x1_scale, x2_scale, y_scale, x1_offset, x2_offset, y_offset, bias,
                      transpose_x1, transpose_x2, group_size, out},
                     ACL_FORMAT_FRACTAL_NZ, size, executor);
}

aclnnStatus QuantMatmulV5Size(const aclTensor* x1, const aclTensor* x2, const aclTensor* x1_scale,
                              const aclTensor* x2_scale, const aclTensor* y_scale,
                              const aclTensor* x1_offset, const aclTensor* x2_offset,
                              const aclTensor* y_offset, const aclTensor* bias, bool transpose_x1,
                              bool transpose_x2, int64_t group_size, aclTensor* out, uint64_t* size,
                              aclOpExecutor** executor) {
  return QuantMatmul("aclnnQuantMatmulV5",
                     {x1, x2, x1_scale, x2_scale, y_scale, x1_offset, x2_offset, y_offset, bias,
                      transpose_x1, transpose_x2, group_size, out},
                     ACL_FORMAT_ND, size, executor);
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnQuantMatmulWeightNz, QuantMatmulWeightNzSize);
EMULATOR_STANDARD_OP(aclnnQuantMatmulV5, QuantMatmulV5Size);

}  // namespace ascend_emulator::standard
