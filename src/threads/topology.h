// The machine's hardware threads by core and NUMA node, and the order in which a team of threads
// takes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cachalot {

// The system's numbers.
struct HardwareThread {
  int cpu = 0;
  int numa_node = 0;

  bool operator==(const HardwareThread&) const = default;
};

class CpuTopology {
 public:
  // This machine, read once. Knows nothing (and so orders nothing) where the system does not tell.
  static const CpuTopology& Machine();
  // From hwloc's description of a machine, "node:2 core:4 pu:2"; for tests.
  static CpuTopology Synthetic(const std::string& description);

  // Those of `cpus` that the machine has: one of every core, node by node; then a second of every
  // core that has one, and so on.
  std::vector<HardwareThread> TeamOrder(const std::vector<int>& cpus) const;
  // Cores with at least one of `cpus`.
  int CountCores(const std::vector<int>& cpus) const;

 private:
  struct Place {
    HardwareThread thread;
    int core = 0;  // numbered node by node
  };

  explicit CpuTopology(std::vector<Place> places) : places_(std::move(places)) {}
  static std::vector<Place> Read(const char* synthetic);

  std::vector<Place> places_;  // by core, then by cpu
};

}  // namespace cachalot
