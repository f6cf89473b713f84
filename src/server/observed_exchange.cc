#include "server/observed_exchange.h"

#include <chrono>

namespace cachalot {
namespace {

constexpr int kClientClosed = 499;
constexpr int kInternalError = 500;

class ObservedExchange final : public HttpExchange,
                               public std::enable_shared_from_this<ObservedExchange> {
 public:
  ObservedExchange(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers,
                   std::function<void(const HttpRecord&)> done)
      : exchange_(std::move(exchange)), headers_(std::move(headers)), done_(std::move(done)) {}

  // HTTP answers for a handler that does not.
  ~ObservedExchange() override { Done(kInternalError); }

  const HttpRequest& request() const override { return exchange_->request(); }

  void Respond(HttpResponse response) override {
    Done(response.status);
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    exchange_->Respond(std::move(response));
  }
  void BeginStream(HttpStream stream) override {
    stream.headers.insert(stream.headers.end(), headers_.begin(), headers_.end());
    exchange_->BeginStream(std::move(stream));
  }
  void Write(std::string piece) override { exchange_->Write(std::move(piece)); }
  void Finish() override {
    Done(200);
    exchange_->Finish();
  }
  void Post(std::function<void()> work) override { exchange_->Post(std::move(work)); }
  void OnClose(std::function<void()> closed) override {
    exchange_->OnClose([self = weak_from_this(), closed = std::move(closed)] {
      if (const auto kept = self.lock()) {
        kept->Done(kClientClosed);
      }
      closed();
    });
  }
  void Annotate(std::string_view key, std::string value) override {
    const std::lock_guard lock(mutex_);
    notes_.emplace_back(key, std::move(value));
  }

 private:
  void Done(int status) {
    std::function<void(const HttpRecord&)> done;
    HttpRecord record;
    {
      const std::lock_guard lock(mutex_);
      done = std::exchange(done_, nullptr);
      record.notes = std::move(notes_);
    }
    if (!done) {
      return;
    }
    record.method = request().method;
    record.path = request().path;
    record.peer = request().peer;
    record.status = status;
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    done(record);
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const HttpHeaders headers_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> notes_;
  std::function<void(const HttpRecord&)> done_;  // empty once it was called
};

}  // namespace

std::shared_ptr<HttpExchange> Observe(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers,
                                      std::function<void(const HttpRecord&)> done) {
  return std::make_shared<ObservedExchange>(std::move(exchange), std::move(headers),
                                            std::move(done));
}

}  // namespace cachalot
