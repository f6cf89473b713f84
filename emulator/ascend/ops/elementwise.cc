// aclnnAdd, aclnnMul, aclnnMuls, aclnnCast, aclnnInplaceCopy, aclnnInplaceZero and aclnnNonzero. Arithmetic in FP32,
// one rounding; operands broadcast as usual.
#include <cmath>

#include "export.h"
#include "op.h"

namespace ascend_emulator {
namespace {

constexpr std::initializer_list<aclDataType> kNumbers = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,
                                                         ACL_INT8,  ACL_INT32,   ACL_INT64};
constexpr std::initializer_list<aclDataType> kAny = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_INT8,
                                                     ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64,
                                                     ACL_BOOL,  ACL_DOUBLE};

bool Integral(aclDataType dtype) {
  return dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16 && dtype != ACL_DOUBLE;
}

// The place, in elements from the first, of an index into the view flattened.
int64_t Place(const Operand& operand, int64_t index) {
  int64_t place = 0;
  for (size_t axis = operand.shape.size(); axis-- > 0;) {
    place += index % operand.shape[axis] * operand.strides[axis];
    index /= operand.shape[axis];
  }
  return place;
}

// The operand repeated along axes that it lacks or has one of; empty where the shapes do not go together.
Operand Broadcast(Operand operand, const std::vector<int64_t>& shape) {
  const size_t lacking = shape.size() - operand.shape.size();
  std::vector<int64_t> strides(shape.size(), 0);
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    if (operand.shape[axis] != 1) strides[lacking + axis] = operand.strides[axis];
  }
  operand.shape = shape;
  operand.strides = std::move(strides);
  return operand;
}

void CheckBroadcast(Call& call, const Operand& operand, const Operand& out) {
  const auto& from = operand.shape;
  const auto& to = out.shape;
  bool fits = from.size() <= to.size();
  for (size_t i = 0; fits && i < from.size(); ++i) {
    const int64_t extent = from[from.size() - 1 - i];
    fits = extent == 1 || extent == to[to.size() - 1 - i];
  }
  call.Expect(fits, kAclnnInvalid, "{}: its shape does not broadcast to that of {}", operand.name,
              out.name);
}

using Binary = float (*)(float, float, float);

void Apply(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out, float scale,
           Binary function) {
  const std::vector<float> left = kernel.LoadAll(a);
  const std::vector<float> right = kernel.LoadAll(b);
  for (size_t i = 0; i < left.size(); ++i) {
    kernel.Store(out, static_cast<int64_t>(i), function(left[i], right[i], scale));
  }
}

// Integers are added and multiplied as such: FP32 has too few places.
void ApplyIntegers(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out,
                   double scale, bool product) {
  const std::vector<int64_t> left = kernel.LoadIntegers(a);
  const std::vector<int64_t> right = kernel.LoadIntegers(b);
  for (size_t i = 0; i < left.size(); ++i) {
    const auto x = static_cast<uint64_t>(left[i]);
    const auto y = static_cast<uint64_t>(right[i]);
    const auto z = product ? x * y : x + y * static_cast<uint64_t>(static_cast<int64_t>(scale));
    const int64_t place = Place(out, static_cast<int64_t>(i));
    switch (out.dtype) {
      case ACL_INT8:
        kernel.Data<int8_t>(out)[place] = static_cast<int8_t>(z);
        break;
      case ACL_INT32:
        kernel.Data<int32_t>(out)[place] = static_cast<int32_t>(z);
        break;
      default:
        kernel.Data<int64_t>(out)[place] = static_cast<int64_t>(z);
        break;
    }
  }
}

aclnnStatus AddSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                    aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnAdd", size, executor);
  const Operand a = call.Input("self", self, kNumbers);
  const Operand b = call.Input("other", other, {a.dtype});
  const double scale = call.Number("alpha", alpha);
  const Operand c = call.Output("out", out, {a.dtype});
  CheckBroadcast(call, a, c);
  CheckBroadcast(call, b, c);
  return call.Finish([=](Kernel& kernel) {
    const Operand left = Broadcast(a, c.shape);
    const Operand right = Broadcast(b, c.shape);
    if (Integral(c.dtype)) return ApplyIntegers(kernel, left, right, c, scale, false);
    Apply(kernel, left, right, c, static_cast<float>(scale),
          [](float x, float y, float factor) { return x + y * factor; });
  });
}

aclnnStatus MulSize(const aclTensor* self, const aclTensor* other, aclTensor* out, uint64_t* size,
                    aclOpExecutor** executor) {
  Call call("aclnnMul", size, executor);
  const Operand a = call.Input("self", self, kNumbers);
  const Operand b = call.Input("other", other, {a.dtype});
  const Operand c = call.Output("out", out, {a.dtype});
  CheckBroadcast(call, a, c);
  CheckBroadcast(call, b, c);
  return call.Finish([=](Kernel& kernel) {
    const Operand left = Broadcast(a, c.shape);
    const Operand right = Broadcast(b, c.shape);
    if (Integral(c.dtype)) return ApplyIntegers(kernel, left, right, c, 1, true);
    Apply(kernel, left, right, c, 1, [](float x, float y, float) { return x * y; });
  });
}

aclnnStatus MulsSize(const aclTensor* self, const aclScalar* other, aclTensor* out, uint64_t* size,
                     aclOpExecutor** executor) {
  Call call("aclnnMuls", size, executor);
  const Operand a = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const auto factor = static_cast<float>(call.Number("other", other));
  const Operand c = call.Output("out", out, {a.dtype});
  call.SameShape(a, c);
  return call.Finish([=](Kernel& kernel) {
    const std::vector<float> values = kernel.LoadAll(a);
    for (size_t i = 0; i < values.size(); ++i)
      kernel.Store(c, static_cast<int64_t>(i), values[i] * factor);
  });
}

// To integers towards zero, as the device converts.
void Convert(Kernel& kernel, const Operand& from, const Operand& to) {
  if (Integral(from.dtype) && (to.dtype == ACL_INT64 || to.dtype == ACL_INT32) &&
      (from.dtype == ACL_INT64 || from.dtype == ACL_INT32)) {
    const std::vector<int64_t> values = kernel.LoadIntegers(from);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t place = Place(to, static_cast<int64_t>(i));
      if (to.dtype == ACL_INT64) {
        kernel.Data<int64_t>(to)[place] = values[i];
      } else {
        kernel.Data<int32_t>(to)[place] = static_cast<int32_t>(values[i]);
      }
    }
    return;
  }
  const bool truncates = Integral(to.dtype) && to.dtype != ACL_BOOL && !Integral(from.dtype);
  const std::vector<float> values = kernel.LoadAll(from);
  for (size_t i = 0; i < values.size(); ++i) {
    kernel.Store(to, static_cast<int64_t>(i), truncates ? std::trunc(values[i]) : values[i]);
  }
}

aclnnStatus CastSize(const aclTensor* self, int dtype, aclTensor* out, uint64_t* size,
                     aclOpExecutor** executor) {
  Call call("aclnnCast", size, executor);
  const Operand a = call.Input("self", self, kAny);
  const Operand c = call.Output("out", out, kAny);
  call.Expect(c.dtype == dtype, kAclnnInvalid, "out: dtype {}, the attribute says {}",
              NameOf(c.dtype), NameOf(static_cast<aclDataType>(dtype)));
  call.SameShape(a, c);
  return call.Finish([=](Kernel& kernel) { Convert(kernel, a, c); });
}

aclnnStatus InplaceCopySize(aclTensor* self, const aclTensor* source, uint64_t* size,
                            aclOpExecutor** executor) {
  Call call("aclnnInplaceCopy", size, executor);
  const Operand to = call.Output("selfRef", self, kAny);
  const Operand from = call.Input("src", source, kAny);
  CheckBroadcast(call, from, to);
  return call.Finish([=](Kernel& kernel) { Convert(kernel, Broadcast(from, to.shape), to); });
}

aclnnStatus InplaceZeroSize(aclTensor* self, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnInplaceZero", size, executor);
  const Operand to = call.Output("selfRef", self, kAny);
  return call.Finish([=](Kernel& kernel) {
    for (int64_t i = 0; i < to.count(); ++i) kernel.Store(to, i, 0);
  });
}

// The coordinates of what is not zero, a row each. Rows of `out` beyond them are left alone; the device
// tells their number by changing the tensor's shape, which is not to be read here.
aclnnStatus NonzeroSize(const aclTensor* self, aclTensor* out, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call("aclnnNonzero", size, executor);
  const Operand a = call.Input("self", self, kAny);
  const Operand c = call.Output("out", out, {ACL_INT64});
  call.Shape(c, {a.count(), a.rank()});
  call.Contiguous(c);
  call.DataDependent();
  return call.Finish([=](Kernel& kernel) {
    auto* rows = kernel.Data<int64_t>(c);
    for (int64_t i = 0; i < a.count(); ++i) {
      if (kernel.Load(a, i) == 0) continue;
      int64_t index = i;
      for (int64_t axis = a.rank(); axis-- > 0; index /= a.dim(axis))
        rows[axis] = index % a.dim(axis);
      rows += a.rank();
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnNonzero, NonzeroSize);
EMULATOR_STANDARD_OP(aclnnAdd, AddSize);
EMULATOR_STANDARD_OP(aclnnMul, MulSize);
EMULATOR_STANDARD_OP(aclnnMuls, MulsSize);
EMULATOR_STANDARD_OP(aclnnCast, CastSize);
EMULATOR_STANDARD_OP(aclnnInplaceCopy, InplaceCopySize);
EMULATOR_STANDARD_OP(aclnnInplaceZero, InplaceZeroSize);

}  // namespace ascend_emulator
