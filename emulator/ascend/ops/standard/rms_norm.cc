// aclnnRmsNorm, and aclnnRmsNormDynamicQuant with both of its argument lists. Squares are summed in
// eight interleaved partial sums.
#include <cmath>

#include "export.h"
#include "quantise.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

float ReciprocalRms(const std::vector<float>& row, double eps) {
  float sums[8] = {};
  for (size_t i = 0; i < row.size(); ++i) {
    sums[i % 8] += row[i] * row[i];
  }
  for (const int step : {4, 2, 1}) {
    for (int i = 0; i < step; ++i) {
      sums[i] += sums[i + step];
    }
  }
  return 1.0F / std::sqrt(sums[0] / static_cast<float>(row.size()) + static_cast<float>(eps));
}

// x with its last axes, those of gamma, made one.
Operand Flattened(Operand operand, int64_t axes) {
  while (axes > 1) {
    const auto last = operand.shape.size() - 1;
    operand.shape[last - 1] *= operand.shape[last];
    operand.strides[last - 1] = operand.strides[last];
    operand.shape.pop_back();
    operand.strides.pop_back();
    --axes;
  }
  return operand;
}

aclnnStatus RmsNormSize(const aclTensor* x, const aclTensor* gamma, double eps, const aclTensor* y,
                        const aclTensor* rstd, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnRmsNorm", size, executor);
  const Operand input = call.Input("x", x, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand weight = call.Input("gamma", gamma, {input.dtype, ACL_FLOAT});
  const Operand output = call.Output("y", y, {input.dtype});
  const Operand inverse = call.Output("rstd", rstd, {ACL_FLOAT});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const int64_t axes = weight.rank();
  call.Expect(axes >= 1 && axes <= input.rank(), kAclnnTiling, "gamma: rank {} where x has rank {}",
              axes, input.rank());
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const auto normalised = input.shape.end() - axes;
  ShapeOr(call, kAclnnTiling, weight, std::vector<int64_t>(normalised, input.shape.end()));
  ShapeOr(call, kAclnnTiling, output, input.shape);
  std::vector<int64_t> reduced(input.shape.begin(), normalised);
  reduced.insert(reduced.end(), axes, 1);
  ShapeOr(call, kAclnnTiling, inverse, reduced);
  if (axes > 1) {
    call.Contiguous(input);
    call.Contiguous(weight);
    call.Contiguous(output);
  }
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, Flattened(input, axes));
    const Rows out(kernel, Flattened(output, axes));
    const Rows scales(kernel, Flattened(inverse, axes));
    const std::vector<float> weights = kernel.LoadAll(weight);
    for (int64_t row = 0; row < in.count(); ++row) {
      std::vector<float> values = in.Read(row);
      const float scale = ReciprocalRms(values, eps);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = values[i] * scale * weights[i];
      }
      out.Write(row, values.data());
      scales.Write(row, &scale);
    }
  });
}

struct Quantised {
  Operand smooth;  // absent: none
  Operand y;
  Operand scale;
};

// What both argument lists have in common.
aclnnStatus NormAndQuantise(Call& call, const Operand& x, const Operand& gamma, const Operand& beta,
                            double eps, const std::vector<Quantised>& outputs) {
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Expect(x.rank() >= 2 && x.rank() <= 8, kAclnnTiling, "x: rank {} is outside [2, 8]",
              x.rank());
  call.Expect(x.count() > 0, kAclnnTiling, "x: empty, shape {}", ShapeText(x.shape));
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const std::vector<int64_t> width = {x.dim(-1)};
  const std::vector<int64_t> rows(x.shape.begin(), x.shape.end() - 1);
  ShapeOr(call, kAclnnTiling, gamma, width);
  if (!beta.absent()) {
    ShapeOr(call, kAclnnTiling, beta, width);
  }
  for (const Quantised& output : outputs) {
    if (!output.smooth.absent()) {
      ShapeOr(call, kAclnnTiling, output.smooth, width);
    }
    ShapeOr(call, kAclnnTiling, output.y, x.shape);
    ShapeOr(call, kAclnnTiling, output.scale, rows);
  }
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, x);
    const std::vector<float> weights = kernel.LoadAll(gamma);
    const std::vector<float> shifts =
        beta.absent() ? std::vector<float>(weights.size()) : kernel.LoadAll(beta);
    for (const Quantised& output : outputs) {
      const Rows out(kernel, output.y);
      const std::vector<float> smooth = output.smooth.absent()
                                            ? std::vector<float>(weights.size(), 1.0F)
                                            : kernel.LoadAll(output.smooth);
      for (int64_t row = 0; row < in.count(); ++row) {
        std::vector<float> values = in.Read(row);
        const float inverse = ReciprocalRms(values, eps);
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = (values[i] * inverse * weights[i] + shifts[i]) * smooth[i];
        }
        kernel.Store(output.scale, row, QuantiseRow(values));
        out.Write(row, values.data());
      }
    }
  });
}

aclnnStatus CustomRmsNormDynamicQuantSize(const aclTensor* x, const aclTensor* gamma,
                                          const aclTensor* smooth1, const aclTensor* smooth2,
                                          const aclTensor* beta, double eps,
                                          const aclBoolArray* output_mask, int64_t dst_type,
                                          const aclTensor* y1, const aclTensor* y2,
                                          const aclTensor* scale1, const aclTensor* scale2,
                                          uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnRmsNormDynamicQuant", size, executor);
  const Operand input = call.Input("x", x, {ACL_BF16, ACL_FLOAT16});
  const Operand weight = call.Input("gamma", gamma, {input.dtype});
  const Operand first = call.OptionalInput("smoothScale1", smooth1, {input.dtype});
  const Operand second = call.OptionalInput("smoothScale2", smooth2, {input.dtype});
  const Operand shift = call.OptionalInput("beta", beta, {input.dtype});
  const Operand out1 = call.Output("y1", y1, {ACL_INT8});
  const Operand out2 =
      call.Output("y2", y2, {ACL_INT8});  // of one element, and left alone, without smoothScale2
  const Operand out_scale1 = call.Output("scale1", scale1, {ACL_FLOAT});
  const Operand out_scale2 = call.Output("scale2", scale2, {ACL_FLOAT});
  call.Expect(output_mask == nullptr, kAclnnInvalid, "outputMask: must be null");
  call.Expect(dst_type == 0 || dst_type == ACL_INT8, kAclnnInvalid, "dstType: {} is not 0 or 2",
              dst_type);
  call.Expect(second.absent() || !first.absent(), kAclnnInvalid,
              "smoothScale2: given without smoothScale1");
  std::vector<Quantised> outputs = {{first, out1, out_scale1}};
  if (!second.absent()) {
    outputs.push_back({second, out2, out_scale2});
  }
  return NormAndQuantise(call, input, weight, shift, eps, outputs);
}

aclnnStatus OfficialRmsNormDynamicQuantSize(const aclTensor* x, const aclTensor* gamma,
                                            const aclTensor* smooth, const aclTensor* beta,
                                            double eps, int64_t dst_type, const aclTensor* y,
                                            const aclTensor* scale, uint64_t* size,
                                            aclOpExecutor** executor) {
  Call call("aclnnRmsNormDynamicQuant", size, executor);
  const Operand input = call.Input("x", x, {ACL_BF16, ACL_FLOAT16});
  const Operand weight = call.Input("gamma", gamma, {input.dtype});
  const Operand factor = call.OptionalInput("smoothScales", smooth, {input.dtype});
  const Operand shift = call.OptionalInput("beta", beta, {input.dtype});
  call.Expect(dst_type == ACL_INT8, kAclnnInvalid, "dstType: {} is not 2 (INT8)", dst_type);
  const Operand out = call.Output("yOut", y, {ACL_INT8});
  const Operand out_scale = call.Output("scaleOut", scale, {ACL_FLOAT});
  return NormAndQuantise(call, input, weight, shift, eps, {{factor, out, out_scale}});
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnRmsNorm, RmsNormSize);
EMULATOR_CUSTOM_AND_OFFICIAL_OP(aclnnRmsNormDynamicQuant, CustomRmsNormDynamicQuantSize,
                                OfficialRmsNormDynamicQuantSize);

}  // namespace ascend_emulator::standard
