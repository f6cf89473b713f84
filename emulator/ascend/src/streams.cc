#include <fmt/format.h>

#include "entry.h"
#include "export.h"

namespace ascend_emulator {
namespace {

constexpr int kSyncTimeout = 507046;

aclError CreateStream(aclrtStream* made, uint32_t priority, uint32_t flag) {
  return Serve("aclrtCreateStreamWithConfig", EMULATOR_CALLER,
               fmt::format("priority {}, flag {:#x}", priority, flag), [&](Lock&) -> aclError {
                 Runtime& rt = runtime();
                 int device = 0;
                 if (const aclError code = NeedDevice(device); code != 0) return code;
                 if (made == nullptr) return Refuse(kAclInvalidParam, "the stream is null");
                 if (priority > 7)
                   return Refuse(kRtInvalidParam, "priority {}, 7 is the last", priority);
                 *made = rt.streams.Add(NewStream(device, false));
                 return 0;
               });
}

aclError Destroy(const char* call, const void* caller, aclrtStream handle, bool force) {
  return Serve(call, caller, "", [&](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    if (handle == nullptr) return Refuse(kRtInvalidParam, "the default stream is not destroyed");
    std::shared_ptr<Stream> stream;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (stream->capture != nullptr) return RefuseCaptured(*stream);
    rt.streams.Remove(handle, thread_state().site);
    if (!force) {
      if (stream->work > 0 && !rt.program.Knows(stream->id, stream->work)) {
        Report(
            fmt::format("a stream is destroyed and the program has not waited for its tasks ({})",
                        Describe(stream->made)));
      }
      const Clock known = stream->clock;
      WaitFor(lock, *stream, stream->queued, -1);
      Waited(known);
    }
    EndStream(lock, stream);
    rt.program.Reach(stream->id, stream->queued);
    return 0;
  });
}

aclError DestroyStream(aclrtStream stream) {
  return Destroy("aclrtDestroyStream", EMULATOR_CALLER, stream, false);
}

aclError DestroyStreamForce(aclrtStream stream) {
  return Destroy("aclrtDestroyStreamForce", EMULATOR_CALLER, stream, true);
}

aclError Synchronize(Lock& lock, Stream& stream, int milliseconds) {
  Runtime& rt = runtime();
  rt.journal.Count("stream_syncs");
  if (stream.capture != nullptr) return RefuseCaptured(stream);
  const Clock known = stream.clock;
  if (!WaitFor(lock, stream, stream.queued, milliseconds)) {
    thread_state().message = fmt::format("a stream was not done within {} ms", milliseconds);
    return kSyncTimeout;
  }
  Waited(known);
  return TakeFault(stream);
}

aclError SynchronizeStream(aclrtStream handle) {
  return Serve("aclrtSynchronizeStream", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    std::shared_ptr<Stream> stream;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    return Synchronize(lock, *stream, -1);
  });
}

aclError SynchronizeStreamWithTimeout(aclrtStream handle, int32_t milliseconds) {
  return Serve("aclrtSynchronizeStreamWithTimeout", EMULATOR_CALLER,
               fmt::format("{} ms", milliseconds), [&](Lock& lock) -> aclError {
                 std::shared_ptr<Stream> stream;
                 if (const aclError code = NeedStream(handle, stream); code != 0) return code;
                 if (milliseconds == 0 || milliseconds < -1) {
                   return Refuse(kRtInvalidParam, "a timeout of {} ms", milliseconds);
                 }
                 return Synchronize(lock, *stream, milliseconds);
               });
}

aclError SynchronizeDevice() {
  return Serve("aclrtSynchronizeDevice", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    int device = 0;
    if (const aclError code = NeedDevice(device); code != 0) return code;
    rt.journal.Count("device_syncs");
    for (const auto& graph : rt.captures) {
      if (graph->device != device) continue;
      Invalidate(*graph, "aclrtSynchronizeDevice was called");
      return Refuse(107027, "a stream of the device is being captured ({})", Describe(graph->made));
    }
    const auto streams = rt.by_id;
    aclError code = 0;
    for (const auto& [id, stream] : streams) {
      if (stream->device != device) continue;
      const Clock known = stream->clock;
      WaitFor(lock, *stream, stream->queued, -1);
      Waited(known);
      const aclError fault = TakeFault(*stream);
      if (code == 0) code = fault;
    }
    return code;
  });
}

// 0: complete, 1: not ready.
aclError StreamQuery(aclrtStream handle, int* status) {
  return Serve("aclrtStreamQuery", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    std::shared_ptr<Stream> stream;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (status == nullptr) return Refuse(kAclInvalidParam, "the status is null");
    if (stream->capture != nullptr) return RefuseCaptured(*stream);
    const Clock known = stream->clock;
    const bool done = Poll(lock, *stream, stream->queued, stream->polls);
    *status = done ? 0 : 1;
    if (done) Waited(known);
    return done ? TakeFault(*stream) : 0;
  });
}

}  // namespace

EMULATOR_EXPORT(aclrtCreateStreamWithConfig, nullptr, nullptr, CreateStream);
EMULATOR_EXPORT(aclrtDestroyStream, nullptr, nullptr, DestroyStream);
EMULATOR_EXPORT(aclrtDestroyStreamForce, nullptr, nullptr, DestroyStreamForce);
EMULATOR_EXPORT(aclrtSynchronizeStream, nullptr, nullptr, SynchronizeStream);
EMULATOR_EXPORT(aclrtSynchronizeStreamWithTimeout, nullptr, nullptr, SynchronizeStreamWithTimeout);
EMULATOR_EXPORT(aclrtSynchronizeDevice, nullptr, nullptr, SynchronizeDevice);
EMULATOR_EXPORT(aclrtStreamQuery, nullptr, nullptr, StreamQuery);

}  // namespace ascend_emulator
