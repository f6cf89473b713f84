#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace cachalot {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(400);  // before a bar appears
constexpr auto kFrame = std::chrono::milliseconds(80);

int TerminalColumns() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

std::string Count(int64_t count, const std::string& unit) {
  if (unit != "B") {
    return fmt::format("{}", count);
  }
  return fmt::format("{:.1f}", static_cast<double>(count) / 1e9);
}

}  // namespace

ProgressBar::ProgressBar(std::string label, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      started_(Clock::now()) {}

std::string ProgressBar::Line(const std::string& label, int64_t done, int64_t total,
                              const std::string& unit, int columns) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1;
  const std::string tail = fmt::format("] {:3.0f}% {}/{} {}", share * 100, Count(done, unit),
                                       Count(total, unit), unit == "B" ? "GB" : unit);
  const int room = columns - 1 - static_cast<int>(label.size() + tail.size()) - 2;
  const int width = std::clamp(room, 0, 40);
  const int filled = static_cast<int>(share * width);
  return fmt::format("{} [{}{}{}", label, std::string(static_cast<size_t>(filled), '#'),
                     std::string(static_cast<size_t>(width - filled), ' '), tail);
}

void ProgressBar::Show(int64_t done, int64_t total) {
  const auto now = Clock::now();
  if (!on_terminal_ || now - started_ < kPatience || (visible_ && now - drawn_ < kFrame)) {
    return;
  }
  drawn_ = now;
  visible_ = true;
  std::fprintf(stderr, "\r\033[K%s", Line(label_, done, total, unit_, TerminalColumns()).c_str());
  std::fflush(stderr);
}

void ProgressBar::Clear() {
  if (std::exchange(visible_, false)) {
    std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
  }
}

}  // namespace cachalot
