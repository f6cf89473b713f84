// The process, devices and contexts.
#include <fmt/format.h>

#include <cstdio>

#include "entry.h"
#include "export.h"
#include "fault_handler.h"

namespace ascend_emulator {
namespace {

constexpr int kDeviceInfoCubeCores = 0;
constexpr int kDeviceInfoVectorCores = 1;
constexpr int kDeviceInfoL2 = 2;

bool Exists(int64_t device) {
  return device >= 0 && device < static_cast<int64_t>(runtime().device_uses.size());
}

aclError Init(const char*) {
  return Serve("aclInit", EMULATOR_CALLER, "", [](Lock&) -> aclError {
    Runtime& rt = runtime();
    if (rt.initialised) {
      thread_state().message = "aclInit: called before";
      return 100002;
    }
    rt.initialised = true;
    WatchForHostAccess();
    return 0;
  });
}

template <typename T>
void ReportLeaks(const Registry<T>& registry, const char* what) {
  for (const auto& [id, thing] : registry.live()) {
    Report(fmt::format("leak: {} was not destroyed ({})", what, Describe(thing->made)));
  }
}

void ReportLeaks() {
  Runtime& rt = runtime();
  for (const auto& allocation : rt.memory.Live()) {
    Report(fmt::format("leak: {} was not freed", Describe(*allocation)));
  }
  ReportLeaks(rt.streams, "a stream");
  ReportLeaks(rt.events, "an event");
  ReportLeaks(rt.graphs, "a captured graph");
  ReportLeaks(rt.executors, "an executor was not run and");
  ReportLeaks(rt.meta.tensors, "an aclTensor");
  ReportLeaks(rt.meta.lists, "an aclTensorList");
  ReportLeaks(rt.meta.scalars, "an aclScalar");
  ReportLeaks(rt.meta.ints, "an aclIntArray");
  ReportLeaks(rt.meta.floats, "an aclFloatArray");
  ReportLeaks(rt.meta.flags, "an aclBoolArray");
}

aclError Finalize() {
  return Serve("aclFinalize", EMULATOR_CALLER, "", [](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    if (!rt.initialised) return Refuse(100037, "aclInit was not called, or aclFinalize twice");
    for (const auto& [id, stream] : rt.by_id) {
      if (stream->work > 0 && !rt.program.Knows(stream->id, stream->work)) {
        Report(fmt::format(
            "aclFinalize while the program has not waited for the tasks of a stream ({})",
            Describe(stream->made)));
      }
    }
    const auto streams = rt.by_id;
    for (const auto& [id, stream] : streams) WaitFor(lock, *stream, stream->queued, -1);
    for (const std::string& damage : rt.memory.Damage(true)) Report(damage);
    ReportLeaks();
    rt.initialised = false;
    if (rt.settings.print_reports && !rt.journal.reports().empty()) {
      for (const std::string& report : rt.journal.reports()) {
        fmt::print(stderr, "ascend emulator: {}\n", report);
      }
      fmt::print(stderr, "ascend emulator: {} reports\n", rt.journal.reports().size());
    }
    return 0;
  });
}

const char* RecentErrMsg() {
  const Lock lock(runtime().mutex);
  ThreadState& thread = thread_state();
  if (thread.message.empty()) return nullptr;
  thread.returned = std::exchange(thread.message, "");
  return thread.returned.c_str();
}

aclError DeviceCount(uint32_t* count) {
  return Serve("aclrtGetDeviceCount", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    if (count == nullptr) return Refuse(kAclInvalidParam, "the count is null");
    *count = static_cast<uint32_t>(runtime().device_uses.size());
    return 0;
  });
}

aclError SetDevice(int32_t device) {
  return Serve("aclrtSetDevice", EMULATOR_CALLER, fmt::format("{}", device),
               [&](Lock&) -> aclError {
                 Runtime& rt = runtime();
                 if (!rt.initialised) return Refuse(100001, "aclInit was not called");
                 if (!Exists(device)) {
                   return Refuse(107001, "there is no device {}, there are {}", device,
                                 rt.device_uses.size());
                 }
                 ++rt.device_uses[static_cast<size_t>(device)];
                 thread_state().device = device;
                 return 0;
               });
}

aclError ResetDevice(int32_t device) {
  return Serve("aclrtResetDevice", EMULATOR_CALLER, fmt::format("{}", device),
               [&](Lock& lock) -> aclError {
                 Runtime& rt = runtime();
                 if (!Exists(device)) return Refuse(107001, "there is no device {}", device);
                 int& uses = rt.device_uses[static_cast<size_t>(device)];
                 if (uses == 0) return Refuse(107001, "device {} is not set by any thread", device);
                 --uses;
                 if (uses > 0) return 0;
                 // What is queued runs to its end; leaks are told at aclFinalize.
                 const auto streams = rt.by_id;
                 for (const auto& [id, stream] : streams) {
                   if (stream->device == device) WaitFor(lock, *stream, stream->queued, -1);
                 }
                 ThreadState& thread = thread_state();
                 if (thread.device == device) thread.device = -1;
                 return 0;
               });
}

aclError GetDevice(int32_t* device) {
  return Serve("aclrtGetDevice", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    if (device == nullptr) return Refuse(kAclInvalidParam, "the device is null");
    int now = 0;
    if (const aclError code = NeedDevice(now); code != 0) return code;
    *device = now;
    return 0;
  });
}

const char* SocName() {
  static auto* const names = new std::set<std::string>;  // each stays valid
  const Lock lock(runtime().mutex);
  Enter("aclrtGetSocName", EMULATOR_CALLER, "");
  return names->insert(runtime().settings.soc).first->c_str();
}

aclError DeviceCapability(uint32_t device, int what, int64_t* value) {
  return Serve("aclGetDeviceCapability", EMULATOR_CALLER, fmt::format("{}, {}", device, what),
               [&](Lock&) -> aclError {
                 const Settings& settings = runtime().settings;
                 if (!Exists(device)) {
                   return Refuse(107001, "there is no device {}", device);
                 }
                 if (value == nullptr) return Refuse(kAclInvalidParam, "the value is null");
                 switch (what) {
                   case kDeviceInfoCubeCores:
                     *value = settings.cores;
                     return 0;
                   case kDeviceInfoVectorCores:
                     *value = 2 * settings.cores;
                     return 0;
                   case kDeviceInfoL2:
                     *value = settings.cores == 20 ? 176160768 : 201326592;
                     return 0;
                   default:
                     return Refuse(kAclInvalidParam, "the emulator knows no device info {}", what);
                 }
               });
}

aclError DeviceInfo(uint32_t device, int what, int64_t* value) {
  return Serve("aclrtGetDeviceInfo", EMULATOR_CALLER, fmt::format("{}, {}", device, what),
               [&](Lock&) -> aclError {
                 const Settings& settings = runtime().settings;
                 if (!Exists(device)) {
                   return Refuse(107001, "there is no device {}", device);
                 }
                 if (value == nullptr) return Refuse(kAclInvalidParam, "the value is null");
                 switch (what) {
                   case 1:
                     *value = 4;
                     return 0;  // AI CPUs
                   case 101:
                   case 102:
                     *value = settings.cores;
                     return 0;
                   case 201:
                     *value = 2 * settings.cores;
                     return 0;
                   case 204:
                     *value = 196608;
                     return 0;  // unified buffer of a vector core
                   case 301:
                     *value = static_cast<int64_t>(runtime().memory.total());
                     return 0;
                   case 302:
                     *value = settings.cores == 20 ? 176160768 : 201326592;
                     return 0;
                   case 601:
                     *value = 2201;
                     return 0;  // architecture
                   default:
                     return Refuse(kAclInvalidParam, "the emulator knows no attribute {}", what);
                 }
               });
}

aclError MemInfo(int, size_t* available, size_t* total) {
  return Serve("aclrtGetMemInfo", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    int device = 0;
    if (const aclError code = NeedDevice(device); code != 0) return code;
    if (available == nullptr || total == nullptr)
      return Refuse(kAclInvalidParam, "free or total is null");
    *available = rt.memory.available(device);
    *total = rt.memory.total();
    return 0;
  });
}

aclError CurrentContext(aclrtContext* context) {
  return Serve("aclrtGetCurrentContext", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    int device = 0;
    if (context == nullptr) return Refuse(kAclInvalidParam, "the context is null");
    if (const aclError code = NeedDevice(device); code != 0) return code;
    *context = MakeHandle(Kind::kContext, static_cast<uint64_t>(device) + 1);
    return 0;
  });
}

aclError SetCurrentContext(aclrtContext context) {
  return Serve("aclrtSetCurrentContext", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    const Runtime& rt = runtime();
    const uint64_t id = IdOf(context);
    if (KindOf(context) != Kind::kContext || id == 0 || id > rt.device_uses.size()) {
      return Refuse(kRtInvalidParam, "{} is no aclrtContext", context);
    }
    if (rt.device_uses[id - 1] == 0)
      return Refuse(107002, "device {} is not set by any thread", id - 1);
    thread_state().device = static_cast<int>(id) - 1;
    return 0;
  });
}

}  // namespace

EMULATOR_EXPORT(aclInit, nullptr, nullptr, Init);
EMULATOR_EXPORT(aclFinalize, nullptr, nullptr, Finalize);
EMULATOR_EXPORT(aclGetRecentErrMsg, nullptr, nullptr, RecentErrMsg);
EMULATOR_EXPORT(aclrtGetDeviceCount, nullptr, nullptr, DeviceCount);
EMULATOR_EXPORT(aclrtSetDevice, nullptr, nullptr, SetDevice);
EMULATOR_EXPORT(aclrtResetDevice, nullptr, nullptr, ResetDevice);
EMULATOR_EXPORT(aclrtGetDevice, nullptr, nullptr, GetDevice);
EMULATOR_EXPORT(aclrtGetSocName, nullptr, nullptr, SocName);
EMULATOR_EXPORT(aclGetDeviceCapability, nullptr, nullptr, DeviceCapability);
EMULATOR_EXPORT(aclrtGetDeviceInfo, nullptr, nullptr, DeviceInfo);
EMULATOR_EXPORT(aclrtGetMemInfo, nullptr, nullptr, MemInfo);
EMULATOR_EXPORT(aclrtGetCurrentContext, nullptr, nullptr, CurrentContext);
EMULATOR_EXPORT(aclrtSetCurrentContext, nullptr, nullptr, SetCurrentContext);

}  // namespace ascend_emulator
