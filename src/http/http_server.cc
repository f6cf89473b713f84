// Sockets and threads of the HTTP server: the only file that knows Asio.
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <thread>
#include <unordered_set>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "http/connection.h"
#include "http/exchange.h"
#include "http/http.h"

namespace cachalot {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr int kBacklog = 4096;
// Connections above the bound that may be open at once to be told so; others are closed without a word.
constexpr size_t kTurnedAwayAtOnce = 64;

std::string EndpointText(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

// Handlers run here, in the order in which requests came.
class Workers {
 public:
  Workers(int count, HttpHandler handler) : handler_(std::move(handler)) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Workers() { Stop(); }

  void Add(std::shared_ptr<Exchange> exchange) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      waiting_.push_back(std::move(exchange));
    }
    wake_.notify_one();
  }

  void Stop() {
    std::deque<std::shared_ptr<Exchange>> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      dropped.swap(waiting_);
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Run() {
    NameThisThread("http-worker");
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      const auto exchange = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (!exchange->over()) Handle(exchange);
    }
  }

  void Handle(const std::shared_ptr<Exchange>& exchange) {
    try {
      handler_(exchange);
    } catch (const std::exception& thrown) {
      spdlog::error("{} {}: {}", exchange->request().method, exchange->request().path,
                    thrown.what());
      exchange->Abandon();
    } catch (...) {
      spdlog::error("{} {}: failed", exchange->request().method, exchange->request().path);
      exchange->Abandon();
    }
  }

  const HttpHandler handler_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Exchange>> waiting_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

class Server;

// Carries the bytes between a socket and its Connection.
class Carrier : public std::enable_shared_from_this<Carrier> {
 public:
  Carrier(Server& server, tcp::socket socket, const std::string& peer);

  Connection& connection() { return connection_; }
  // Sends what can be sent, waits for what must be waited for, closes what is dead.
  void Pump();

 private:
  void MarkChanged();
  void Send();
  void Receive();
  void WaitToRead();
  void WaitToSend();
  void WaitForReset();

  Server& server_;
  tcp::socket socket_;
  Connection connection_;
  bool changed_ = false;  // and in the server's list of those
  bool waits_to_read_ = false;
  bool waits_to_send_ = false;
  bool waits_for_reset_ = false;
  bool shut_down_ = false;
};

class Server final : public HttpServer {
 public:
  Server(const HttpOptions& options, HttpHandler handler, HttpFaultBody fault_body)
      : environment_{options, std::move(fault_body), [] { return steady_clock::now(); },
                     [this](HttpRequest request, std::shared_ptr<Turn> turn) {
                       workers_.Add(std::make_shared<Exchange>(std::move(request), std::move(turn),
                                                               mailbox_));
                     }},
        mailbox_(std::make_shared<Mailbox>([this] { asio::post(io_, [this] { Deliver(); }); })),
        workers_(options.workers, std::move(handler)) {}
  ~Server() override { Stop(); }

  Status Listen();
  void Run();

  uint16_t port() const override { return port_; }
  HttpStats stats() const override { return {connections_, accepted_, turned_away_}; }
  void StopAccepting() override;
  void Stop() override;

 private:
  friend class Carrier;

  void Accept();
  void Accepted(tcp::socket socket);
  void SweepLater();
  void Sweep();
  void Deliver();
  void PumpChanged();
  void StopListening();

  const HttpEnvironment environment_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer sweep_timer_{io_};
  const std::shared_ptr<Mailbox> mailbox_;
  Workers workers_;
  std::thread thread_;
  std::once_flag stopped_;
  uint16_t port_ = 0;

  // The serving thread's.
  std::unordered_set<std::shared_ptr<Carrier>> carriers_;
  std::vector<std::shared_ptr<Carrier>> changed_;
  std::array<char, 64 << 10> read_buffer_;  // of whoever reads: bytes go on at once
  bool accepting_ = false;                  // a wait for a connection is on
  bool draining_ = false;
  bool stopping_ = false;

  std::atomic<int64_t> connections_ = 0;
  std::atomic<int64_t> accepted_ = 0;
  std::atomic<int64_t> turned_away_ = 0;
};

Carrier::Carrier(Server& server, tcp::socket socket, const std::string& peer)
    : server_(server),
      socket_(std::move(socket)),
      connection_(server.environment_, peer, [this] { MarkChanged(); }) {}

void Carrier::MarkChanged() {
  if (changed_) return;
  if (auto self = weak_from_this().lock()) {
    changed_ = true;
    server_.changed_.push_back(std::move(self));
  }
}

void Carrier::Pump() {
  changed_ = false;
  if (!waits_to_send_) Send();
  if (connection_.sent_all() && !shut_down_) {
    shut_down_ = true;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  if (connection_.dead()) {
    error_code ignored;
    socket_.close(ignored);  // what waits for it is woken
    if (server_.carriers_.erase(shared_from_this()) > 0) --server_.connections_;
  } else if (connection_.wants_bytes()) {
    WaitToRead();
  } else if (!waits_to_read_) {
    WaitForReset();
  }
}

void Carrier::Send() {
  while (!connection_.dead() && !connection_.outgoing().empty()) {
    const std::string_view bytes = connection_.outgoing();
    error_code error;
    const size_t sent = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (error == asio::error::would_block) return WaitToSend();
    if (error && error != asio::error::interrupted) return connection_.Lost();
    connection_.Sent(sent);
  }
}

void Carrier::Receive() {
  auto& buffer = server_.read_buffer_;
  error_code error;
  const size_t received = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return;
  if (error == asio::error::eof) return connection_.ReceivedEnd();
  if (error) return connection_.Lost();
  connection_.Received({buffer.data(), received});
}

void Carrier::WaitToRead() {
  if (std::exchange(waits_to_read_, true)) return;
  socket_.async_wait(tcp::socket::wait_read, [this, self = shared_from_this()](error_code error) {
    waits_to_read_ = false;
    if (error || connection_.dead()) return;
    if (connection_.wants_bytes()) Receive();
    Pump();
    server_.PumpChanged();
  });
}

void Carrier::WaitToSend() {
  waits_to_send_ = true;
  socket_.async_wait(tcp::socket::wait_write, [this, self = shared_from_this()](error_code error) {
    waits_to_send_ = false;
    if (error) return;
    Pump();
    server_.PumpChanged();
  });
}

// A client that is not read from any more can still be seen to go.
void Carrier::WaitForReset() {
  if (std::exchange(waits_for_reset_, true)) return;
  socket_.async_wait(tcp::socket::wait_error, [this, self = shared_from_this()](error_code error) {
    waits_for_reset_ = false;
    if (error) return;
    connection_.Lost();
    Pump();
    server_.PumpChanged();
  });
}

// The soft bound on open files is that of programs that use select(); this one may have more.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Status Server::Listen() {
  const HttpOptions& options = environment_.options;
  const auto fail = [&](const error_code& error) {
    return MakeError(StatusCode::kIoError, "{} port {}: {}", options.address, options.port,
                     error.message());
  };
  error_code error;
  const auto found = tcp::resolver(io_).resolve(options.address, std::to_string(options.port),
                                                tcp::resolver::passive, error);
  if (error) return fail(error);
  // Of a name such as "localhost", the address of IPv4, which clients that take either try as well.
  const auto v4 = std::find_if(found.begin(), found.end(), [](const auto& entry) {
    return entry.endpoint().address().is_v4();
  });
  const tcp::endpoint endpoint = v4 != found.end() ? *v4 : *found.begin();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) return fail(error);
  port_ = acceptor_.local_endpoint().port();
  return {};
}

void Server::Run() {
  thread_ = std::thread([this] {
    NameThisThread("http");
    Accept();
    SweepLater();
    io_.run();
    mailbox_->Close();
  });
}

void Server::Accept() {
  if (draining_ || std::exchange(accepting_, true)) return;
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    accepting_ = false;
    if (!error) Accepted(std::move(socket));
    if (!error || error == asio::error::connection_aborted) return Accept();
    // Where there are no files or memory left, the next sweep tries again.
    if (!draining_) spdlog::warn("no connection is accepted for now: {}", error.message());
  });
}

void Server::Accepted(tcp::socket socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (!error) socket.non_blocking(true, error);
  if (!error) socket.set_option(tcp::no_delay(true), error);
  if (error || draining_) return;
  // What the kernel holds for a client counts like what waits here: one whose machine is gone takes
  // nothing, and no reset tells of it.
  const auto patience = static_cast<unsigned>(1000 * environment_.options.write_seconds);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  ++accepted_;
  const auto bound = static_cast<size_t>(environment_.options.max_connections);
  const bool turned_away = carriers_.size() >= bound;
  if (turned_away) ++turned_away_;
  if (carriers_.size() >= bound + kTurnedAwayAtOnce) return;
  const auto carrier = std::make_shared<Carrier>(*this, std::move(socket), EndpointText(peer));
  carriers_.insert(carrier);
  ++connections_;
  if (turned_away) carrier->connection().TurnAway();
  carrier->Pump();
  PumpChanged();
}

void Server::SweepLater() {
  const HttpOptions& options = environment_.options;
  const double shortest =
      std::min({1.0, options.head_seconds, options.body_seconds, options.idle_seconds,
                options.write_seconds, options.life_sign_seconds});
  sweep_timer_.expires_after(
      std::chrono::microseconds(static_cast<int64_t>(1e6 * std::max(shortest, 0.005))));
  sweep_timer_.async_wait([this](error_code) {
    if (stopping_) return;  // cancelled, or so late that it could not be
    Sweep();
    SweepLater();
  });
}

void Server::Sweep() {
  const std::vector<std::shared_ptr<Carrier>> all(carriers_.begin(), carriers_.end());
  for (const auto& carrier : all) carrier->connection().Tick();
  PumpChanged();
  Accept();
}

void Server::Deliver() {
  mailbox_->Deliver();
  PumpChanged();
}

void Server::PumpChanged() {
  while (!changed_.empty()) {
    for (const auto& carrier : std::exchange(changed_, {})) carrier->Pump();
  }
}

void Server::StopListening() {
  draining_ = true;
  error_code ignored;
  acceptor_.close(ignored);
}

void Server::StopAccepting() {
  mailbox_->Post([this] {
    StopListening();
    for (const auto& carrier : carriers_) carrier->connection().Drain();
  });
}

void Server::Stop() {
  std::call_once(stopped_, [this] {
    if (thread_.joinable()) {
      CACHALOT_CHECK(thread_.get_id() != std::this_thread::get_id());
      mailbox_->Post([this] {
        StopListening();
        stopping_ = true;
        sweep_timer_.cancel();
        for (const auto& carrier : carriers_) carrier->connection().Lost();
      });
      thread_.join();
    }
    workers_.Stop();
  });
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                      HttpHandler handler,
                                                      HttpFaultBody fault_body) {
  RaiseFileLimit();
  auto server = std::make_unique<Server>(options, std::move(handler), std::move(fault_body));
  if (auto listens = server->Listen(); !listens) {
    return tl::unexpected(std::move(listens).error());
  }
  server->Run();
  return server;
}

}  // namespace cachalot
