#include "backends/ascend/op_call.h"

namespace cachalot::ascend {
namespace {

aclTensor* Create(const SymbolTable& symbols, const View& view) {
  return symbols.aclCreateTensor(view.dims.data(), static_cast<uint64_t>(view.rank), view.dtype,
                                 view.strides.data(), view.offset, view.format, view.storage.data(),
                                 static_cast<uint64_t>(view.storage_rank), view.data);
}

}  // namespace

TensorArgument::TensorArgument(const SymbolTable& symbols, const View& view) : symbols_(symbols) {
  if (!view.absent()) {
    tensor_ = Create(symbols, view);
    ok_ = tensor_ != nullptr;
  }
}

TensorArgument::~TensorArgument() {
  if (tensor_ != nullptr) {
    symbols_.aclDestroyTensor(tensor_);
  }
}

TensorListArgument::TensorListArgument(const SymbolTable& symbols, const View& only)
    : symbols_(symbols) {
  if (only.absent()) {
    return;
  }
  const aclTensor* const tensor = Create(symbols, only);
  if (tensor != nullptr) {
    list_ = symbols.aclCreateTensorList(&tensor, 1);
    if (list_ == nullptr) {
      symbols.aclDestroyTensor(tensor);
    }
  }
  ok_ = list_ != nullptr;
}

TensorListArgument::~TensorListArgument() {
  if (list_ != nullptr) {
    symbols_.aclDestroyTensorList(list_);  // and its tensor
  }
}

IntArrayArgument::IntArrayArgument(const SymbolTable& symbols, const Ints& ints)
    : symbols_(symbols), array_(symbols.aclCreateIntArray(ints.values.data(), ints.count)) {
  ok_ = array_ != nullptr;
}

IntArrayArgument::~IntArrayArgument() {
  if (array_ != nullptr) {
    symbols_.aclDestroyIntArray(array_);
  }
}

ScalarArgument::ScalarArgument(const SymbolTable& symbols, const Scalar& scalar)
    : symbols_(symbols) {
  auto real = static_cast<float>(scalar.value);
  auto integer = static_cast<int64_t>(scalar.value);
  CACHALOT_CHECK(scalar.dtype == ACL_FLOAT || scalar.dtype == ACL_INT64);
  void* value = scalar.dtype == ACL_FLOAT ? static_cast<void*>(&real) : &integer;
  scalar_ = symbols.aclCreateScalar(value, scalar.dtype);
}

ScalarArgument::~ScalarArgument() {
  if (scalar_ != nullptr) {
    symbols_.aclDestroyScalar(scalar_);
  }
}

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
