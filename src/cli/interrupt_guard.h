// Ctrl-C as a flag.
#pragma once

#include <csignal>

namespace cachalot {

// While one lives, Ctrl-C sets a flag instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  static bool interrupted();
  static void Reset();

 private:
  struct sigaction before_;
};

}  // namespace cachalot
