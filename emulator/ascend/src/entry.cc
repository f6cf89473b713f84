#include "entry.h"

#include <fmt/format.h>

namespace ascend_emulator {

aclError Enter(const char* call, const void* caller, const std::string& arguments) {
  Runtime& rt = runtime();
  ThreadState& thread = thread_state();
  thread.site = {fmt::format("{}({})", call, arguments), ++rt.calls, caller};
  const std::string counter = std::string("calls.") + call;
  rt.journal.Count(counter);
  for (const InjectedFailure& failure : rt.settings.failures) {
    if (failure.at_run || failure.call != call || failure.nth != rt.journal.counter(counter))
      continue;
    thread.message = fmt::format("{}: failure injected by CACHALOT_EMULATOR_FAIL", call);
    return failure.code;
  }
  return 0;
}

void Leave(aclError code) {
  const ThreadState& thread = thread_state();
  if (runtime().settings.trace.empty()) return;
  runtime().journal.Trace(fmt::format("{} {} = {}", thread.site.number, thread.site.call, code));
}

aclError NeedDevice(int& device) {
  device = thread_state().device;
  if (device < 0) return Refuse(107002, "this thread has not set a device");
  return 0;
}

aclError NeedStream(const void* handle, std::shared_ptr<Stream>& stream) {
  Runtime& rt = runtime();
  int device = 0;
  if (const aclError code = NeedDevice(device); code != 0) return code;
  if (handle == nullptr) {
    auto& known = rt.defaults[device];
    if (known == nullptr) known = NewStream(device, true);
    stream = known;
    return 0;
  }
  stream = rt.streams.Find(handle);
  if (stream == nullptr)
    return Refuse(kRtInvalidParam, "the stream {}", rt.streams.Explain(handle));
  if (stream->device != device) {
    return Refuse(107003, "the stream is of device {} ({}), the thread is on device {}",
                  stream->device, Describe(stream->made), device);
  }
  return 0;
}

}  // namespace ascend_emulator
