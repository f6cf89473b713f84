#include "cli/interrupt_guard.h"

namespace cachalot {
namespace {

volatile std::sig_atomic_t interrupts = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  Reset();
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupts = interrupts + 1; };
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &interrupt_before_);
  ::sigaction(SIGTERM, &action, &terminate_before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &interrupt_before_, nullptr);
  ::sigaction(SIGTERM, &terminate_before_, nullptr);
}

int InterruptGuard::count() { return interrupts; }

void InterruptGuard::Reset() { interrupts = 0; }

}  // namespace cachalot
