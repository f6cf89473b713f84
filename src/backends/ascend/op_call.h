// A call of the vendor's operators:
//
//   Call(stream, stream.symbols().RmsNorm, x, gamma, eps, y, rstd);
//
// describes the operands, runs the first phase, takes the workspace from the stream's arena and
// launches. What fails is kept by the stream and surfaces at its Synchronize; a stream that has a
// fault drops calls. Operands may be given as
//   aclTensor*      Tensor or View; an empty Tensor, View() or nullptr is null
//   aclTensorList*  the same, as a list of one; View() or nullptr is null
//   aclIntArray*    Ints{...} or nullptr
//   aclScalar*      a float (Scalar{value, dtype} for others)
//   anything else   as it is
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "backends/ascend/acl.h"
#include "backends/ascend/runtime_stream.h"
#include "backends/ascend/symbol_table.h"
#include "backends/ascend/view.h"
#include "base/check.h"

namespace cachalot::ascend {

struct Ints {
  static constexpr size_t kMax = 8;

  Ints(std::initializer_list<int64_t> list) : count(list.size()) {
    CACHALOT_CHECK_LE(list.size(), kMax);
    std::copy(list.begin(), list.end(), values.begin());
  }

  std::array<int64_t, kMax> values = {};
  size_t count;
};

struct Scalar {
  Scalar(float number) : value(number) {}  // NOLINT: the usual case
  Scalar(double number, aclDataType type) : value(number), dtype(type) {}

  double value;
  aclDataType dtype = ACL_FLOAT;
};

// One argument of a call, for as long as the call lasts: what stands for parameter type P. ok() is
// false where the library could not make it.
template <typename P>
class Argument {
 public:
  template <typename Given>
  Argument(const SymbolTable&, const Given& given) : value_(static_cast<P>(given)) {
    static_assert(std::is_convertible_v<Given, P>);
  }
  P get() const { return value_; }
  bool ok() const { return true; }

 private:
  P value_;
};

// What the library makes of an argument and destroys after the call. Null where none was wanted.
template <typename T, auto kDestroy>
class Made {
 public:
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  T* get() const { return made_; }
  bool ok() const { return made_ != nullptr || !wanted_; }

 protected:
  Made(const SymbolTable& symbols, bool wanted, T* made)
      : symbols_(symbols), wanted_(wanted), made_(made) {}
  ~Made() {
    if (made_ != nullptr) {
      (symbols_.*kDestroy)(made_);
    }
  }

 private:
  const SymbolTable& symbols_;
  bool wanted_;
  T* made_;
};

struct TensorArgument : Made<aclTensor, &SymbolTable::aclDestroyTensor> {
  TensorArgument(const SymbolTable& symbols, const View& view);
  TensorArgument(const SymbolTable& symbols, std::nullptr_t) : Made(symbols, false, nullptr) {}
};

// Destroying a list destroys its tensors.
struct TensorListArgument : Made<aclTensorList, &SymbolTable::aclDestroyTensorList> {
  TensorListArgument(const SymbolTable& symbols, const View& only);
  TensorListArgument(const SymbolTable& symbols, std::nullptr_t) : Made(symbols, false, nullptr) {}
};

struct IntArrayArgument : Made<aclIntArray, &SymbolTable::aclDestroyIntArray> {
  IntArrayArgument(const SymbolTable& symbols, const Ints& ints);
  IntArrayArgument(const SymbolTable& symbols, std::nullptr_t) : Made(symbols, false, nullptr) {}
};

struct ScalarArgument : Made<aclScalar, &SymbolTable::aclDestroyScalar> {
  ScalarArgument(const SymbolTable& symbols, const Scalar& scalar);
};

#define CACHALOT_ARGUMENT(type, holder)  \
  template <>                            \
  class Argument<type> : public holder { \
   public:                               \
    using holder::holder;                \
  }
CACHALOT_ARGUMENT(aclTensor*, TensorArgument);
CACHALOT_ARGUMENT(const aclTensor*, TensorArgument);
CACHALOT_ARGUMENT(aclTensorList*, TensorListArgument);
CACHALOT_ARGUMENT(const aclTensorList*, TensorListArgument);
CACHALOT_ARGUMENT(const aclIntArray*, IntArrayArgument);
CACHALOT_ARGUMENT(const aclScalar*, ScalarArgument);
#undef CACHALOT_ARGUMENT

// What a call has come to after its first phase.
struct Prepared {
  const char* name;  // of the operator
  aclnnStatus status = ACL_SUCCESS;
  uint64_t workspace_bytes = 0;
  aclOpExecutor* executor = nullptr;
};
using LaunchFunction = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

// The rest of a call, once for all operators.
bool MayCall(RuntimeStream& stream, const char* name, bool bound);
void FailToDescribe(RuntimeStream& stream, const char* name);
void Finish(RuntimeStream& stream, const Prepared& prepared, LaunchFunction launch);

template <typename... P, typename... Given>
void Call(RuntimeStream& stream, const Operator<void(P...)>& op, const Given&... given) {
  static_assert(sizeof...(P) == sizeof...(Given), "as many arguments as symbols.def has");
  if (!MayCall(stream, op.name, static_cast<bool>(op))) {
    return;
  }
  const auto call = [&](const Argument<P>&... arguments) {
    if (!(arguments.ok() && ...)) {
      FailToDescribe(stream, op.name);
      return;
    }
    Prepared prepared{.name = op.name};
    prepared.status = op.prepare(arguments.get()..., &prepared.workspace_bytes, &prepared.executor);
    Finish(stream, prepared, op.launch);
  };
  call(Argument<P>(stream.symbols(), given)...);
}

}  // namespace cachalot::ascend
