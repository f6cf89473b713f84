#include "http/exchange.h"

#include <utility>

namespace cachalot {

void Mailbox::Post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;  // `work` is destroyed after the lock: it may hold the last of an exchange
  work_.push_back(std::move(work));
  if (work_.size() == 1) wake_();
}

void Mailbox::Deliver() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  for (auto& item : work) std::exchange(item, nullptr)();
}

void Mailbox::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  Deliver();
}

template <typename Act>
void Exchange::Tell(Act act) {
  if (turn_->over) return;
  mailbox_->Post([turn = turn_, act = std::move(act)]() mutable {
    if (turn->connection != nullptr) act(*turn->connection);
  });
}

void Exchange::Respond(HttpResponse response) {
  Tell([response = std::move(response)](Connection& connection) mutable {
    connection.Respond(std::move(response));
  });
}

void Exchange::BeginStream(HttpStream stream) {
  Tell([stream = std::move(stream)](Connection& connection) mutable {
    connection.BeginStream(std::move(stream));
  });
}

void Exchange::Write(std::string piece) {
  Tell([piece = std::move(piece)](Connection& connection) { connection.Write(piece); });
}

void Exchange::Finish() {
  Tell([](Connection& connection) { connection.Finish(); });
}

void Exchange::Abandon() {
  Tell([](Connection& connection) { connection.Abandon(); });
}

void Exchange::Post(std::function<void()> work) { mailbox_->Post(std::move(work)); }

void Exchange::OnClose(std::function<void()> closed) {
  mailbox_->Post([turn = turn_, closed = std::move(closed)]() mutable {
    if (turn->client_gone) {
      closed();
    } else if (!turn->over) {
      turn->closed = std::move(closed);
    }
  });
}

}  // namespace cachalot
