// One exchange that several answers go to together: each sets its own OnClose.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http.h"

namespace cachalot {

// Who wants to know that the client has gone. Functions may be called from any thread.
class CloseListeners {
 public:
  // Sets the exchange's OnClose.
  static std::shared_ptr<CloseListeners> Of(HttpExchange& exchange) {
    auto listeners = std::make_shared<CloseListeners>();
    exchange.OnClose([listeners] { listeners->Close(); });
    return listeners;
  }

  // False where all have been told already.
  bool Add(std::function<void()> closed) {
    const std::lock_guard lock(mutex_);
    if (!has_closed_) {
      listeners_.push_back(std::move(closed));
    }
    return !has_closed_;
  }
  // Tells all of them, as if the client had gone; on the exchange's thread.
  void Close() {
    std::vector<std::function<void()>> listeners;
    {
      const std::lock_guard lock(mutex_);
      has_closed_ = true;
      listeners.swap(listeners_);
    }
    for (const auto& closed : listeners) {
      closed();
    }
  }

 private:
  std::mutex mutex_;
  bool has_closed_ = false;
  std::vector<std::function<void()>> listeners_;
};

// The exchange as one of the answers sees it.
class SharedExchange final : public HttpExchange {
 public:
  SharedExchange(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<CloseListeners> listeners)
      : exchange_(std::move(exchange)), listeners_(std::move(listeners)) {}

  const HttpRequest& request() const override { return exchange_->request(); }
  void Respond(HttpResponse response) override { exchange_->Respond(std::move(response)); }
  void BeginStream(HttpStream stream) override { exchange_->BeginStream(std::move(stream)); }
  void Write(std::string piece) override { exchange_->Write(std::move(piece)); }
  void Finish() override { exchange_->Finish(); }
  void Post(std::function<void()> work) override { exchange_->Post(std::move(work)); }
  void OnClose(std::function<void()> closed) override {
    if (!listeners_->Add(closed)) {
      exchange_->Post(std::move(closed));
    }
  }
  void Annotate(std::string_view key, std::string value) override {
    exchange_->Annotate(key, std::move(value));
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  const std::shared_ptr<CloseListeners> listeners_;
};

}  // namespace cachalot
