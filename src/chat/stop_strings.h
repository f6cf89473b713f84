// Stop strings of a request, found in streamed text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cachalot {

// Passes text on until the first stop string, keeping back what may still become one. Where two
// start at one place the shorter wins, so that the split of the stream makes no difference.
class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that is certain to come before any stop string.
  std::string Push(std::string_view text);
  // The text that was kept back.
  std::string Flush();
  bool has_stopped() const { return has_stopped_; }
  // The string that came; empty so far.
  const std::string& stopped_by() const { return stopped_by_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
  std::string stopped_by_;
};

}  // namespace cachalot
