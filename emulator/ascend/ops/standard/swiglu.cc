// aclnnDequantSwigluQuantV2 as the standard library has it and as the custom package does, under one
// name; aclnnSwiGlu and aclnnClippedSwiglu.
//
// swigluMode   standard                                    custom
//   0          silu(a) · b of halves                       the same
//   1          clamped variant of even and odd columns     clamped variant of halves
//   2          clamped variant of halves                   -
//   3          silu(a), then clamped, · clamped b, halves  -
// Clamped variant: a = min(a, limit), b = clamp(b, ±limit), a · sigmoid(alpha · a) · (b + bias).
#include <algorithm>
#include <cmath>
#include <string_view>

#include "export.h"
#include "quantise.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

float Silu(float value, float alpha = 1.0F) { return value / (1.0F + std::exp(-alpha * value)); }

struct Glu {
  bool interleaved = false;
  bool left = true;  // the activated half, or the even columns
  bool clamp = false;
  bool clamp_after = false;  // clamps silu(a) and not a
  float limit = 0;
  float alpha = 1;
  float bias = 0;
};

std::vector<float> Apply(const Glu& glu, const std::vector<float>& row) {
  const size_t half = row.size() / 2;
  std::vector<float> out(half);
  for (size_t i = 0; i < half; ++i) {
    float a = row[glu.interleaved ? 2 * i : i];
    float b = row[glu.interleaved ? 2 * i + 1 : i + half];
    if (!glu.left) {
      std::swap(a, b);
    }
    if (glu.clamp) {
      a = std::min(a, glu.limit);
    }
    float gate = Silu(a, glu.alpha);
    if (glu.clamp_after) {
      gate = std::min(gate, glu.limit);
    }
    if (glu.clamp || glu.clamp_after) {
      b = std::clamp(b, -glu.limit, glu.limit);
    }
    out[i] = gate * (b + glu.bias);
  }
  return out;
}

// Rows that the groups cover; -1 after a fault.
int64_t GroupedRows(Kernel& kernel, const Operand& groups, int64_t rows) {
  int64_t end = 0;
  for (const int64_t size : kernel.LoadIntegers(groups)) {
    end += size;
    if (size < 0 || end > rows) {
      kernel.Fault(kVectorCoreException, "groupIndex: {} rows, {} by then, where x has {}", size,
                   end, rows);
      return -1;
    }
  }
  return end;
}

struct Dequant {
  Operand x, weight_scale, row_scale, bias, smooth, groups, y, scale;
  Glu glu;
};

// A row of [2I] or [groups, 2I] as floats.
std::vector<float> RowOfGroup(Kernel& kernel, const Operand& operand, int64_t group) {
  const Rows rows(kernel, operand);
  return rows.Read(rows.count() == 1 ? 0 : group);
}

void QuantiseGroup(Kernel& kernel, const Dequant& op, int64_t group, int64_t begin, int64_t end) {
  const Rows in(kernel, op.x);
  const Rows out(kernel, op.y);
  const bool whole = op.x.dtype == ACL_INT32;
  const std::vector<float> weight_scale =
      whole ? RowOfGroup(kernel, op.weight_scale, group) : std::vector<float>();
  const std::vector<float> bias =
      op.bias.absent() ? std::vector<float>(in.width()) : RowOfGroup(kernel, op.bias, group);
  const std::vector<float> smooth = op.smooth.absent() ? std::vector<float>(in.width() / 2, 1.0F)
                                                       : RowOfGroup(kernel, op.smooth, group);
  const bool bias_before = op.bias.dtype == ACL_INT32;
  const int32_t* sums = whole ? kernel.Data<int32_t>(op.x) : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    std::vector<float> values = in.Read(row);
    if (whole) {
      const float row_scale = op.row_scale.absent() ? 1.0F : kernel.Load(op.row_scale, row);
      for (int64_t i = 0; i < in.width(); ++i) {
        const auto sum = static_cast<int32_t>(sums[row * in.width() + i] +
                                              (bias_before ? static_cast<int32_t>(bias[i]) : 0));
        values[i] =
            static_cast<float>(sum) * weight_scale[i] * row_scale + (bias_before ? 0.0F : bias[i]);
      }
    }
    std::vector<float> result = Apply(op.glu, values);
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] *= smooth[i];
    }
    kernel.Store(op.scale, row, QuantiseRow(result));
    out.Write(row, result.data());
  }
}

void Compute(Kernel& kernel, const Dequant& op) {
  const int64_t rows = op.x.dim(0);
  if (op.groups.absent()) {
    return QuantiseGroup(kernel, op, 0, 0, rows);
  }
  int64_t end = GroupedRows(kernel, op.groups, rows);
  if (end < 0) {
    return;
  }
  int64_t begin = 0;
  int64_t group = 0;
  for (const int64_t size : kernel.LoadIntegers(op.groups)) {
    QuantiseGroup(kernel, op, group++, begin, begin + size);
    begin += size;
  }
  for (; end < rows; ++end) {  // the kernel leaves garbage there
    Rows(kernel, op.y).Poison(end);
    Rows(kernel, Slice(op.scale, 0, end, 1)).Poison(0);
  }
}

struct DequantArguments {
  const aclTensor* x;
  const aclTensor* weight_scale;
  const aclTensor* activation_scale;
  const aclTensor* bias;
  const aclTensor* quant_scale;
  const aclTensor* quant_offset;
  const aclTensor* group_index;
  bool activate_left;
  const char* quant_mode;
  int64_t dst_type;
  const char* round_mode;
  int64_t activate_dim;
  int64_t swiglu_mode;
  double clamp_limit;
  double glu_alpha;
  double glu_bias;
  const aclTensor* y;
  const aclTensor* scale;
};

Glu GluOf(Call& call, const DequantArguments& in, bool custom) {
  const int64_t most = custom ? 1 : 3;
  call.Expect(in.swiglu_mode >= 0 && in.swiglu_mode <= most, kAclnnInvalid,
              "swigluMode: {} is outside [0, {}]", in.swiglu_mode, most);
  Glu glu;
  glu.left = in.activate_left;
  if (in.swiglu_mode == 0) {
    return glu;
  }
  glu.limit = static_cast<float>(in.clamp_limit);
  if (custom) {
    call.Expect(in.clamp_limit >= 0, kAclnnInvalid, "clampLimit: {} is negative", in.clamp_limit);
  } else {
    call.Expect(in.clamp_limit > 0 && std::isfinite(in.clamp_limit), kAclnnInvalid,
                "clampLimit: {} is not positive and finite", in.clamp_limit);
  }
  if (in.swiglu_mode == 3) {
    glu.clamp_after = true;
    return glu;
  }
  glu.clamp = in.clamp_limit > 0;
  glu.alpha = static_cast<float>(in.glu_alpha);
  glu.bias = static_cast<float>(in.glu_bias);
  glu.interleaved = !custom && in.swiglu_mode == 1;
  call.Expect(in.swiglu_mode != 1 || in.activate_left, kAclnnInvalid,
              "activateLeft: false with swigluMode 1");
  return glu;
}

void CheckDequant(Call& call, const Dequant& op) {
  const int64_t rows = op.x.dim(0);
  const int64_t width = op.x.dim(1);
  const bool whole = op.x.dtype == ACL_INT32;
  call.Expect(op.x.count() > 0, kAclnnInvalid, "x: empty, shape {}", ShapeText(op.x.shape));
  call.Expect(width % 2 == 0, kAclnnInvalid, "x: last axis is {}, which is odd", width);
  call.Limit(width % 64 == 0, "DequantSwigluQuant.alignment",
             "x: last axis is {}, no multiple of 64", width);
  call.Limit(op.groups.absent() || width <= 7232, "DequantSwigluQuant.width",
             "x: last axis is {}, more than 7232 with groups", width);
  if (whole) {
    call.Present(op.weight_scale, "x is INT32");
  } else {
    call.Absent(op.weight_scale, "x is not INT32");
    call.Absent(op.row_scale, "x is not INT32");
    call.Absent(op.bias, "x is not INT32");
  }
  if (!op.groups.absent()) {
    call.Rank(op.groups, {1});
  }
  if (!call.ok()) {
    return;
  }
  for (const Operand& operand :
       {op.x, op.weight_scale, op.row_scale, op.bias, op.smooth, op.groups, op.y, op.scale}) {
    if (!operand.absent()) {
      call.Contiguous(operand);
    }
  }
  for (const Operand& channel : {op.weight_scale, op.bias}) {
    if (channel.absent()) {
      continue;
    }
    if (!op.groups.absent()) {
      call.Shape(channel, {op.groups.dim(0), width});
    } else if (channel.rank() == 1) {
      call.Shape(channel, {width});
    } else {
      call.Shape(channel, {1, width});
    }
  }
  if (!op.row_scale.absent()) {
    call.Shape(op.row_scale, {rows});
  }
  if (!op.smooth.absent()) {
    if (op.groups.absent()) {
      call.Shape(op.smooth, {width / 2});
    } else {
      call.Shape(op.smooth, {op.groups.dim(0), width / 2});
    }
  }
  call.Shape(op.y, {rows, width / 2});
  call.Shape(op.scale, {rows});
}

aclnnStatus DequantSwigluQuant(const DequantArguments& in, bool custom, uint64_t* size,
                               aclOpExecutor** executor) {
  Call call("aclnnDequantSwigluQuantV2", size, executor);
  Dequant op;
  op.x = call.Input("x", in.x, {ACL_INT32, ACL_BF16, ACL_FLOAT16});
  op.weight_scale = call.OptionalInput("weightScale", in.weight_scale, {ACL_FLOAT});
  op.row_scale = call.OptionalInput("activationScale", in.activation_scale, {ACL_FLOAT});
  op.bias = call.OptionalInput("bias", in.bias, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32});
  op.smooth = call.OptionalInput("quantScale", in.quant_scale, {ACL_FLOAT});
  call.Absent(call.OptionalInput("quantOffset", in.quant_offset, {ACL_FLOAT}),
              "quantMode is dynamic");
  op.groups = call.OptionalInput("groupIndex", in.group_index, {ACL_INT64});
  op.y = call.Output("yOut", in.y, {ACL_INT8});
  op.scale = call.Output("scaleOut", in.scale, {ACL_FLOAT});
  const std::string_view mode = in.quant_mode == nullptr ? "static" : in.quant_mode;
  const std::string_view rounding = in.round_mode == nullptr ? "rint" : in.round_mode;
  call.Expect(mode == "dynamic", kAclnnInvalid, "quantMode: \"{}\" is not \"dynamic\"", mode);
  call.Expect(rounding == "rint", kAclnnInvalid, "roundMode: \"{}\" is not \"rint\"", rounding);
  call.Expect(in.dst_type == ACL_INT8, kAclnnInvalid, "dstType: {} where A2 and A3 have 2 (INT8)",
              in.dst_type);
  call.Expect(in.activate_dim == -1, kAclnnInvalid, "activateDim: {} where A2 and A3 have -1",
              in.activate_dim);
  op.glu = GluOf(call, in, custom);
  call.Rank(op.x, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  CheckDequant(call, op);
  return call.Finish([=](Kernel& kernel) { Compute(kernel, op); });
}

aclnnStatus StandardDequantSwigluQuantSize(
    const aclTensor* x, const aclTensor* weight_scale, const aclTensor* activation_scale,
    const aclTensor* bias, const aclTensor* quant_scale, const aclTensor* quant_offset,
    const aclTensor* group_index, bool activate_left, char* quant_mode, int64_t dst_type,
    char* round_mode, int64_t activate_dim, int64_t swiglu_mode, double clamp_limit,
    double glu_alpha, double glu_bias, const aclTensor* y, const aclTensor* scale, uint64_t* size,
    aclOpExecutor** executor) {
  return DequantSwigluQuant({x, weight_scale, activation_scale, bias, quant_scale, quant_offset,
                             group_index, activate_left, quant_mode, dst_type, round_mode,
                             activate_dim, swiglu_mode, clamp_limit, glu_alpha, glu_bias, y, scale},
                            false, size, executor);
}

aclnnStatus CustomDequantSwigluQuantSize(
    const aclTensor* x, const aclTensor* weight_scale, const aclTensor* activation_scale,
    const aclTensor* bias, const aclTensor* quant_scale, const aclTensor* quant_offset,
    const aclTensor* group_index, bool activate_left, char* quant_mode, int64_t dst_type,
    char* round_mode, int64_t activate_dim, int64_t swiglu_mode, double clamp_limit,
    double glu_alpha, double glu_bias, const aclTensor* y, const aclTensor* scale, uint64_t* size,
    aclOpExecutor** executor) {
  return DequantSwigluQuant({x, weight_scale, activation_scale, bias, quant_scale, quant_offset,
                             group_index, activate_left, quant_mode, dst_type, round_mode,
                             activate_dim, swiglu_mode, clamp_limit, glu_alpha, glu_bias, y, scale},
                            true, size, executor);
}

// out = x with `dim` halved; both operators without quantisation.
aclnnStatus Swiglu(Call& call, const Operand& x, const Operand& groups, const Operand& out,
                   int64_t dim, const Glu& glu) {
  const int64_t axis = Axis(call, x, dim);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Expect(x.shape[axis] % 2 == 0, kAclnnInvalid, "x: axis {} is {}, which is odd", axis,
              x.shape[axis]);
  std::vector<int64_t> shape = x.shape;
  shape[axis] /= 2;
  call.Shape(out, shape);
  call.Expect(groups.absent() || axis == x.rank() - 1, kAclnnInvalid,
              "groupIndex: given where dim {} is not the last axis", dim);
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, WithAxisLast(x, axis));
    const Rows result(kernel, WithAxisLast(out, axis));
    const int64_t end = groups.absent() ? in.count() : GroupedRows(kernel, groups, in.count());
    if (end < 0) {
      return;
    }
    for (int64_t row = 0; row < in.count(); ++row) {
      if (row < end) {
        result.Write(row, Apply(glu, in.Read(row)).data());
      } else {
        result.Poison(row);
      }
    }
  });
}

aclnnStatus SwiGluSize(const aclTensor* x, int64_t dim, const aclTensor* out, uint64_t* size,
                       aclOpExecutor** executor) {
  Call call("aclnnSwiGlu", size, executor);
  const Operand input = call.Input("x", x, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  return Swiglu(call, input, {}, call.Output("out", out, {input.dtype}), dim, {});
}

aclnnStatus ClippedSwigluSize(const aclTensor* x, const aclTensor* group_index, int64_t dim,
                              double alpha, double limit, double bias, bool interleaved,
                              const aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnClippedSwiglu", size, executor);
  const Operand input = call.Input("x", x, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  const Operand groups = call.OptionalInput("groupIndex", group_index, {ACL_INT64});
  const Operand result = call.Output("out", out, {input.dtype});
  call.Expect(limit >= 0, kAclnnInvalid, "limit: {} is negative", limit);
  if (!groups.absent()) {
    call.Rank(groups, {1});
  }
  call.Contiguous(input);
  call.Contiguous(result);
  Glu glu;
  glu.interleaved = interleaved;
  glu.clamp = true;
  glu.limit = static_cast<float>(limit);
  glu.alpha = static_cast<float>(alpha);
  glu.bias = static_cast<float>(bias);
  return Swiglu(call, input, groups, result, dim, glu);
}

}  // namespace

EMULATOR_CUSTOM_AND_STANDARD_OP(aclnnDequantSwigluQuantV2, CustomDequantSwigluQuantSize,
                                StandardDequantSwigluQuantSize);
EMULATOR_STANDARD_OP(aclnnSwiGlu, SwiGluSize);
EMULATOR_STANDARD_OP(aclnnClippedSwiglu, ClippedSwigluSize);

}  // namespace ascend_emulator::standard
