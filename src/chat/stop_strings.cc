#include "chat/stop_strings.h"

#include <utility>

namespace cachalot {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::Push(std::string_view text) {
  if (stops_.empty()) {
    return std::string(text);
  }
  if (has_stopped_) {
    return "";
  }
  held_ += text;
  size_t certain = 0;
  for (; certain < held_.size(); ++certain) {
    const std::string_view rest = std::string_view(held_).substr(certain);
    bool may_become_stop = false;
    for (const std::string& stop : stops_) {
      if (rest.starts_with(stop)) {
        has_stopped_ = true;
        stopped_by_ = stop;
        std::string before = held_.substr(0, certain);
        held_.clear();
        return before;
      }
      may_become_stop = may_become_stop || std::string_view(stop).starts_with(rest);
    }
    if (may_become_stop) {
      break;
    }
  }
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace cachalot
