// What the emulator has to say: reports on what the program did wrong, counters, and the trace. All
// under the runtime's lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ascend_emulator {

// Where the program called.
struct Site {
  std::string call;  // "aclrtMalloc(4096 bytes)"
  uint64_t number = 0;
  const void* caller = nullptr;
};

// "aclrtMalloc(4096 bytes), call 12, from engine_test+0x1f2a0"
std::string Describe(const Site& site);

class Journal {
 public:
  void Open(const std::string& trace);  // "": no trace

  // Aborts where the settings say so.
  void Report(const std::string& text, bool abort_now);
  void Trace(const std::string& line);
  void Count(const std::string& counter, uint64_t by = 1) { counters_[counter] += by; }

  const std::vector<std::string>& reports() const { return reports_; }
  void ClearReports() { reports_.clear(); }
  uint64_t counter(const std::string& name) const;
  const std::map<std::string, uint64_t>& counters() const { return counters_; }
  void ClearCounters() { counters_.clear(); }

 private:
  std::vector<std::string> reports_;
  std::map<std::string, uint64_t> counters_;
  std::string trace_;
};

}  // namespace ascend_emulator
