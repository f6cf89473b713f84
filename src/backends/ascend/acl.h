// The part of AscendCL's C ABI that this backend calls: types, values of enumerations and codes, by
// the names of the vendor's headers. The functions stand in symbols.def; none is linked, all are
// looked up (loader.h). Sources: the public runtime and operator base of CANN (acl_rt.h, acl_base.h,
// rt_error_codes.h, acl_meta.h).
#pragma once

#include <cstdint>

namespace cachalot::ascend {

using aclError = int;
using aclnnStatus = int32_t;
using aclrtStream = void*;
using aclrtEvent = void*;
using aclrtContext = void*;
using aclmdlRI = void*;  // what a capture recorded

// Opaque: only ever held by pointer.
struct aclTensor;
struct aclScalar;
struct aclIntArray;
struct aclBoolArray;
struct aclTensorList;
struct aclOpExecutor;

enum aclDataType : int {
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT64 = 9,
  ACL_BOOL = 12,
  ACL_BF16 = 27,
};

enum aclFormat : int {
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_FRACTAL_NZ = 29,
};

enum aclrtMemcpyKind : int {
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};

enum aclrtMemMallocPolicy : int { ACL_MEM_MALLOC_HUGE_FIRST = 0 };
enum aclrtMemAttr : int { ACL_HBM_MEM = 1 };
enum aclDeviceInfo : int { ACL_DEVICE_INFO_AI_CORE_NUM = 0, ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1 };
enum aclmdlRICaptureMode : int { ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0 };

// Flags of events and streams.
inline constexpr uint32_t ACL_EVENT_SYNC = 0x1;

// The codes that decide something; error_codes.def has the words for these and the others.
inline constexpr aclError ACL_SUCCESS = 0;
inline constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
inline constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;
inline constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
inline constexpr aclError ACL_ERROR_RT_DEVICE_OOM = 207018;

// How many rows and columns a block of ACL_FORMAT_FRACTAL_NZ has: 16 rows of 32 bytes.
inline constexpr int64_t kNzRows = 16;
inline constexpr int64_t kNzBytes = 32;

}  // namespace cachalot::ascend
