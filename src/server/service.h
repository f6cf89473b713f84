// Service: every path that the server answers, and what stands before all of them: keys, CORS, loading,
// draining, the log and the counts of requests.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"
#include "metrics/server_metrics.h"
#include "server/generator.h"
#include "server/observed_exchange.h"

namespace cachalot {

struct ServiceOptions {
  std::vector<std::string> api_keys;  // any of them opens what is guarded; none: nothing is
  std::string cors_origin;            // "*" or an origin; empty: no other origin's pages may ask
  double stall_seconds = 120;         // a step that takes longer makes the server unhealthy
  std::string version;
  std::string device;
  std::function<void(const HttpRecord&)> on_request;  // each that is complete; must not wait
  std::function<HttpGauges()> http_gauges;
};

// From any thread.
class Service {
 public:
  // Metrics outlive the service.
  Service(ServiceOptions options, ServerMetrics& metrics);

  // Until then, all that needs a model is answered with 503. The generator outlives all requests.
  void ModelIsLoaded(Generator& generator) { generator_ = &generator; }
  // From now on nothing new is generated; what is not, /health among it, is answered as before.
  void Drain() { draining_ = true; }
  // Requests whose answers are not complete.
  int64_t running() const { return running_; }

  void Handle(std::shared_ptr<HttpExchange> exchange);
  // Of requests that HTTP turned away (HttpFaultBody).
  HttpResponse Fault(int status, std::string_view message, std::string_view path) const;

 private:
  struct Route;
  static const std::vector<Route>& Routes();
  static std::string_view KnownPath(std::string_view path);

  void Dispatch(const std::shared_ptr<HttpExchange>& exchange);
  bool HasKey(const HttpRequest& request) const;
  void Preflight(HttpExchange& exchange) const;

  // Endpoints of their own.
  HttpResponse Health() const;
  HttpResponse Metrics() const;
  HttpResponse Version() const;
  HttpResponse ServerInfo() const;

  const ServiceOptions options_;
  ServerMetrics& metrics_;
  std::atomic<Generator*> generator_ = nullptr;
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> running_ = 0;
};

}  // namespace cachalot
