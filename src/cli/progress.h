// A progress bar on stderr. Silent where stderr is no terminal, and for work that is over before
// anybody looks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cachalot {

class ProgressBar {
 public:
  // `unit` stands behind the counts: "tokens", or "B" for bytes, which are then shown in larger
  // units.
  ProgressBar(std::string label, std::string unit);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { Clear(); }

  void Show(int64_t done, int64_t total);
  // Takes the bar off the screen.
  void Clear();

  // The line for a terminal of `columns`: "label [####      ] 40% 205/512 tokens".
  static std::string Line(const std::string& label, int64_t done, int64_t total,
                          const std::string& unit, int columns);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string label_;
  const std::string unit_;
  const bool on_terminal_;
  const Clock::time_point started_;
  Clock::time_point drawn_;
  bool visible_ = false;
};

}  // namespace cachalot
