#include "threads/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>

namespace cachalot {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

// Null on failure.
Topology Load(const char* synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return nullptr;
  }
  Topology topology(raw);
  if (synthetic != nullptr && hwloc_topology_set_synthetic(raw, synthetic) != 0) {
    return nullptr;
  }
  // The system's tables say it all; asking each processor would move the thread about.
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // What this process may use changes; the machine does not.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) {
    return nullptr;
  }
  return topology;
}

}  // namespace

std::vector<CpuTopology::Place> CpuTopology::Read(const char* synthetic) {
  const Topology topology = Load(synthetic);
  std::vector<Place> places;
  if (topology == nullptr) {
    return places;
  }
  // hwloc's own order of processors is by node, then core.
  std::map<hwloc_obj_t, int> cores;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, pu)) != nullptr) {
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_CORE, pu);
    const int number =
        cores.emplace(core != nullptr ? core : pu, static_cast<int>(cores.size())).first->second;
    places.push_back(
        {{static_cast<int>(pu->os_index), std::max(0, hwloc_bitmap_first(pu->nodeset))}, number});
  }
  return places;
}

const CpuTopology& CpuTopology::Machine() {
  static const CpuTopology machine(Read(nullptr));
  return machine;
}

CpuTopology CpuTopology::Synthetic(const std::string& description) {
  return CpuTopology(Read(description.c_str()));
}

std::vector<HardwareThread> CpuTopology::TeamOrder(const std::vector<int>& cpus) const {
  std::map<int, std::vector<HardwareThread>> rounds;  // the first of every core, the second, ...
  std::map<int, int> taken;                           // of each core
  for (const Place& place : places_) {
    if (std::find(cpus.begin(), cpus.end(), place.thread.cpu) != cpus.end()) {
      rounds[taken[place.core]++].push_back(place.thread);
    }
  }
  std::vector<HardwareThread> order;
  for (const auto& [rank, threads] : rounds) {
    order.insert(order.end(), threads.begin(), threads.end());
  }
  return order;
}

int CpuTopology::CountCores(const std::vector<int>& cpus) const {
  std::vector<int> cores;
  for (const Place& place : places_) {
    if (std::find(cpus.begin(), cpus.end(), place.thread.cpu) != cpus.end()) {
      cores.push_back(place.core);
    }
  }
  std::sort(cores.begin(), cores.end());
  return static_cast<int>(std::unique(cores.begin(), cores.end()) - cores.begin());
}

}  // namespace cachalot
