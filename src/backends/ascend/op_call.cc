#include "backends/ascend/op_call.h"

namespace cachalot::ascend {
namespace {

// Null for what is absent.
aclTensor* MakeTensor(const SymbolTable& symbols, const View& view) {
  if (view.absent()) {
    return nullptr;
  }
  return symbols.aclCreateTensor(view.dims.data(), static_cast<uint64_t>(view.rank), view.dtype,
                                 view.strides.data(), view.offset, view.format, view.storage.data(),
                                 static_cast<uint64_t>(view.storage_rank), view.data);
}

aclTensorList* MakeList(const SymbolTable& symbols, const View& only) {
  const aclTensor* const tensor = MakeTensor(symbols, only);
  if (tensor == nullptr) {
    return nullptr;
  }
  aclTensorList* list = symbols.aclCreateTensorList(&tensor, 1);
  if (list == nullptr) {
    symbols.aclDestroyTensor(tensor);
  }
  return list;
}

aclScalar* MakeScalar(const SymbolTable& symbols, const Scalar& scalar) {
  CACHALOT_CHECK(scalar.dtype == ACL_FLOAT || scalar.dtype == ACL_INT64);
  auto real = static_cast<float>(scalar.value);
  auto integer = static_cast<int64_t>(scalar.value);
  void* value = scalar.dtype == ACL_FLOAT ? static_cast<void*>(&real) : &integer;
  return symbols.aclCreateScalar(value, scalar.dtype);
}

}  // namespace

TensorArgument::TensorArgument(const SymbolTable& symbols, const View& view)
    : Made(symbols, !view.absent(), MakeTensor(symbols, view)) {}

TensorListArgument::TensorListArgument(const SymbolTable& symbols, const View& only)
    : Made(symbols, !only.absent(), MakeList(symbols, only)) {}

IntArrayArgument::IntArrayArgument(const SymbolTable& symbols, const Ints& ints)
    : Made(symbols, true, symbols.aclCreateIntArray(ints.values.data(), ints.count)) {}

ScalarArgument::ScalarArgument(const SymbolTable& symbols, const Scalar& scalar)
    : Made(symbols, true, MakeScalar(symbols, scalar)) {}

bool MayCall(RuntimeStream& stream, const char* name, bool bound) {
  if (stream.faulted()) {
    return false;
  }
  if (!bound) {
    stream.Fail({StatusCode::kUnsupported,
                 fmt::format("{}: no library on this machine has this operator", name)});
    return false;
  }
  stream.device().Bind();
  return true;
}

void FailToDescribe(RuntimeStream& stream, const char* name) {
  stream.Fail(
      {StatusCode::kDeviceFault, fmt::format("{}: an operand could not be described", name)});
}

void Finish(RuntimeStream& stream, const Prepared& prepared, LaunchFunction launch) {
  if (prepared.status != ACL_SUCCESS) {
    stream.Fail(stream.device().Explain(prepared.name, prepared.status));
    return;
  }
  void* workspace = nullptr;
  if (prepared.workspace_bytes > 0) {
    workspace = stream.Workspace(static_cast<int64_t>(prepared.workspace_bytes));
  }
  // Where there is no workspace the stream has its fault; the launch fails and takes the executor
  // with it, which nothing else would free.
  const aclnnStatus status =
      launch(workspace, prepared.workspace_bytes, prepared.executor, stream.handle());
  if (status != ACL_SUCCESS) {
    stream.Fail(stream.device().Explain(prepared.name, status));
    return;
  }
  stream.CountOperator();
}

}  // namespace cachalot::ascend
