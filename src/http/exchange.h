// What handlers hold of a request, from any thread, and how it reaches the serving thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "http/connection.h"
#include "http/http.h"

namespace cachalot {

// Work for the serving thread from all others, in order.
class Mailbox {
 public:
  // `wake` is called, by whoever posts, when the mailbox was empty: Deliver is to be called soon. It
  // is not called any more once Close has returned.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Post(std::function<void()> work);
  // On the serving thread: does what is there now.
  void Deliver();
  // On the serving thread: does what is there, and drops what comes later.
  void Close();

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
  bool closed_ = false;
};

// May outlive its connection and its server.
class Exchange final : public HttpExchange {
 public:
  Exchange(HttpRequest request, std::shared_ptr<Turn> turn, std::shared_ptr<Mailbox> mailbox)
      : request_(std::move(request)), turn_(std::move(turn)), mailbox_(std::move(mailbox)) {}
  ~Exchange() override { Abandon(); }

  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override;
  void BeginStream(HttpStream stream) override;
  void Write(std::string piece) override;
  void Finish() override;
  void Post(std::function<void()> work) override;
  void OnClose(std::function<void()> closed) override;

  // No answer will come, or no more of it.
  void Abandon();
  bool over() const { return turn_->over; }

 private:
  // `act` gets the connection, if there still is one to answer to.
  template <typename Act>
  void Tell(Act act);

  const HttpRequest request_;
  const std::shared_ptr<Turn> turn_;
  const std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace cachalot
