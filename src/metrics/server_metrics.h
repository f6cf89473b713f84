// ServerMetrics: what a server tells of itself in Prometheus text. metrics.def is the list of metrics,
// docs/metrics.md the same for those who read them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot {

struct BuildInfo {
  std::string version;
  std::string device;  // "cpu", "ascend:0"
  std::string model;   // as clients call it
};

enum class FinishedReason : uint8_t {
  kStop,     // by itself, with calls or without, or at a stop string
  kLength,   // as long as it may be
  kAbort,    // the client went, or the server ends
  kTimeout,  // the request's own deadline
  kError,    // the device failed
};

// Of one request that was taken; seconds are from its arrival on.
struct RequestTimes {
  FinishedReason reason = FinishedReason::kStop;
  std::optional<double> queued_seconds;       // until it first ran; absent: it never did
  std::optional<double> first_token_seconds;  // absent: there was none
  double total_seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;  // of all choices
};

struct PoolUse {
  std::string name;  // "full", "swa", "c128"
  int64_t used = 0;  // pages of requests and of the prefix index
  int64_t total = 0;
};

// Pages of the prefix index whose history is in a tier.
struct PrefixUse {
  int64_t device_pages = 0;
  int64_t host_pages = 0;
  int64_t disk_pages = 0;
  // Since the start, in parts of pages (docs/contracts/cache.md).
  int64_t evictions = 0;  // left the device
  int64_t from_host = 0;  // came back to the device
  int64_t from_disk = 0;  // came to the host tier
};

// Where the time of steps went since the start.
struct StepSeconds {
  double plan = 0;
  double commit = 0;
  double execute = 0;
  double sample = 0;
  double publish = 0;
};

// The engine as it stands. What is "since the start" never falls.
struct EngineGauges {
  double uptime_seconds = 0;  // since the start, on a clock that never goes back
  int64_t running = 0;        // requests
  int64_t waiting = 0;
  std::vector<PoolUse> pools;
  int64_t used_tokens = 0;  // that the cache holds
  int64_t max_tokens = 0;   // that it could hold
  PrefixUse prefix;
  int64_t steps = 0;  // this and what follows: since the start
  StepSeconds step_seconds;
  int64_t retractions = 0;    // running requests that were sent back to wait
  int64_t prompt_tokens = 0;  // of all requests that ran
  int64_t cached_tokens = 0;  // of these, found in the prefix index
};

struct HttpGauges {
  int64_t connections = 0;  // open
  int64_t accepted = 0;     // since the start
  int64_t turned_away = 0;  // since the start
};

// All functions may be called from any thread at once; none waits for more than a short lock.
class ServerMetrics {
 public:
  // The start of the server is now.
  explicit ServerMetrics(const BuildInfo& build);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // The first token of a request came, so many seconds after its arrival.
  void OnFirstToken(double seconds);
  // `tokens` more of a choice came at once, so many seconds after the one before them.
  void OnNextTokens(int64_t tokens, double seconds);
  // Once for each request that was taken, whatever its end.
  void OnRequestEnd(const RequestTimes& times);

  // `path` is a route ("/v1/files/{id}", "other"), never what a client sent: each is a series of its own.
  void OnHttpAnswer(std::string_view path, int status);

  // To be called before Text, and as often as one likes.
  void SetEngine(const EngineGauges& engine);
  void SetHttp(const HttpGauges& http);

  // Text of kContentType; the order of its lines is always the same.
  std::string Text() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace cachalot
