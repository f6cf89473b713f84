#include "server/service.h"

#include <algorithm>
#include <utility>

#include "io/utf8.h"
#include "metrics/server_metrics.h"
#include "server/anthropic_messages.h"
#include "server/engine_info.h"
#include "server/model_endpoints.h"
#include "server/observed_exchange.h"
#include "server/openai_endpoints.h"
#include "server/openai_responses.h"
#include "server/page.h"

namespace cachalot {
namespace {

constexpr size_t kMaxShownBytes = 100;

// In a time that tells nothing of the key.
bool SameKey(std::string_view given, std::string_view key) {
  size_t difference = given.size() ^ key.size();
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ key[i % std::max<size_t>(key.size(), 1)]);
  }
  return difference == 0 && !key.empty();
}

HttpResponse PageResponse() {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.body = std::string(IndexPage());
  response.headers = {{"Content-Security-Policy", std::string(kIndexPagePolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  return response;
}

}  // namespace

struct Service::Route {
  enum class Access : uint8_t { kOpen, kKey };
  // kGenerates: refused while draining too.
  enum class Needs : uint8_t { kNothing, kModel, kGenerates };

  std::string_view method;
  std::string_view path;  // one that ends with "/*" has the rest as it comes
  Access access;
  Needs needs;
  void (*answer)(Service& service, Generator* generator, std::shared_ptr<HttpExchange> exchange);

  bool Takes(std::string_view asked) const {
    return path.ends_with("/*") ? asked.starts_with(path.substr(0, path.size() - 1))
                                : asked == path;
  }
};

const std::vector<Service::Route>& Service::Routes() {
  using enum Route::Access;
  using enum Route::Needs;
  using Exchange = std::shared_ptr<HttpExchange>;
  static const std::vector<Route> routes = {
      {"GET", "/", kOpen, kNothing,
       [](Service&, Generator*, Exchange e) { e->Respond(PageResponse()); }},
      {"GET", "/health", kOpen, kNothing,
       [](Service& s, Generator*, Exchange e) { e->Respond(s.Health()); }},
      {"GET", "/version", kKey, kNothing,
       [](Service& s, Generator*, Exchange e) { e->Respond(s.Version()); }},
      {"GET", "/metrics", kKey, kNothing,
       [](Service& s, Generator*, Exchange e) { e->Respond(s.Metrics()); }},
      {"GET", "/server_info", kKey, kModel,
       [](Service& s, Generator*, Exchange e) { e->Respond(s.ServerInfo()); }},
      {"GET", "/health_generate", kKey, kGenerates,
       [](Service&, Generator* g, Exchange e) { ServeHealthGenerate(*g, std::move(e)); }},
      {"GET", "/v1/models", kKey, kModel,
       [](Service&, Generator* g, Exchange e) { ServeModels(*g, std::move(e)); }},
      {"GET", "/v1/models/*", kKey, kModel,
       [](Service&, Generator* g, Exchange e) { ServeModel(*g, std::move(e)); }},
      {"POST", "/tokenize", kKey, kModel,
       [](Service&, Generator* g, Exchange e) { ServeTokenize(*g, std::move(e)); }},
      {"POST", "/detokenize", kKey, kModel,
       [](Service&, Generator* g, Exchange e) { ServeDetokenize(*g, std::move(e)); }},
      {"POST", "/v1/chat/completions", kKey, kGenerates,
       [](Service&, Generator* g, Exchange e) { ServeOpenAiChat(*g, std::move(e)); }},
      {"POST", "/v1/completions", kKey, kGenerates,
       [](Service&, Generator* g, Exchange e) { ServeOpenAiCompletions(*g, std::move(e)); }},
      {"POST", "/v1/responses", kKey, kGenerates,
       [](Service&, Generator* g, Exchange e) { ServeResponses(*g, std::move(e)); }},
      {"POST", "/v1/messages", kKey, kGenerates,
       [](Service&, Generator* g, Exchange e) { ServeMessages(*g, std::move(e)); }},
      {"POST", "/v1/messages/count_tokens", kKey, kModel,
       [](Service&, Generator* g, Exchange e) { ServeCountTokens(*g, std::move(e)); }},
  };
  return routes;
}

Service::Service(ServiceOptions options, ServerMetrics& metrics)
    : options_(std::move(options)), metrics_(metrics) {}

void Service::Handle(std::shared_ptr<HttpExchange> exchange) {
  HttpHeaders headers;
  if (!options_.cors_origin.empty()) {
    headers = {{"Access-Control-Allow-Origin", options_.cors_origin}, {"Vary", "Origin"}};
  }
  ++running_;
  const auto done = [this](const HttpRecord& record) {
    --running_;
    metrics_.OnHttpAnswer(KnownPath(record.path), record.status);
    options_.on_request(record);
  };
  Dispatch(Observe(std::move(exchange), std::move(headers), done));
}

void Service::Dispatch(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const Dialect dialect = DialectOfPath(request.path);
  const auto refuse = [&](ApiError error, HttpHeaders headers = {}) {
    HttpResponse response = ErrorResponse(dialect, error);
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    exchange->Respond(std::move(response));
  };
  if (request.method == "OPTIONS" && !options_.cors_origin.empty()) {
    return Preflight(*exchange);
  }
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::string allowed;
  for (const Route& route : Routes()) {
    if (!route.Takes(request.path)) {
      continue;
    }
    if (route.method != method) {
      allowed = route.method;
      continue;
    }
    if (route.access == Route::Access::kKey && !HasKey(request)) {
      return refuse(
          {401, "no API key, or a wrong one: expected Authorization: Bearer KEY, or x-api-key",
           "invalid_api_key"},
          {{"WWW-Authenticate", "Bearer"}});
    }
    Generator* const generator = generator_;
    if (route.needs != Route::Needs::kNothing && generator == nullptr) {
      return refuse({503, "the model is being loaded"});
    }
    if (route.needs == Route::Needs::kGenerates && draining_) {
      return refuse({503, "the server is shutting down"});
    }
    return route.answer(*this, generator, exchange);
  }
  const std::string shown(Utf8Prefix(request.path, kMaxShownBytes));
  if (allowed.empty()) {
    return refuse({404, fmt::format("nothing at {}", shown)});
  }
  refuse({405, fmt::format("{} is asked for by {}", shown, allowed)}, {{"Allow", allowed}});
}

bool Service::HasKey(const HttpRequest& request) const {
  if (options_.api_keys.empty()) {
    return true;
  }
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.Header("x-api-key");
  const std::string_view authorization = request.Header("authorization");
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (authorization.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                 [&](char a, char b) { return a == lower(b); })) {
    given = authorization.substr(kBearer.size());
  }
  return std::ranges::count_if(options_.api_keys,
                               [&](const std::string& key) { return SameKey(given, key); }) > 0;
}

void Service::Preflight(HttpExchange& exchange) const {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                      {"Access-Control-Allow-Headers", "*, Authorization"},
                      {"Access-Control-Max-Age", "600"}};
  exchange.Respond(std::move(response));
}

HttpResponse Service::Fault(int status, std::string_view message, std::string_view path) const {
  metrics_.OnHttpAnswer(KnownPath(path), status);
  return ErrorResponse(DialectOfPath(path), {status, std::string(message)});
}

// Paths of strangers count as one.
std::string_view Service::KnownPath(std::string_view path) {
  for (const Route& route : Routes()) {
    if (route.Takes(path)) {
      return route.path;
    }
  }
  return "other";
}

HttpResponse Service::Health() const {
  const Generator* const generator = generator_;
  std::string state = "ok";
  if (generator == nullptr) {
    state = "loading";
  } else if (draining_) {
    state = "draining";
  } else if (generator->engine().step_seconds() > options_.stall_seconds) {
    state = "stalled";
  }
  HttpResponse response;
  response.status = state == "ok" ? 200 : 503;
  response.body = DumpJson(OrderedJson{{"status", state}});
  return response;
}

HttpResponse Service::Metrics() const {
  if (const Generator* const generator = generator_; generator != nullptr) {
    metrics_.SetEngine(GaugesOf(generator->engine()));
  }
  metrics_.SetHttp(options_.http_gauges());
  HttpResponse response;
  response.content_type = std::string(ServerMetrics::kContentType);
  response.body = metrics_.Text();
  return response;
}

HttpResponse Service::Version() const {
  HttpResponse response;
  response.body = DumpJson(OrderedJson{{"version", options_.version}});
  return response;
}

HttpResponse Service::ServerInfo() const {
  const Generator& generator = *generator_;
  OrderedJson info = {{"version", options_.version},
                      {"device", options_.device},
                      {"model", generator.model().name},
                      {"max_context", generator.engine().max_context()}};
  info.update(EngineInfo(generator.engine()));
  HttpResponse response;
  response.body = DumpJson(info);
  return response;
}

}  // namespace cachalot
