#include "backends/cpu/variants.h"

#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"

namespace cachalot::cpu {

void ReportChoice(const char* chosen, const char* passed_over, const char* reason) {
  if (!spdlog::should_log(spdlog::level::debug)) {
    return;
  }
  static std::mutex mutex;
  static std::set<std::pair<const char*, const char*>> said;
  const std::lock_guard lock(mutex);
  if (!said.emplace(chosen, reason).second) {
    return;
  }
  if (reason == nullptr) {
    spdlog::debug("dispatch: {}", chosen);
  } else {
    spdlog::debug("dispatch: {} ({} passed over: {})", chosen, passed_over, reason);
  }
}

}  // namespace cachalot::cpu
