// The part of AscendCL's C ABI that the emulator serves: types, values of enumerations and codes, as
// the vendor's headers have them. The emulator's own declarations: it shares none with those who call it.
#pragma once

#include <cstddef>
#include <cstdint>

#define ACL_EXPORT extern "C" __attribute__((visibility("default")))

using aclError = int;
using aclnnStatus = int32_t;
using aclrtStream = void*;
using aclrtEvent = void*;
using aclrtContext = void*;
using aclmdlRI = void*;

// Opaque to callers, and nothing behind the pointers: they are handles (registry.h).
struct aclTensor;
struct aclScalar;
struct aclIntArray;
struct aclFloatArray;
struct aclBoolArray;
struct aclTensorList;
struct aclOpExecutor;

enum aclDataType : int {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_BF16 = 27,
  ACL_INT4 = 29,
};

enum aclFormat : int {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_NCL = 47,
};

enum aclrtMemcpyKind : int {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
  ACL_MEMCPY_DEFAULT = 4,
};

// Codes. The operator layer has its own; kernels' faults surface at a later wait.
inline constexpr int kAclSuccess = 0;
inline constexpr int kAclnnNull = 161001;  // a required pointer is null
inline constexpr int kAclnnInvalid =
    161002;  // an operand or attribute is not what the operator takes
inline constexpr int kAclnnRuntime = 361001;
inline constexpr int kAclnnInner = 561000;
inline constexpr int kAclnnInferShape = 561001;
inline constexpr int kAclnnTiling = 561002;
inline constexpr int kAclnnExecutor = 561103;
inline constexpr int kAclInvalidParam = 100000;
inline constexpr int kRtInvalidParam = 107000;
inline constexpr int kAiCoreException = 507015;
inline constexpr int kAiCpuException = 507018;
inline constexpr int kVectorCoreException = 507035;
