// HTTP/1.1 as handlers see it: requests come whole, answers go whole or as streams of pieces. What is
// beneath is http_server.cc's alone. docs/contracts/server.md, H1 to H8, is what it promises.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cachalot {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"; that of HEAD too, whose answer goes without its body
  std::string path;     // "/v1/models", percent signs decoded, without the query
  std::string query;    // what follows "?", as it came
  HttpHeaders headers;  // names in lower case
  std::string body;
  std::string peer;  // "127.0.0.1:40000"

  // The first of that name, which is in lower case; empty where there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;  // beside those that every answer has
};

struct HttpStream {
  std::string content_type = "text/event-stream";
  HttpHeaders headers;
  std::string life_sign;  // sent whenever nothing else was for a while; empty: never
};

// One request and the way back to who asked. Functions may be called from any thread and never wait;
// they have no effect once the client has gone or the answer is complete. With the last reference goes
// the request: 500, or the end of the connection in the middle of a stream.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  // The whole answer.
  virtual void Respond(HttpResponse response) = 0;
  // Or the head of a stream (status 200), its pieces, its end. Write before the head does nothing.
  virtual void BeginStream(HttpStream stream) = 0;
  virtual void Write(std::string piece) = 0;
  virtual void Finish() = 0;

  // Runs `work` on the thread that serves this exchange, in the order of calls, client or not. It
  // must not wait.
  virtual void Post(std::function<void()> work) = 0;
  // Called once, on that thread, if the client goes before the answer is complete; soon, if it has
  // gone already. To be set once.
  virtual void OnClose(std::function<void()> closed) = 0;
  // Says something of the request for the line that the log has of it. Before the answer is complete.
  virtual void Annotate(std::string_view /*key*/, std::string /*value*/) {}
};

// On a worker thread. What it throws is answered with 500.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;
// The answer to a request that never came to a handler, such as 413 for its body; `path` may be
// empty. On the serving thread; must not wait.
using HttpFaultBody =
    std::function<HttpResponse(int status, std::string_view message, std::string_view path)>;

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any that is free
  int64_t max_connections = 20000;
  int64_t max_header_bytes = 32 << 10;  // of one request, its first line included
  int64_t max_body_bytes = 64 << 20;
  int64_t max_unsent_bytes = 8 << 20;  // of one client that reads slower than it is written to
  double head_seconds = 20;   // for a request's head, from its first byte or the connection
  double body_seconds = 120;  // for its body
  double idle_seconds = 120;  // between requests of a connection
  double write_seconds = 60;  // without a byte taken by a client that has some to take
  double life_sign_seconds = 10;
  int workers = 2;  // threads that run handlers
};

struct HttpStats {
  int64_t connections = 0;  // open now
  int64_t accepted = 0;     // ever
  int64_t turned_away = 0;  // above max_connections
};

class HttpServer {
 public:
  // Listens, and serves from then on. The address and the port are in errors: in use, not ours.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpOptions& options, HttpHandler handler,
                                                   HttpFaultBody fault_body);
  virtual ~HttpServer() = default;  // Stop
  virtual uint16_t port() const = 0;
  virtual HttpStats stats() const = 0;
  // No new connections; those that are there close with the answer that they wait for.
  virtual void StopAccepting() = 0;
  // Closes everything and ends the threads, once handlers have returned; to answers that are not
  // complete their clients have gone. Exchanges that are left have no effect. Not to be called on the
  // serving thread or in a handler.
  virtual void Stop() = 0;
};

}  // namespace cachalot
