#include "cli/interrupt_guard.h"

namespace cachalot {
namespace {

volatile std::sig_atomic_t interrupt_flag = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  Reset();
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupt_flag = 1; };
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::interrupted() { return interrupt_flag != 0; }

void InterruptGuard::Reset() { interrupt_flag = 0; }

}  // namespace cachalot
