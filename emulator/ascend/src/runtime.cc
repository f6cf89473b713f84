#include "runtime.h"

#include <fmt/format.h>

namespace ascend_emulator {
namespace {

void Start(Runtime& rt) {
  const Settings& settings = rt.settings;
  rt.memory.Reset(settings.devices, settings.hbm, settings.quarantine);
  rt.journal.Open(settings.trace);
  rt.random.seed(settings.seed);
  rt.device_uses.assign(static_cast<size_t>(settings.devices), 0);
}

}  // namespace

// Never destroyed: workers may outlive main.
Runtime& runtime() {
  static Runtime* const rt = [] {
    auto* made = new Runtime;
    Names unused;
    ReadEnvironment(made->settings, unused);
    Start(*made);
    return made;
  }();
  return *rt;
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  const uint64_t generation = runtime().generation;
  if (state.generation != generation) {
    state = {};
    state.generation = generation;
  }
  return state;
}

void Reset(Lock& lock) {
  Runtime& rt = runtime();
  const auto streams = rt.by_id;
  for (const auto& [id, stream] : streams) EndStream(lock, stream);
  rt.captures.clear();
  rt.graphs.Clear();
  rt.streams.Clear();
  rt.events.Clear();
  rt.executors.Clear();
  rt.meta.tensors.Clear();
  rt.meta.lists.Clear();
  rt.meta.scalars.Clear();
  rt.meta.ints.Clear();
  rt.meta.floats.Clear();
  rt.meta.flags.Clear();
  rt.defaults.clear();
  rt.program = {};
  rt.lifted.clear();
  rt.journal.ClearReports();
  rt.journal.ClearCounters();
  rt.initialised = false;
  rt.calls = 0;
  ++rt.generation;
  Start(rt);
}

void Report(const std::string& text) {
  Runtime& rt = runtime();
  const Site& site = thread_state().site;
  rt.journal.Report(site.call.empty() ? text : fmt::format("{} [{}]", text, Describe(site)),
                    rt.settings.abort_on_report);
}

aclError Refuse(aclError code, const std::string& text) {
  ThreadState& thread = thread_state();
  const std::string name = thread.site.call.substr(0, thread.site.call.find('('));
  thread.message = fmt::format("{}: {}", name, text);
  Report(fmt::format("{} refused with {}: {}", name, code, text));
  return code;
}

}  // namespace ascend_emulator
