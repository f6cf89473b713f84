// Operands as rows: the last axis of a view, at any strides, read and written as float. Operators over
// another axis first move it to the end. And what their checks share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "op.h"

namespace ascend_emulator::standard {

// The same elements with `axis` as the last one.
Operand WithAxisLast(Operand operand, int64_t axis);
// Two axes exchanged.
Operand Transposed(Operand operand, int64_t a, int64_t b);
// `count` entries of `axis` from `begin` on.
Operand Slice(Operand operand, int64_t axis, int64_t begin, int64_t count);

// All but the last axis, and the last one; a scalar is one row of one.
int64_t RowCount(const Operand& operand);
int64_t RowWidth(const Operand& operand);

class Rows {
 public:
  Rows(Kernel& kernel, const Operand& operand);

  int64_t count() const { return count_; }
  int64_t width() const { return width_; }

  void Read(int64_t row, float* values) const;
  std::vector<float> Read(int64_t row) const;
  // To floats: to nearest even. To integers: to nearest even, clamped.
  void Write(int64_t row, const float* values) const;
  // Byte for byte; both have the same dtype and width.
  void Copy(int64_t row, const Rows& from, int64_t from_row) const;
  // What the operator leaves undefined: NaN, or an integer that is no index of anything.
  void Poison(int64_t row) const;

 private:
  uint8_t* RowData(int64_t row) const;

  uint8_t* data_ = nullptr;
  aclDataType dtype_;
  int64_t size_;
  int64_t count_;
  int64_t width_;
  int64_t stride_;  // between elements of a row
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
};

// `axis` counted from the front; fails where the operand has no such axis.
int64_t Axis(Call& call, const Operand& operand, int64_t axis);
// A shape, failing with the operator's own code.
void ShapeOr(Call& call, aclnnStatus code, const Operand& operand,
             const std::vector<int64_t>& shape);
// A list that the operator takes only empty.
void NoTensors(Call& call, const char* name, const aclTensorList* list);
void FormatIs(Call& call, const Operand& operand, aclFormat format);
std::string ShapeText(const std::vector<int64_t>& shape);

// Every dtype that operators which only move data take.
inline constexpr std::initializer_list<aclDataType> kMovable = {
    ACL_FLOAT, ACL_FLOAT16, ACL_BF16,   ACL_INT8,   ACL_UINT8,  ACL_INT16, ACL_INT32,
    ACL_INT64, ACL_UINT16,  ACL_UINT32, ACL_UINT64, ACL_DOUBLE, ACL_BOOL};

}  // namespace ascend_emulator::standard
