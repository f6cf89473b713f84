// One connection's side of HTTP/1: bytes that came, to requests; answers, to bytes that go. It knows
// neither sockets nor threads: all of it happens on the serving thread, which carries the bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/http.h"
#include "http/request_reader.h"

namespace cachalot {

class Connection;

// A request that waits for its answer. All but `over` is the serving thread's.
struct Turn {
  Connection* connection = nullptr;  // null from the end of the answer or of the client on
  bool client_gone = false;          // before the answer was complete
  std::function<void()> closed;
  std::atomic<bool> over = false;  // there is no one to answer any more
};

// What the connections of a server have in common.
struct HttpEnvironment {
  HttpOptions options;
  HttpFaultBody fault_body;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(HttpRequest request, std::shared_ptr<Turn> turn)> serve;
};

class Connection {
 public:
  // `changed` is called where an answer makes work for who carries the bytes.
  Connection(const HttpEnvironment& environment, std::string peer, std::function<void()> changed);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // What the socket tells.
  void Received(std::string_view bytes);
  void ReceivedEnd();  // the client will send nothing more; whether it listens is not known
  void Sent(size_t bytes);
  void Lost();  // nothing goes in or out any more

  // What the server tells.
  void Tick();      // time has passed
  void TurnAway();  // there are too many connections
  void Drain();     // to be closed with its answer

  // What is to be done with the socket.
  bool wants_bytes() const;
  std::string_view outgoing() const { return std::string_view(out_).substr(out_begin_); }
  bool sent_all() const { return phase_ == Phase::kLingering; }  // shut down the way out
  bool dead() const { return phase_ == Phase::kDead; }           // close it

  // The answer to the request whose turn it is (HttpExchange).
  void Respond(HttpResponse response);
  void BeginStream(HttpStream stream);
  void Write(std::string_view piece);
  void Finish();
  void Abandon();  // no answer will come, or no more of it

 private:
  enum class Phase {
    kReading,    // a request, or waiting for one
    kAnswering,  // one is being answered
    kFinishing,  // the answer is complete; its bytes go out
    kLingering,  // all is said; the client may still send, so that it gets to read what was said
    kDead
  };

  void Enter(Phase phase);
  void ReadRequests();
  HttpResponse FaultAnswer(int status, std::string_view message, std::string_view path) const;
  void Refuse(const HttpFault& fault);
  void AppendHead(int status, std::string_view content_type, const HttpHeaders& headers,
                  std::string_view framing);
  void AppendWhole(const HttpResponse& response);
  void Append(std::string_view bytes);
  void CompleteAnswer();
  void AfterAnswer();
  void LoseClient();
  void SendLifeSign();
  double SecondsSince(std::chrono::steady_clock::time_point time) const;

  const HttpEnvironment& environment_;
  const std::string peer_;
  const std::function<void()> changed_;

  Phase phase_ = Phase::kReading;
  RequestReader reader_;
  RequestReader::Stage stage_ = RequestReader::Stage::kNothing;
  std::chrono::steady_clock::time_point entered_;  // the phase or, reading, the stage
  std::chrono::steady_clock::time_point sent_;     // when bytes last went or began to wait
  std::string in_;
  std::string out_;
  size_t out_begin_ = 0;  // of what is not sent yet

  bool client_ended_ = false;
  bool first_request_ = true;
  bool draining_ = false;

  // Of the request whose turn it is.
  std::shared_ptr<Turn> turn_;
  std::string path_;
  int minor_version_ = 1;
  bool head_only_ = false;  // HEAD
  bool keep_alive_ = true;
  bool told_to_continue_ = false;
  bool streaming_ = false;
  std::string life_sign_;
};

}  // namespace cachalot
