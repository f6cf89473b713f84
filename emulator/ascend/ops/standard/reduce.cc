// Operators over one axis: aclnnSoftmax, aclnnArgMax, aclnnTopk, aclnnReduceSum. Equal values go to the
// lower index, and NaN counts as the largest value. Sums run from the end of the axis to its start.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "export.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

bool Greater(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}

aclnnStatus SoftmaxSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call("aclnnSoftmax", size, executor);
  const Operand input = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand result = call.Output("out", out, {input.dtype});
  const int64_t axis = Axis(call, input, dim);
  call.SameShape(input, result);
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, WithAxisLast(input, axis));
    const Rows to(kernel, WithAxisLast(result, axis));
    for (int64_t row = 0; row < in.count() && in.width() > 0; ++row) {
      std::vector<float> values = in.Read(row);
      const float largest = *std::max_element(values.begin(), values.end());
      float sum = 0;
      for (size_t i = values.size(); i-- > 0;) {
        values[i] = std::exp(values[i] - largest);
        sum += values[i];
      }
      for (float& value : values) {
        value /= sum;
      }
      to.Write(row, values.data());
    }
  });
}

// The shape without an axis, or with a one in its place.
std::vector<int64_t> Reduced(const Operand& operand, int64_t axis, bool keep) {
  std::vector<int64_t> shape = operand.shape;
  if (keep) {
    shape[axis] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return shape;
}

aclnnStatus ArgMaxSize(const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
                       uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnArgMax", size, executor);
  const Operand input = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand result = call.Output("out", out, {ACL_INT64, ACL_INT32});
  const int64_t axis = Axis(call, input, dim);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Shape(result, Reduced(input, axis, keepdim));
  call.Expect(input.shape[axis] > 0, kAclnnInvalid, "self: axis {} is empty", axis);
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, WithAxisLast(input, axis));
    for (int64_t row = 0; row < in.count(); ++row) {
      const std::vector<float> values = in.Read(row);
      const auto best = std::max_element(values.begin(), values.end(),
                                         [](float a, float b) { return Greater(b, a); });
      kernel.Store(result, row, static_cast<float>(best - values.begin()));
    }
  });
}

aclnnStatus TopkSize(const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted,
                     aclTensor* values, aclTensor* indices, uint64_t* size,
                     aclOpExecutor** executor) {
  Call call("aclnnTopk", size, executor);
  const Operand input = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand best = call.Output("values", values, {input.dtype});
  const Operand where = call.Output("indices", indices, {ACL_INT64});
  const int64_t axis = Axis(call, input, dim);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Expect(sorted, kAclnnInvalid, "sorted: must be true");
  call.Expect(k >= 0 && k <= input.shape[axis], kAclnnInvalid, "k: {} is outside [0, {}]", k,
              input.shape[axis]);
  std::vector<int64_t> shape = input.shape;
  shape[axis] = k;
  call.Shape(best, shape);
  call.Shape(where, shape);
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, WithAxisLast(input, axis));
    const Rows to(kernel, WithAxisLast(best, axis));
    const Rows places(kernel, WithAxisLast(where, axis));
    for (int64_t row = 0; row < in.count(); ++row) {
      const std::vector<float> scores = in.Read(row);
      std::vector<int64_t> order(scores.size());
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
        const bool before = largest ? Greater(scores[a], scores[b]) : Greater(scores[b], scores[a]);
        const bool after = largest ? Greater(scores[b], scores[a]) : Greater(scores[a], scores[b]);
        return before || (!after && a < b);
      });
      std::vector<float> chosen(k);
      std::transform(order.begin(), order.begin() + k, chosen.begin(),
                     [&](int64_t i) { return scores[i]; });
      const std::vector<float> found(order.begin(), order.begin() + k);
      to.Write(row, chosen.data());
      places.Write(row, found.data());
    }
  });
}

aclnnStatus ReduceSumSize(const aclTensor* self, const aclIntArray* dims, bool keep_dims,
                          aclDataType dtype, aclTensor* out, uint64_t* size,
                          aclOpExecutor** executor) {
  Call call("aclnnReduceSum", size, executor);
  const Operand input = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand result = call.Output("out", out, {dtype});
  call.Expect(dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16, kAclnnInvalid,
              "dtype: {} is no floating type", NameOf(dtype));
  std::vector<int64_t> axes;
  for (const int64_t dim : call.Integers("dims", dims)) {
    axes.push_back(Axis(call, input, dim));
  }
  if (call.ok() && axes.empty()) {
    axes.resize(input.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::sort(axes.begin(), axes.end(), std::greater<>());
  call.Expect(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), kAclnnInvalid,
              "dims: an axis twice in {}", ShapeText(axes));
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  // The axes that are summed go last, the others keep their order.
  Operand ordered = input;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    ordered = WithAxisLast(ordered, *axis - (axis - axes.rbegin()));
  }
  std::vector<int64_t> shape = input.shape;
  int64_t summed = 1;
  for (const int64_t axis : axes) {
    summed *= input.shape[axis];
    if (keep_dims) {
      shape[axis] = 1;
    } else {
      shape.erase(shape.begin() + axis);
    }
  }
  call.Shape(result, shape);
  return call.Finish([=](Kernel& kernel) {
    const std::vector<float> values = kernel.LoadAll(ordered);
    for (int64_t row = 0; row < result.count(); ++row) {
      float sum = 0;
      for (int64_t i = summed; i-- > 0;) {
        sum += values[row * summed + i];
      }
      kernel.Store(result, row, sum);
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnSoftmax, SoftmaxSize);
EMULATOR_STANDARD_OP(aclnnArgMax, ArgMaxSize);
EMULATOR_STANDARD_OP(aclnnTopk, TopkSize);
EMULATOR_STANDARD_OP(aclnnReduceSum, ReduceSumSize);

}  // namespace ascend_emulator::standard
