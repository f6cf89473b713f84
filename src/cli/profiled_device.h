// Where the time of a step goes: a device that times every operator of another one. For a device
// that runs operators as they are issued, as the CPU does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/operator_cost.h"

namespace cachalot {

struct OperatorTime {
  std::string op;      // "Linear"
  std::string detail;  // "fp8 [4096, 1024]", where an operator has many uses; else empty
  int64_t calls = 0;
  double seconds = 0;
  OperatorCost cost;
};

class OperatorProfile {
 public:
  void Clear() { times_.clear(); }
  void Add(const char* op, std::string detail, double seconds, const OperatorCost& cost);
  // What there was since the last Clear, the longest first.
  std::vector<OperatorTime> times() const;

 private:
  std::map<std::pair<std::string, std::string>, OperatorTime> times_;
};

// `inner`, with all operators of all its streams entered in the profile, which outlives it.
std::unique_ptr<Device> ProfiledDevice(std::unique_ptr<Device> inner, OperatorProfile* profile);

}  // namespace cachalot
