// One call of an operator. Phase 1 builds a Call: it names every operand, checks it and keeps what
// the kernel needs by value; Finish hands out the executor. Phase 2 queues the body, which sees the
// device's memory through a Kernel.
//
//   aclnnStatus FooSize(const aclTensor* x, double eps, aclTensor* out, uint64_t* size,
//                       aclOpExecutor** executor) {
//     Call call("aclnnFoo", size, executor);
//     const Operand a = call.Input("x", x, {ACL_BF16, ACL_FLOAT16});
//     const Operand y = call.Output("out", out, {a.dtype});
//     call.SameShape(a, y);
//     call.Expect(eps > 0, kAclnnInvalid, "eps {} is not positive", eps);
//     return call.Finish([=](Kernel& kernel) { ... kernel.Data<uint16_t>(a) ... });
//   }
//   EMULATOR_STANDARD_OP(aclnnFoo, FooSize);  // export.h; the second phase is Run for all
//
// After the first failed check the others do nothing, operands are empty, and Finish returns its code
// with the message "aclnnFoo: x: ..." for aclGetRecentErrMsg.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "acl.h"

namespace ascend_emulator {

// An aclTensor as phase 1 saw it. Strides and offset in elements.
struct Operand {
  std::string name;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::vector<int64_t> storage;
  int64_t offset = 0;
  void* base = nullptr;  // a device address: nothing that the host, or a kernel, may read

  bool absent() const { return base == nullptr && shape.empty(); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t dim(int64_t axis) const;  // from the end where negative; 0 where there is no such axis
  int64_t count() const;
  bool contiguous() const;       // first axis may not be strided either
  bool contiguous_rows() const;  // all but the first axis
};

int64_t SizeOf(aclDataType dtype);  // bytes of an element; INT4 is not asked for
const char* NameOf(aclDataType dtype);

// What a queued body may touch. Bodies run on a stream's worker, one at a time on a stream.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // The operand's first element (base + offset), as the workers see the memory.
  template <typename T>
  T* Data(const Operand& operand) {
    return static_cast<T*>(Map(operand));
  }
  // Elements of any dtype as float, by coordinates in the view flattened over its shape; strides are
  // minded. Store rounds to nearest even; to integers too, clamped.
  float Load(const Operand& operand, int64_t index);
  void Store(const Operand& operand, int64_t index, float value);
  std::vector<float> LoadAll(const Operand& operand);
  std::vector<int64_t> LoadIntegers(const Operand& operand);  // INT32, INT64, BOOL

  virtual uint8_t* workspace() = 0;
  virtual int cube_cores() = 0;    // 20 or 24
  virtual int vector_cores() = 0;  // twice as many

  // A fault of the device: the next wait for the stream returns `code`. The body should return at once.
  // An emulator's finding about a wrong program (stale metadata, a bad block id) is a fault too.
  virtual void Fault(aclError code, std::string message) = 0;
  template <typename... Args>
  void Fault(aclError code, fmt::format_string<Args...> format, Args&&... args) {
    Fault(code, fmt::format(format, std::forward<Args>(args)...));
  }
  virtual bool faulted() const = 0;

 private:
  virtual void* Map(const Operand& operand) = 0;
};

class Call {
 public:
  using DTypes = std::initializer_list<aclDataType>;
  using Body = std::function<void(Kernel&)>;

  Call(const char* op, uint64_t* workspace_size, aclOpExecutor** executor);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Operands. A missing one fails with kAclnnNull, a dtype not listed with kAclnnInvalid. All are
  // checked against the memory that they lie in: device memory of this device, alive, base aligned to
  // 32 bytes, view within storage, storage within the allocation.
  Operand Input(const char* name, const aclTensor* tensor, DTypes dtypes);
  Operand Output(const char* name, const aclTensor* tensor, DTypes dtypes);
  Operand InOut(const char* name, const aclTensor* tensor, DTypes dtypes);
  // Null, or an empty tensor: absent.
  Operand OptionalInput(const char* name, const aclTensor* tensor, DTypes dtypes);
  Operand OptionalOutput(const char* name, const aclTensor* tensor, DTypes dtypes);
  std::vector<Operand> Inputs(const char* name, const aclTensorList* list, DTypes dtypes);
  std::vector<Operand> Outputs(const char* name, const aclTensorList* list, DTypes dtypes);
  std::vector<int64_t> Integers(const char* name, const aclIntArray* array);
  std::vector<float> Floats(const char* name, const aclFloatArray* array);
  std::vector<uint8_t> Flags(const char* name, const aclBoolArray* array);
  double Number(const char* name, const aclScalar* scalar);

  // Checks; all say what was expected and what was there.
  void Rank(const Operand& operand, std::initializer_list<int64_t> ranks);
  void Shape(const Operand& operand, const std::vector<int64_t>& shape);  // -1: any
  void SameShape(const Operand& a, const Operand& b);
  void Contiguous(const Operand& operand);
  void Absent(const Operand& operand, const char* why);   // given although it may not be
  void Present(const Operand& operand, const char* why);  // missing although it must be there
  template <typename... Args>
  void Expect(bool ok, aclnnStatus code, fmt::format_string<Args...> format, Args&&... args) {
    if (!ok) Fail(code, fmt::format(format, std::forward<Args>(args)...));
  }
  // A limit of the real operator on a size of the model (head count, hidden size ...). `limit` is its
  // name, "HcPre.hidden" say; the switch for small models lifts these alone, and lists them.
  template <typename... Args>
  void Limit(bool ok, const char* limit, fmt::format_string<Args...> format, Args&&... args) {
    if (!ok && !Lifted(limit))
      Fail(kAclnnInvalid, fmt::format(format, std::forward<Args>(args)...));
  }

  bool ok() const;
  void Fail(aclnnStatus code, std::string message);

  // The shape of an output depends on data: the operator cannot be captured.
  void DataDependent();
  // Bytes of workspace that phase 2 must bring: a positive number unless said here. Filled with poison
  // before the body runs and after, so that memory which two operators share at a time is seen.
  void Workspace(uint64_t bytes);
  aclnnStatus Finish(Body body);

 private:
  struct State;
  enum class Role { kInput, kOutput, kInOut };

  bool Lifted(const char* limit);
  Operand Take(const std::string& name, const void* tensor, DTypes dtypes, Role role,
               bool optional);
  std::vector<Operand> TakeAll(const char* name, const aclTensorList* list, DTypes dtypes,
                               Role role);

  std::unique_ptr<State> state_;
};

aclnnStatus Run(const char* op, void* workspace, uint64_t size, aclOpExecutor* executor,
                aclrtStream stream);

// Which packages of operators are there.
enum class Flavour { kCustom, kOfficial, kBoth };
Flavour flavour();

}  // namespace ascend_emulator
