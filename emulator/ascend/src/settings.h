// How the emulator behaves. Every setting is an environment variable CACHALOT_EMULATOR_<NAME>, read
// once, and can be set by name later on (include/ascend_emulator.h). README.md lists them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "op.h"

namespace ascend_emulator {

enum class Schedule {
  kEager,   // a task runs as soon as what it waits for is done, beside the program
  kLazy,    // nothing runs until somebody waits for it, and then nothing else
  kRandom,  // a seeded choice, whenever the program queues or looks, of what has run by then
};

// What an asynchronous copy does with host memory that was not allocated as pinned.
enum class Pageable {
  kError,  // refuse it
  kDrain,  // wait for the stream and copy, as newer drivers do
  kLate,   // copy when the stream gets there, as older drivers do
};

struct InjectedFailure {
  std::string call;  // the function's name; that of the second phase of an operator where at_run
  uint64_t nth = 1;
  int code = 0;
  bool at_run = false;  // the queued task fails, instead of the call
};

struct Settings {
  int devices = 2;
  uint64_t hbm = uint64_t{1} << 30;          // bytes that aclrtMalloc may hand out, per device
  uint64_t quarantine = uint64_t{64} << 20;  // bytes of freed memory that are not reused yet
  Schedule schedule = Schedule::kRandom;
  uint64_t seed = 1;
  Pageable pageable = Pageable::kError;
  int cores = 24;  // cube cores: 20 or 24
  std::string soc = "Ascend910_9391";
  bool graph_free_at_replay =
      false;  // freed memory of a graph is reported at its replay, not at the free
  bool abort_on_report = false;
  bool print_reports = true;  // at aclFinalize
  std::string trace;          // file; empty: none
  std::vector<InjectedFailure> failures;
  bool small_models_all = false;
  std::set<std::string> small_models;  // names of limits that are lifted
};

// What Resolve looks at. Apart from the rest: it is read by the dynamic linker's callers.
struct Names {
  Flavour flavour = Flavour::kCustom;
  std::set<std::string> hidden;
};

inline constexpr int kMostDevices = 8;

// "" or why the value will not do. `name` as in the environment without the prefix, in lower case.
std::string Apply(std::string_view name, const std::string& value, Settings& settings,
                  Names& names);

// Defaults and then the environment; a value that will not do is told on stderr and left alone.
void ReadEnvironment(Settings& settings, Names& names);

Names CurrentNames();
void SetNames(Names names);

}  // namespace ascend_emulator
