// An exchange without a connection, for this room's tests: what was answered lies in it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/http.h"

namespace cachalot {

class FakeExchange final : public HttpExchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}
  static std::shared_ptr<FakeExchange> Post(std::string path, std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.body = std::move(body);
    return std::make_shared<FakeExchange>(std::move(request));
  }

  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override { response_ = std::move(response); }
  void BeginStream(HttpStream stream) override { stream_ = std::move(stream); }
  void Write(std::string piece) override { pieces_.push_back(std::move(piece)); }
  void Finish() override { finished_ = true; }
  void Post(std::function<void()> work) override { work(); }
  void OnClose(std::function<void()> closed) override { closed_ = std::move(closed); }

  const std::optional<HttpResponse>& response() const { return response_; }
  const std::optional<HttpStream>& stream() const { return stream_; }
  const std::vector<std::string>& pieces() const { return pieces_; }
  std::string streamed() const {
    std::string all;
    for (const std::string& piece : pieces_) {
      all += piece;
    }
    return all;
  }
  bool finished() const { return finished_; }
  void Close() {
    if (closed_) {
      std::exchange(closed_, nullptr)();
    }
  }

 private:
  const HttpRequest request_;
  std::optional<HttpResponse> response_;
  std::optional<HttpStream> stream_;
  std::vector<std::string> pieces_;
  bool finished_ = false;
  std::function<void()> closed_;
};

}  // namespace cachalot
