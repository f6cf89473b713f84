#include "fault_handler.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <mutex>

#include "runtime.h"

namespace ascend_emulator {
namespace {

struct sigaction previous {};

// What is written is made in the handler, at the price that a signal in the midst of malloc may hang:
// the process is lost anyway.
void OnFault(int signal, siginfo_t* info, void* context) {
  Runtime& rt = runtime();
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (rt.memory.DeviceOf(address) != kHost) {
    std::string what = "in no allocation";
    if (const Lock lock(rt.mutex, std::try_to_lock); lock.owns_lock()) {
      if (const auto allocation = rt.memory.Find(address); allocation != nullptr) {
        what = fmt::format("byte {} of {}", address - allocation->base, Describe(*allocation));
      }
    }
    const std::string text = fmt::format(
        "ascend emulator: the program touched device memory at {:#x}: {}\n", address, what);
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
    return;
  }
  // The access happens again, and nobody catches it.
  sigaction(SIGSEGV, &previous, nullptr);
}

}  // namespace

void WatchForHostAccess() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous);
    return true;
  }();
  (void)once;
}

}  // namespace ascend_emulator
