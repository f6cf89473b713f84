// The emulator of AscendCL under this room's tests: set up for one test, and asked at its end what it
// found wrong.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ascend_emulator.h"
#include "backends/ascend/loader.h"
#include "backends/ascend/runtime_device.h"

namespace cachalot::ascend {

class EmulatorScene {
 public:
  using Settings = std::initializer_list<std::pair<const char*, std::string>>;

  explicit EmulatorScene(Settings settings = {}) {
    ascend_emulator_set_defaults();
    Set({{"print", "0"}});
    Set(settings);
    ascend_emulator_reset();
  }
  // Everything made on it is gone by now.
  ~EmulatorScene() { EXPECT_THAT(Reports(), testing::IsEmpty()); }
  EmulatorScene(const EmulatorScene&) = delete;
  EmulatorScene& operator=(const EmulatorScene&) = delete;

  static void Set(Settings settings) {
    for (const auto& [name, value] : settings) {
      const char* why = ascend_emulator_set(name, value.c_str());
      EXPECT_EQ(why, nullptr) << name << ": " << why;
    }
  }
  // "aclrtMalloc:1=207001": the first call from now on; "aclnnAdd@1=507015": the first task.
  static void Inject(const std::string& failure) {
    ascend_emulator_clear_counters();
    Set({{"fail", failure}});
  }

  static std::vector<std::string> Reports() {
    std::vector<std::string> reports;
    for (size_t i = 0; i < ascend_emulator_report_count(); ++i) {
      reports.emplace_back(ascend_emulator_report(i));
    }
    return reports;
  }
  // Reports that the test was after.
  static void ClearReports() { ascend_emulator_clear_reports(); }

  static Result<std::shared_ptr<RuntimeDevice>> Open(int32_t ordinal = 0) {
    CACHALOT_ASSIGN_OR_RETURN(auto libraries, Libraries::Load({.path = ASCEND_EMULATOR_LIBRARY}));
    return RuntimeDevice::Open(std::move(libraries), ordinal);
  }
};

}  // namespace cachalot::ascend
