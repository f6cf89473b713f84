// RequestClock: when what happened to a request, for metrics and the log.
#pragma once

#include <chrono>
#include <optional>

namespace cachalot {

struct RequestClock {
  using Clock = std::chrono::steady_clock;

  Clock::time_point arrived = Clock::now();
  std::optional<Clock::time_point> first_step;  // of its prompt: it waits no more
  std::optional<Clock::time_point> first_token;
  std::optional<Clock::time_point> last_token;

  void Tick() {
    last_token = Clock::now();
    first_token = first_token.value_or(*last_token);
  }
};

inline double Seconds(RequestClock::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace cachalot
