// What bodies of tasks see, and how one is run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "half.h"
#include "runtime.h"

namespace ascend_emulator {
namespace {

template <typename T>
T Clamped(float value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return static_cast<T>(rounded);
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

float LoadAt(const void* data, aclDataType dtype, int64_t at) {
  switch (dtype) {
    case ACL_FLOAT:
      return static_cast<const float*>(data)[at];
    case ACL_FLOAT16:
      return FromFp16(static_cast<const uint16_t*>(data)[at]);
    case ACL_BF16:
      return FromBf16(static_cast<const uint16_t*>(data)[at]);
    case ACL_DOUBLE:
      return static_cast<float>(static_cast<const double*>(data)[at]);
    case ACL_INT8:
      return static_cast<const int8_t*>(data)[at];
    case ACL_BOOL:
    case ACL_UINT8:
      return static_cast<const uint8_t*>(data)[at];
    case ACL_INT16:
      return static_cast<const int16_t*>(data)[at];
    case ACL_UINT16:
      return static_cast<const uint16_t*>(data)[at];
    case ACL_INT32:
      return static_cast<float>(static_cast<const int32_t*>(data)[at]);
    case ACL_UINT32:
      return static_cast<float>(static_cast<const uint32_t*>(data)[at]);
    case ACL_INT64:
      return static_cast<float>(static_cast<const int64_t*>(data)[at]);
    case ACL_UINT64:
      return static_cast<float>(static_cast<const uint64_t*>(data)[at]);
    default:
      return 0;
  }
}

void StoreAt(void* data, aclDataType dtype, int64_t at, float value) {
  switch (dtype) {
    case ACL_FLOAT:
      static_cast<float*>(data)[at] = value;
      break;
    case ACL_FLOAT16:
      static_cast<uint16_t*>(data)[at] = ToFp16(value);
      break;
    case ACL_BF16:
      static_cast<uint16_t*>(data)[at] = ToBf16(value);
      break;
    case ACL_DOUBLE:
      static_cast<double*>(data)[at] = value;
      break;
    case ACL_INT8:
      static_cast<int8_t*>(data)[at] = Clamped<int8_t>(value);
      break;
    case ACL_UINT8:
      static_cast<uint8_t*>(data)[at] = Clamped<uint8_t>(value);
      break;
    case ACL_BOOL:
      static_cast<uint8_t*>(data)[at] = value != 0 ? 1 : 0;
      break;
    case ACL_INT16:
      static_cast<int16_t*>(data)[at] = Clamped<int16_t>(value);
      break;
    case ACL_UINT16:
      static_cast<uint16_t*>(data)[at] = Clamped<uint16_t>(value);
      break;
    case ACL_INT32:
      static_cast<int32_t*>(data)[at] = Clamped<int32_t>(value);
      break;
    case ACL_UINT32:
      static_cast<uint32_t*>(data)[at] = Clamped<uint32_t>(value);
      break;
    case ACL_INT64:
      static_cast<int64_t*>(data)[at] = Clamped<int64_t>(value);
      break;
    case ACL_UINT64:
      static_cast<uint64_t*>(data)[at] = Clamped<uint64_t>(value);
      break;
    default:
      break;
  }
}

class TaskKernel final : public Kernel {
 public:
  using Kernel::Fault;

  TaskKernel(Runtime& rt, const Task& task, int cores) : rt_(rt), task_(task), cores_(cores) {}

  uint8_t* workspace() override {
    return task_.workspace == nullptr
               ? nullptr
               : rt_.memory.Worker(reinterpret_cast<uintptr_t>(task_.workspace));
  }
  int cube_cores() override { return cores_; }
  int vector_cores() override { return 2 * cores_; }
  void Fault(aclError code, std::string message) override {
    if (fault_.code == 0) fault_ = {code, std::move(message), false};
  }
  bool faulted() const override { return fault_.code != 0; }
  FaultOf TakeFault() { return std::move(fault_); }

 private:
  void* Map(const Operand& operand) override {
    if (operand.base == nullptr) return nullptr;
    return rt_.memory.Worker(reinterpret_cast<uintptr_t>(operand.base)) +
           operand.offset * SizeOf(operand.dtype);
  }

  Runtime& rt_;
  const Task& task_;
  int cores_;
  FaultOf fault_;
};

// Counts and notes the task; the fault that it is to have by the settings.
FaultOf Start(Runtime& rt, const Task& task, int& cores) {
  const Lock lock(rt.mutex);
  cores = rt.settings.cores;
  const std::string counter = "tasks." + task.name;
  rt.journal.Count(counter);
  if (!rt.settings.trace.empty()) {
    rt.journal.Trace(fmt::format("run {} of call {}", task.name, task.site.number));
  }
  for (const InjectedFailure& failure : rt.settings.failures) {
    if (!failure.at_run || failure.call != task.name || failure.nth != rt.journal.counter(counter))
      continue;
    return {failure.code, fmt::format("{}: fault injected by CACHALOT_EMULATOR_FAIL", task.name),
            true};
  }
  return {};
}

}  // namespace

int64_t Operand::dim(int64_t axis) const {
  if (axis < 0) axis += rank();
  return axis < 0 || axis >= rank() ? 0 : shape[static_cast<size_t>(axis)];
}

int64_t Operand::count() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

bool Operand::contiguous() const {
  return contiguous_rows() &&
         (rank() == 0 || dim(0) <= 1 || count() == 0 || strides[0] == count() / dim(0));
}

bool Operand::contiguous_rows() const {
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 1;) {
    if (shape[axis] != 1 && strides[axis] != expected) return count() == 0;
    expected *= shape[axis];
  }
  return true;
}

int64_t SizeOf(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
      return 8;
    default:
      return 0;
  }
}

const char* NameOf(aclDataType dtype) {
  switch (dtype) {
    case ACL_DT_UNDEFINED:
      return "UNDEFINED";
    case ACL_FLOAT:
      return "FLOAT";
    case ACL_FLOAT16:
      return "FLOAT16";
    case ACL_INT8:
      return "INT8";
    case ACL_INT32:
      return "INT32";
    case ACL_UINT8:
      return "UINT8";
    case ACL_INT16:
      return "INT16";
    case ACL_UINT16:
      return "UINT16";
    case ACL_UINT32:
      return "UINT32";
    case ACL_INT64:
      return "INT64";
    case ACL_UINT64:
      return "UINT64";
    case ACL_DOUBLE:
      return "DOUBLE";
    case ACL_BOOL:
      return "BOOL";
    case ACL_BF16:
      return "BF16";
    case ACL_INT4:
      return "INT4";
  }
  return "a dtype that the emulator has not got";
}

float Kernel::Load(const Operand& operand, int64_t index) {
  return LoadAt(Map(operand), operand.dtype, Place(operand, index));
}

void Kernel::Store(const Operand& operand, int64_t index, float value) {
  StoreAt(Map(operand), operand.dtype, Place(operand, index), value);
}

std::vector<float> Kernel::LoadAll(const Operand& operand) {
  std::vector<float> values(static_cast<size_t>(operand.count()));
  const void* data = Map(operand);
  const bool whole = operand.contiguous();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    values[i] = LoadAt(data, operand.dtype, whole ? index : Place(operand, index));
  }
  return values;
}

std::vector<int64_t> Kernel::LoadIntegers(const Operand& operand) {
  std::vector<int64_t> values(static_cast<size_t>(operand.count()));
  const void* data = Map(operand);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = Place(operand, static_cast<int64_t>(i));
    switch (operand.dtype) {
      case ACL_INT64:
        values[i] = static_cast<const int64_t*>(data)[at];
        break;
      case ACL_INT32:
        values[i] = static_cast<const int32_t*>(data)[at];
        break;
      case ACL_INT8:
        values[i] = static_cast<const int8_t*>(data)[at];
        break;
      default:
        values[i] = static_cast<const uint8_t*>(data)[at];
        break;
    }
  }
  return values;
}

FaultOf Execute(Runtime& rt, const Task& task) {
  if (task.replay != nullptr) {
    FaultOf first;
    for (const size_t node : task.order) {
      FaultOf fault = Execute(rt, task.replay->nodes[node].task);
      if (first.code == 0) first = std::move(fault);
    }
    return first;
  }
  if (!task.body) return {};
  int cores = 0;
  if (FaultOf fault = Start(rt, task, cores); fault.code != 0) return fault;
  TaskKernel kernel(rt, task, cores);
  if (task.workspace_size > 0) Fill(kernel.workspace(), task.workspace_size, kFreshPoison);
  try {
    task.body(kernel);
  } catch (const std::exception& error) {
    kernel.Fault(507899, std::string("the emulator failed: ") + error.what());
  }
  if (task.workspace_size > 0) Fill(kernel.workspace(), task.workspace_size, kFreedPoison);
  return kernel.TakeFault();
}

}  // namespace ascend_emulator
