#include <string>

#include "ascend_emulator.h"
#include "runtime.h"

#define EMULATOR_CONTROL extern "C" __attribute__((visibility("default")))

namespace ascend_emulator {
namespace {

std::string& Text() {
  thread_local std::string text;
  return text;
}

}  // namespace

EMULATOR_CONTROL const char* ascend_emulator_set(const char* name, const char* value) {
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  Names names = CurrentNames();
  Text() = Apply(name, value, rt.settings, names);
  if (!Text().empty()) return Text().c_str();
  SetNames(std::move(names));
  if (std::string(name) == "seed") rt.random.seed(rt.settings.seed);
  return nullptr;
}

EMULATOR_CONTROL void ascend_emulator_set_defaults() {
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  Names names;
  rt.settings = {};
  ReadEnvironment(rt.settings, names);
  SetNames(std::move(names));
  rt.random.seed(rt.settings.seed);
}

EMULATOR_CONTROL void ascend_emulator_reset() {
  Lock lock(runtime().mutex);
  Reset(lock);
}

EMULATOR_CONTROL size_t ascend_emulator_report_count() {
  const Lock lock(runtime().mutex);
  return runtime().journal.reports().size();
}

EMULATOR_CONTROL const char* ascend_emulator_report(size_t index) {
  const Lock lock(runtime().mutex);
  const auto& reports = runtime().journal.reports();
  if (index >= reports.size()) return nullptr;
  Text() = reports[index];
  return Text().c_str();
}

EMULATOR_CONTROL void ascend_emulator_clear_reports() {
  const Lock lock(runtime().mutex);
  runtime().journal.ClearReports();
}

EMULATOR_CONTROL uint64_t ascend_emulator_counter(const char* name) {
  const Lock lock(runtime().mutex);
  return runtime().journal.counter(name);
}

EMULATOR_CONTROL void ascend_emulator_clear_counters() {
  const Lock lock(runtime().mutex);
  runtime().journal.ClearCounters();
}

EMULATOR_CONTROL const char* ascend_emulator_lifted_limits() {
  const Lock lock(runtime().mutex);
  Text().clear();
  for (const std::string& limit : runtime().lifted) Text() += limit + "\n";
  return Text().c_str();
}

EMULATOR_CONTROL void* ascend_emulator_worker_address(void* device_pointer) {
  const Lock lock(runtime().mutex);
  const Memory& memory = runtime().memory;
  const auto address = reinterpret_cast<uintptr_t>(device_pointer);
  return memory.DeviceOf(address) == kHost ? nullptr : memory.Worker(address);
}

}  // namespace ascend_emulator
