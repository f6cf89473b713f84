// How an exported function is served.
#pragma once

#include <string>
#include <utility>

#include "runtime.h"

#define EMULATOR_CALLER __builtin_return_address(0)

namespace ascend_emulator {

// Counts and notes the call. Non-zero: the settings say that this call is to fail, with this code.
aclError Enter(const char* call, const void* caller, const std::string& arguments);
void Leave(aclError code);

// Serves one call of the program: `body` runs under the lock, between Enter and Leave. `stream`, where
// the call submits to one: if it fails, a capture of the stream is spoilt.
template <typename Body>
aclError Serve(const char* call, const void* caller, const std::string& arguments, Body body,
               const void* stream = nullptr) {
  Lock lock(runtime().mutex);
  aclError code = Enter(call, caller, arguments);
  if (code == 0) code = body(lock);
  if (code != 0) SpoilCapture(stream);
  Leave(code);
  return code;
}

// The calling thread's device, or the code of a refusal.
aclError NeedDevice(int& device);
// The stream of a handle (null: the default stream of the thread's device), of the thread's device.
aclError NeedStream(const void* handle, std::shared_ptr<Stream>& stream);

}  // namespace ascend_emulator
