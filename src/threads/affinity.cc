#include "threads/affinity.h"

namespace cachalot {

Affinity Affinity::OfThisThread() {
  Affinity affinity;
  if (::sched_getaffinity(0, sizeof(affinity.mask_), affinity.mask_.data()) != 0) {
    return {};
  }
  return affinity;
}

Affinity::Affinity(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    CPU_SET_S(static_cast<size_t>(cpu), sizeof(mask_), mask_.data());
  }
}

std::vector<int> Affinity::cpus() const {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (Has(cpu)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

bool Affinity::Has(int cpu) const {
  return CPU_ISSET_S(static_cast<size_t>(cpu), sizeof(mask_), mask_.data()) != 0;
}

bool Affinity::Apply(pid_t thread) const {
  return ::sched_setaffinity(thread, sizeof(mask_), mask_.data()) == 0;
}

}  // namespace cachalot
