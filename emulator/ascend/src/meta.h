// What the program describes operands and attributes with: tensors, lists, scalars, arrays. They are
// copies of what it gave, and own no device memory.
#pragma once

#include <memory>
#include <vector>

#include "op.h"
#include "registry.h"

namespace ascend_emulator {

struct Tensor {
  Operand operand;
  Site made;
};

struct TensorList {
  std::vector<const void*> members;  // destroyed along with the list
  Site made;
};

struct Scalar {
  double value = 0;
  Site made;
};

template <typename T>
struct Array {
  std::vector<T> values;
  Site made;
};

struct Meta {
  Registry<Tensor> tensors{Kind::kTensor};
  Registry<TensorList> lists{Kind::kTensorList};
  Registry<Scalar> scalars{Kind::kScalar};
  Registry<Array<int64_t>> ints{Kind::kIntArray};
  Registry<Array<float>> floats{Kind::kFloatArray};
  Registry<Array<uint8_t>> flags{Kind::kBoolArray};
};

}  // namespace ascend_emulator
