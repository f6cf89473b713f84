// RequestClock: when what happened to a request, for metrics and the log.
#pragma once

#include <chrono>
#include <optional>

namespace cachalot {

inline double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct RequestClock {
  using Clock = std::chrono::steady_clock;

  Clock::time_point arrived = Clock::now();
  std::optional<Clock::time_point> first_step;  // of its prompt: it waits no more
  std::optional<Clock::time_point> first_token;
  std::optional<Clock::time_point> last_token;

  // A token came: the seconds since the one before, none for the first.
  std::optional<double> Tick() {
    const Clock::time_point now = Clock::now();
    std::optional<double> gap;
    if (last_token) {
      gap = Seconds(now - *last_token);
    } else {
      first_token = now;
    }
    last_token = now;
    return gap;
  }
};

}  // namespace cachalot
