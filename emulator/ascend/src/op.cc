#include "op.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "caller.h"
#include "entry.h"

namespace ascend_emulator {
namespace {

constexpr uint64_t kSomeWorkspace = 4096;
constexpr uint64_t kOperandAlignment = 32;

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text +=
        fmt::format("{}{}", i == 0 ? "" : ", ", shape[i] < 0 ? "any" : std::to_string(shape[i]));
  }
  return text + "]";
}

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

// Bytes of so many elements.
uint64_t BytesOf(aclDataType dtype, int64_t count) {
  return static_cast<uint64_t>(dtype == ACL_INT4 ? (count + 1) / 2 : count * SizeOf(dtype));
}

Ranges RangesOf(const Operand& operand) {
  const auto base = reinterpret_cast<uintptr_t>(operand.base);
  const int64_t size = SizeOf(operand.dtype);
  if (size == 0 || operand.format == ACL_FORMAT_FRACTAL_NZ) {
    return Span(base, BytesOf(operand.dtype, Product(operand.storage)));
  }
  std::vector<int64_t> strides = operand.strides;
  for (int64_t& stride : strides) stride *= size;
  return View(base + static_cast<uintptr_t>(operand.offset * size), operand.shape, strides, size);
}

// "" or what is wrong with where the operand lies. Its allocation where all is well.
std::string CheckPlace(const Operand& operand, int device, bool written,
                       std::shared_ptr<Allocation>& allocation) {
  const Memory& memory = runtime().memory;
  const auto base = reinterpret_cast<uintptr_t>(operand.base);
  if (base == 0) return "has no address";
  allocation = memory.Find(base);
  const int place = memory.DeviceOf(base);
  if (place == kHost) {
    return fmt::format("{} is host memory, not device memory", fmt::ptr(operand.base)) +
           (allocation != nullptr ? ": " + Describe(*allocation) : "");
  }
  if (place != device) {
    return fmt::format("lies in the memory of device {}, the call is for device {}", place, device);
  }
  if (allocation == nullptr) return fmt::format("{} is in no allocation", fmt::ptr(operand.base));
  if (!allocation->live) return "lies in freed memory: " + Describe(*allocation);
  if (base % kOperandAlignment != 0) {
    return fmt::format("address {} is not aligned to {} bytes; {}", fmt::ptr(operand.base),
                       kOperandAlignment, Describe(*allocation));
  }
  int64_t last = operand.offset;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    const int64_t stride = operand.strides[axis];
    if (stride < 0) return fmt::format("stride {} of axis {} is negative", stride, axis);
    if (written && stride == 0 && operand.shape[axis] > 1) {
      return fmt::format("is written, but its elements share memory along axis {} (stride 0)",
                         axis);
    }
    last += (operand.shape[axis] - 1) * stride;
  }
  const int64_t stored = Product(operand.storage);
  if (operand.offset < 0 || last >= stored) {
    return fmt::format("view {} with offset {} reaches element {}, its storage has {}",
                       ShapeText(operand.shape), operand.offset, last, stored);
  }
  const uint64_t bytes = BytesOf(operand.dtype, stored);
  if (base + bytes > allocation->base + allocation->size) {
    return fmt::format("{} bytes of storage reach {} bytes past the end of {}", bytes,
                       base + bytes - allocation->base - allocation->size, Describe(*allocation));
  }
  return "";
}

}  // namespace

struct Call::State {
  std::string op;
  uint64_t* size = nullptr;
  aclOpExecutor** executor = nullptr;
  aclnnStatus status = 0;
  std::string message;
  bool injected = false;
  int device = -1;
  bool data_dependent = false;
  uint64_t workspace = kSomeWorkspace;
  std::vector<std::pair<Role, Access>> operands;
  std::string arguments;
};

Call::Call(const char* op, uint64_t* workspace_size, aclOpExecutor** executor)
    : state_(std::make_unique<State>()) {
  state_->op = op;
  state_->size = workspace_size;
  state_->executor = executor;
  const void* caller = CallerOutside();
  const Lock lock(runtime().mutex);
  state_->status = Enter(fmt::format("{}GetWorkspaceSize", op).c_str(), caller, "");
  state_->injected = state_->status != 0;
  if (state_->status != 0) return;
  state_->device = thread_state().device;
  if (state_->device < 0) {
    Fail(kAclnnRuntime, "this thread has not set a device");
  } else if (workspace_size == nullptr || executor == nullptr) {
    Fail(kAclnnNull, "workspaceSize or executor is null");
  }
}

Call::~Call() = default;

bool Call::ok() const { return state_->status == 0; }

void Call::Fail(aclnnStatus code, std::string message) {
  if (!ok()) return;
  state_->status = code;
  state_->message = std::move(message);
}

Operand Call::Take(const std::string& name, const void* handle, DTypes dtypes, Role role,
                   bool optional) {
  if (!ok()) return {};
  Operand absent;
  absent.name = name;
  if (optional && handle == nullptr) return absent;
  if (handle == nullptr) {
    Fail(kAclnnNull, name + ": is null");
    return {};
  }
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  const auto tensor = rt.meta.tensors.Find(handle);
  if (tensor == nullptr) {
    Fail(kAclnnInvalid, fmt::format("{}: {}", name, rt.meta.tensors.Explain(handle)));
    return {};
  }
  Operand operand = tensor->operand;
  operand.name = name;
  state_->arguments += fmt::format("{}{} {}{}", state_->arguments.empty() ? "" : ", ", name,
                                   NameOf(operand.dtype), ShapeText(operand.shape));
  if (optional && operand.count() == 0) return absent;
  if (dtypes.size() > 0 && std::find(dtypes.begin(), dtypes.end(), operand.dtype) == dtypes.end()) {
    std::string known;
    for (const aclDataType dtype : dtypes) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", NameOf(dtype));
    }
    Fail(kAclnnInvalid,
         fmt::format("{}: dtype {} is none of: {}", name, NameOf(operand.dtype), known));
    return {};
  }
  if (operand.count() == 0) return operand;
  std::shared_ptr<Allocation> allocation;
  const std::string wrong = CheckPlace(operand, state_->device, role != Role::kInput, allocation);
  if (!wrong.empty()) {
    Fail(kAclnnInvalid, fmt::format("{}: {}", name, wrong));
    return {};
  }
  Ranges ranges = RangesOf(operand);
  state_->operands.emplace_back(role,
                                Access{name, allocation, std::move(ranges), role != Role::kInput});
  return operand;
}

std::vector<Operand> Call::TakeAll(const char* name, const aclTensorList* list, DTypes dtypes,
                                   Role role) {
  if (!ok()) return {};
  std::vector<const void*> members;
  {
    Runtime& rt = runtime();
    const Lock lock(rt.mutex);
    const auto found = rt.meta.lists.Find(list);
    if (found == nullptr) {
      Fail(list == nullptr ? kAclnnNull : kAclnnInvalid,
           fmt::format("{}: {}", name, rt.meta.lists.Explain(list)));
      return {};
    }
    members = found->members;
  }
  std::vector<Operand> operands;
  for (size_t i = 0; i < members.size() && ok(); ++i) {
    operands.push_back(Take(fmt::format("{}[{}]", name, i), members[i], dtypes, role, false));
  }
  if (!ok()) operands.clear();
  return operands;
}

Operand Call::Input(const char* name, const aclTensor* tensor, DTypes dtypes) {
  return Take(name, tensor, dtypes, Role::kInput, false);
}

Operand Call::Output(const char* name, const aclTensor* tensor, DTypes dtypes) {
  return Take(name, tensor, dtypes, Role::kOutput, false);
}

Operand Call::InOut(const char* name, const aclTensor* tensor, DTypes dtypes) {
  return Take(name, tensor, dtypes, Role::kInOut, false);
}

Operand Call::OptionalInput(const char* name, const aclTensor* tensor, DTypes dtypes) {
  return Take(name, tensor, dtypes, Role::kInput, true);
}

Operand Call::OptionalOutput(const char* name, const aclTensor* tensor, DTypes dtypes) {
  return Take(name, tensor, dtypes, Role::kOutput, true);
}

std::vector<Operand> Call::Inputs(const char* name, const aclTensorList* list, DTypes dtypes) {
  return TakeAll(name, list, dtypes, Role::kInput);
}

std::vector<Operand> Call::Outputs(const char* name, const aclTensorList* list, DTypes dtypes) {
  return TakeAll(name, list, dtypes, Role::kOutput);
}

namespace {

// The thing behind a handle of an attribute, or an empty one and the call fails.
template <typename T>
T Attribute(Call& call, const char* name, const void* handle, Registry<T> Meta::*kind) {
  if (!call.ok()) return {};
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  const Registry<T>& registry = rt.meta.*kind;
  const auto found = registry.Find(handle);
  if (found != nullptr) return *found;
  call.Fail(handle == nullptr ? kAclnnNull : kAclnnInvalid,
            fmt::format("{}: {}", name, registry.Explain(handle)));
  return {};
}

}  // namespace

std::vector<int64_t> Call::Integers(const char* name, const aclIntArray* array) {
  return Attribute(*this, name, array, &Meta::ints).values;
}

std::vector<float> Call::Floats(const char* name, const aclFloatArray* array) {
  return Attribute(*this, name, array, &Meta::floats).values;
}

std::vector<uint8_t> Call::Flags(const char* name, const aclBoolArray* array) {
  return Attribute(*this, name, array, &Meta::flags).values;
}

double Call::Number(const char* name, const aclScalar* scalar) {
  return Attribute(*this, name, scalar, &Meta::scalars).value;
}

void Call::Rank(const Operand& operand, std::initializer_list<int64_t> ranks) {
  if (!ok() || std::find(ranks.begin(), ranks.end(), operand.rank()) != ranks.end()) return;
  Fail(kAclnnInvalid, fmt::format("{}: {} axes {}, expected {}", operand.name, operand.rank(),
                                  ShapeText(operand.shape), fmt::join(ranks, " or ")));
}

void Call::Shape(const Operand& operand, const std::vector<int64_t>& shape) {
  if (!ok()) return;
  bool same = shape.size() == operand.shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i)
    same = shape[i] < 0 || shape[i] == operand.shape[i];
  if (same) return;
  Fail(kAclnnInvalid, fmt::format("{}: shape {}, expected {}", operand.name,
                                  ShapeText(operand.shape), ShapeText(shape)));
}

void Call::SameShape(const Operand& a, const Operand& b) {
  if (!ok() || a.shape == b.shape) return;
  Fail(kAclnnInvalid, fmt::format("{}: shape {}, expected {} as {} has", b.name, ShapeText(b.shape),
                                  ShapeText(a.shape), a.name));
}

void Call::Contiguous(const Operand& operand) {
  if (!ok() || operand.contiguous()) return;
  Fail(kAclnnInvalid, fmt::format("{}: shape {} with strides {} is not contiguous", operand.name,
                                  ShapeText(operand.shape), ShapeText(operand.strides)));
}

void Call::Absent(const Operand& operand, const char* why) {
  if (!ok() || operand.absent()) return;
  Fail(kAclnnInvalid, fmt::format("{}: may not be given: {}", operand.name, why));
}

void Call::Present(const Operand& operand, const char* why) {
  if (!ok() || !operand.absent()) return;
  Fail(kAclnnNull, fmt::format("{}: is missing: {}", operand.name, why));
}

bool Call::Lifted(const char* limit) {
  if (!ok()) return true;
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  if (!rt.settings.small_models_all && !rt.settings.small_models.contains(limit)) return false;
  rt.lifted.insert(limit);
  return true;
}

void Call::DataDependent() { state_->data_dependent = true; }

void Call::Workspace(uint64_t bytes) { state_->workspace = bytes; }

aclnnStatus Call::Finish(Body body) {
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  ThreadState& thread = thread_state();
  thread.site.call = fmt::format("{}GetWorkspaceSize({})", state_->op, state_->arguments);
  for (size_t i = 0; i < state_->operands.size() && ok(); ++i) {
    for (size_t j = 0; j < i && ok(); ++j) {
      const auto& [role, access] = state_->operands[i];
      const auto& [other_role, other] = state_->operands[j];
      if (!access.write && !other.write) continue;
      if (!Overlap(access.ranges, other.ranges)) continue;
      Fail(kAclnnInvalid, fmt::format("{} overlaps {} in {}, and one of them is written",
                                      access.operand, other.operand, Describe(*access.allocation)));
    }
  }
  if (!ok()) {
    // Nothing goes to *executor: after a wrong list of arguments it points anywhere.
    if (!state_->injected) {
      thread.message = fmt::format("{}: {}", state_->op, state_->message);
      Report(fmt::format("refused with {}: {}", state_->status, thread.message));
    }
    Leave(state_->status);
    return state_->status;
  }
  auto executor = std::make_shared<Executor>();
  executor->op = state_->op;
  executor->device = state_->device;
  executor->workspace = state_->workspace;
  for (auto& [role, access] : state_->operands) executor->accesses.push_back(std::move(access));
  executor->body = std::move(body);
  executor->data_dependent = state_->data_dependent;
  executor->made = thread.site;
  *state_->size = state_->workspace;
  *state_->executor = static_cast<aclOpExecutor*>(rt.executors.Add(std::move(executor)));
  Leave(0);
  return 0;
}

}  // namespace ascend_emulator
