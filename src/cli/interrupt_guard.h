// Ctrl-C, and the signal that asks a program to end, as a count.
#pragma once

#include <csignal>

namespace cachalot {

// While one lives, Ctrl-C and SIGTERM are counted instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  static int count();
  static bool interrupted() { return count() > 0; }
  static void Reset();

 private:
  struct sigaction interrupt_before_;
  struct sigaction terminate_before_;
};

}  // namespace cachalot
