// The processors that a thread may run on: what taskset, cgroups and pinning set.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <vector>

namespace cachalot {

class Affinity {
 public:
  // Of the calling thread; empty where the system does not say.
  static Affinity OfThisThread();
  explicit Affinity(const std::vector<int>& cpus);

  std::vector<int> cpus() const;  // the system's numbers, rising
  int count() const { return CPU_COUNT_S(sizeof(mask_), mask_.data()); }
  bool Has(int cpu) const;
  // Moves the thread with this id, 0 for the calling one; false where the system refuses.
  bool Apply(pid_t thread) const;

 private:
  static constexpr int kMaxCpus = 8192;
  static constexpr int kPerSet = CPU_SETSIZE;

  Affinity() = default;

  std::array<cpu_set_t, kMaxCpus / kPerSet> mask_ = {};
};

}  // namespace cachalot
