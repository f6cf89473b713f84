// A server under test, whose handlers hand their exchanges over to the test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "http/http.h"
#include "http/raw_client.h"

namespace cachalot {

inline constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

inline std::string Get(std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path);
}

inline HttpResponse FaultBody(int status, std::string_view message, std::string_view path) {
  return {.status = status, .body = fmt::format("{}: {}", path, message)};
}

// What one thread waits for and others bring.
template <typename T>
class Inbox {
 public:
  void Put(T item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    arrived_.notify_one();
  }
  // Half a minute stands for never.
  std::optional<T> Take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(30), [this] { return !items_.empty(); })) {
      return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<T> items_;
};

using ExchangePtr = std::shared_ptr<HttpExchange>;

class HttpServerTest : public testing::Test {
 protected:
  // Handlers hand their exchanges over to the test.
  void Start(HttpOptions options = {}) {
    StartWith(options, [this](ExchangePtr exchange) { exchanges_.Put(std::move(exchange)); });
  }
  // Handlers answer with the method, the path and the body.
  void StartEcho(HttpOptions options = {}) {
    StartWith(options, [](const ExchangePtr& exchange) {
      const HttpRequest& request = exchange->request();
      exchange->Respond({.body = request.method + " " + request.path + " " + request.body});
    });
  }
  void StartWith(const HttpOptions& options, HttpHandler handler) {
    auto server = HttpServer::Start(options, std::move(handler), FaultBody);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  RawClient Connect() { return RawClient(server_->port()); }
  // The next exchange, which says `closed_` if its client goes.
  ExchangePtr TakeExchange() {
    auto exchange = exchanges_.Take();
    if (!exchange) {
      ADD_FAILURE() << "no request came";
      std::abort();
    }
    (*exchange)->OnClose([this] { closed_.Put(true); });
    return *std::move(exchange);
  }
  // What is on its way to the serving thread has been done there.
  void Settle(HttpExchange& exchange) {
    std::promise<void> settled;
    exchange.Post([&] { settled.set_value(); });
    settled.get_future().wait();
  }
  void AwaitConnections(int64_t count) {
    for (int i = 0; i < 3000 && server_->stats().connections != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(server_->stats().connections, count);
  }

  // The server goes first, what its threads use after it.
  Inbox<ExchangePtr> exchanges_;
  Inbox<bool> closed_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace cachalot
