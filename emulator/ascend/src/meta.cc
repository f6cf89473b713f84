#include "meta.h"

#include <cstring>

#include "entry.h"
#include "export.h"
#include "half.h"

namespace ascend_emulator {
namespace {

constexpr uint64_t kTag = uint64_t{0x0ace} << 48;  // no address of a process

}  // namespace

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kTensor:
      return "aclTensor";
    case Kind::kTensorList:
      return "aclTensorList";
    case Kind::kScalar:
      return "aclScalar";
    case Kind::kIntArray:
      return "aclIntArray";
    case Kind::kFloatArray:
      return "aclFloatArray";
    case Kind::kBoolArray:
      return "aclBoolArray";
    case Kind::kExecutor:
      return "aclOpExecutor";
    case Kind::kStream:
      return "aclrtStream";
    case Kind::kEvent:
      return "aclrtEvent";
    case Kind::kGraph:
      return "aclmdlRI";
    case Kind::kContext:
      return "aclrtContext";
  }
  return "handle";
}

void* MakeHandle(Kind kind, uint64_t id) {
  return reinterpret_cast<void*>(kTag | (uint64_t{static_cast<uint8_t>(kind)} << 40) | (id << 4));
}

Kind KindOf(const void* handle) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  const uint64_t kind = (value >> 40) & 0xff;
  if ((value & (uint64_t{0xffff} << 48)) != kTag || (value & 0xf) != 0) return Kind::kNone;
  if (kind > static_cast<uint64_t>(Kind::kContext)) return Kind::kNone;
  return static_cast<Kind>(kind);
}

uint64_t IdOf(const void* handle) {
  return (reinterpret_cast<uint64_t>(handle) & ((uint64_t{1} << 40) - 1)) >> 4;
}

namespace {

constexpr uint64_t kMostAxes = 8;

// Creators answer null where the call is wrong.
template <typename Body>
void* Create(const char* call, const void* caller, Body body) {
  void* made = nullptr;
  Serve(call, caller, "", [&](Lock&) { return body(made); });
  return made;
}

template <typename T>
aclnnStatus Destroy(const char* call, const void* caller, const void* handle,
                    Registry<T> Meta::*kind) {
  return Serve(call, caller, "", [&](Lock&) -> aclError {
    Registry<T>& registry = runtime().meta.*kind;
    if (handle == nullptr) return 0;
    if (registry.Find(handle) == nullptr)
      return Refuse(kAclnnInvalid, "it {}", registry.Explain(handle));
    registry.Remove(handle, thread_state().site);
    return 0;
  });
}

aclTensor* CreateTensor(const int64_t* dims, uint64_t rank, int dtype, const int64_t* strides,
                        int64_t offset, int format, const int64_t* storage, uint64_t storage_rank,
                        void* data) {
  return static_cast<aclTensor*>(
      Create("aclCreateTensor", EMULATOR_CALLER, [&](void*& made) -> aclError {
        if (rank > kMostAxes || storage_rank > kMostAxes) {
          return Refuse(kAclnnInvalid, "{} axes, {} of the storage: {} are the most", rank,
                        storage_rank, kMostAxes);
        }
        if ((dims == nullptr && rank > 0) || (storage == nullptr && storage_rank > 0)) {
          return Refuse(kAclnnNull, "the dims are null");
        }
        auto tensor = std::make_shared<Tensor>();
        Operand& operand = tensor->operand;
        operand.dtype = static_cast<aclDataType>(dtype);
        operand.format = static_cast<aclFormat>(format);
        operand.shape.assign(dims, dims + rank);
        operand.storage.assign(storage, storage + storage_rank);
        for (const int64_t extent : operand.shape) {
          if (extent < 0) return Refuse(kAclnnInvalid, "a dim is {}", extent);
        }
        if (strides != nullptr) {
          operand.strides.assign(strides, strides + rank);
        } else {
          operand.strides.assign(rank, 1);
          for (size_t axis = rank; axis-- > 1;) {
            operand.strides[axis - 1] = operand.strides[axis] * operand.shape[axis];
          }
        }
        operand.offset = offset;
        operand.base = data;
        tensor->made = thread_state().site;
        made = runtime().meta.tensors.Add(std::move(tensor));
        return 0;
      }));
}

aclnnStatus DestroyTensor(const aclTensor* tensor) {
  return Destroy("aclDestroyTensor", EMULATOR_CALLER, tensor, &Meta::tensors);
}

aclTensorList* CreateTensorList(const aclTensor* const* tensors, uint64_t count) {
  return static_cast<aclTensorList*>(
      Create("aclCreateTensorList", EMULATOR_CALLER, [&](void*& made) -> aclError {
        Meta& meta = runtime().meta;
        if (tensors == nullptr && count > 0) return Refuse(kAclnnNull, "the tensors are null");
        auto list = std::make_shared<TensorList>();
        for (uint64_t i = 0; i < count; ++i) {
          if (meta.tensors.Find(tensors[i]) == nullptr) {
            return Refuse(kAclnnInvalid, "tensor {} {}", i, meta.tensors.Explain(tensors[i]));
          }
          list->members.push_back(tensors[i]);
        }
        list->made = thread_state().site;
        made = meta.lists.Add(std::move(list));
        return 0;
      }));
}

// Destroys its members too: a program that destroys them as well destroys them twice.
aclnnStatus DestroyTensorList(const aclTensorList* handle) {
  return Serve("aclDestroyTensorList", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Meta& meta = runtime().meta;
    if (handle == nullptr) return 0;
    const auto list = meta.lists.Find(handle);
    if (list == nullptr) return Refuse(kAclnnInvalid, "it {}", meta.lists.Explain(handle));
    aclError code = 0;
    for (size_t i = 0; i < list->members.size(); ++i) {
      const void* member = list->members[i];
      if (meta.tensors.Find(member) != nullptr) {
        meta.tensors.Remove(member, thread_state().site);
      } else {
        code = Refuse(kAclnnInvalid, "a list destroys its members: number {} {}", i,
                      meta.tensors.Explain(member));
      }
    }
    meta.lists.Remove(handle, thread_state().site);
    return code;
  });
}

aclScalar* CreateScalar(void* value, int dtype) {
  return static_cast<aclScalar*>(
      Create("aclCreateScalar", EMULATOR_CALLER, [&](void*& made) -> aclError {
        if (value == nullptr) return Refuse(kAclnnNull, "the value is null");
        auto scalar = std::make_shared<Scalar>();
        const auto read = [&]<typename T>(T into) {
          std::memcpy(&into, value, sizeof(into));
          return into;
        };
        switch (dtype) {
          case ACL_FLOAT:
            scalar->value = read(float{});
            break;
          case ACL_DOUBLE:
            scalar->value = read(double{});
            break;
          case ACL_FLOAT16:
            scalar->value = FromFp16(read(uint16_t{}));
            break;
          case ACL_BF16:
            scalar->value = FromBf16(read(uint16_t{}));
            break;
          case ACL_INT8:
            scalar->value = read(int8_t{});
            break;
          case ACL_UINT8:
          case ACL_BOOL:
            scalar->value = read(uint8_t{});
            break;
          case ACL_INT16:
            scalar->value = read(int16_t{});
            break;
          case ACL_INT32:
            scalar->value = read(int32_t{});
            break;
          case ACL_INT64:
            scalar->value = static_cast<double>(read(int64_t{}));
            break;
          default:
            return Refuse(kAclnnInvalid, "a scalar of dtype {}", dtype);
        }
        scalar->made = thread_state().site;
        made = runtime().meta.scalars.Add(std::move(scalar));
        return 0;
      }));
}

aclnnStatus DestroyScalar(const aclScalar* scalar) {
  return Destroy("aclDestroyScalar", EMULATOR_CALLER, scalar, &Meta::scalars);
}

template <typename T, typename From>
void* CreateArray(const char* call, const void* caller, const From* values, uint64_t count,
                  Registry<Array<T>> Meta::*kind) {
  return Create(call, caller, [&](void*& made) -> aclError {
    if (values == nullptr && count > 0) return Refuse(kAclnnNull, "the values are null");
    auto array = std::make_shared<Array<T>>();
    array->values.assign(values, values + count);
    array->made = thread_state().site;
    made = (runtime().meta.*kind).Add(std::move(array));
    return 0;
  });
}

aclIntArray* CreateIntArray(const int64_t* values, uint64_t count) {
  return static_cast<aclIntArray*>(
      CreateArray("aclCreateIntArray", EMULATOR_CALLER, values, count, &Meta::ints));
}

aclFloatArray* CreateFloatArray(const float* values, uint64_t count) {
  return static_cast<aclFloatArray*>(
      CreateArray("aclCreateFloatArray", EMULATOR_CALLER, values, count, &Meta::floats));
}

aclBoolArray* CreateBoolArray(const bool* values, uint64_t count) {
  return static_cast<aclBoolArray*>(
      CreateArray("aclCreateBoolArray", EMULATOR_CALLER, values, count, &Meta::flags));
}

aclnnStatus DestroyIntArray(const aclIntArray* array) {
  return Destroy("aclDestroyIntArray", EMULATOR_CALLER, array, &Meta::ints);
}

aclnnStatus DestroyFloatArray(const aclFloatArray* array) {
  return Destroy("aclDestroyFloatArray", EMULATOR_CALLER, array, &Meta::floats);
}

aclnnStatus DestroyBoolArray(const aclBoolArray* array) {
  return Destroy("aclDestroyBoolArray", EMULATOR_CALLER, array, &Meta::flags);
}

}  // namespace

EMULATOR_EXPORT(aclCreateTensor, nullptr, nullptr, CreateTensor);
EMULATOR_EXPORT(aclDestroyTensor, nullptr, nullptr, DestroyTensor);
EMULATOR_EXPORT(aclCreateTensorList, nullptr, nullptr, CreateTensorList);
EMULATOR_EXPORT(aclDestroyTensorList, nullptr, nullptr, DestroyTensorList);
EMULATOR_EXPORT(aclCreateScalar, nullptr, nullptr, CreateScalar);
EMULATOR_EXPORT(aclDestroyScalar, nullptr, nullptr, DestroyScalar);
EMULATOR_EXPORT(aclCreateIntArray, nullptr, nullptr, CreateIntArray);
EMULATOR_EXPORT(aclDestroyIntArray, nullptr, nullptr, DestroyIntArray);
EMULATOR_EXPORT(aclCreateFloatArray, nullptr, nullptr, CreateFloatArray);
EMULATOR_EXPORT(aclDestroyFloatArray, nullptr, nullptr, DestroyFloatArray);
EMULATOR_EXPORT(aclCreateBoolArray, nullptr, nullptr, CreateBoolArray);
EMULATOR_EXPORT(aclDestroyBoolArray, nullptr, nullptr, DestroyBoolArray);

}  // namespace ascend_emulator
