#include "http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <iterator>
#include <utility>

#include "http/answer_head.h"

namespace cachalot {
namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";
constexpr double kLingerSeconds = 2;
// How often a client that has ended its side is asked whether it still listens.
constexpr double kProbeSeconds = 1;
constexpr size_t kSmallBuffer = 64 << 10;

}  // namespace

Connection::Connection(const HttpEnvironment& environment, std::string peer,
                       std::function<void()> changed)
    : environment_(environment),
      peer_(std::move(peer)),
      changed_(std::move(changed)),
      reader_(environment.options.max_header_bytes, environment.options.max_body_bytes),
      entered_(environment.now()),
      sent_(entered_) {}

Connection::~Connection() { Lost(); }

double Connection::SecondsSince(std::chrono::steady_clock::time_point time) const {
  return std::chrono::duration<double>(environment_.now() - time).count();
}

void Connection::Enter(Phase phase) {
  phase_ = phase;
  entered_ = environment_.now();
  changed_();
}

bool Connection::wants_bytes() const {
  if (client_ended_ || dead()) return false;
  const bool ahead = phase_ == Phase::kAnswering || phase_ == Phase::kFinishing;
  return !ahead || static_cast<int64_t>(in_.size()) < environment_.options.max_header_bytes;
}

void Connection::Received(std::string_view bytes) {
  if (!keep_alive_ || phase_ == Phase::kLingering || dead()) return;
  in_.append(bytes);
  if (phase_ == Phase::kReading) ReadRequests();
}

void Connection::ReceivedEnd() {
  client_ended_ = true;
  switch (phase_) {
    case Phase::kReading:
    case Phase::kLingering:
      Lost();
      break;
    case Phase::kAnswering:
      // It may only have finished sending. Whether it listens shows when something is sent, which
      // before the head of an answer in HTTP/1.0 nothing can be. Who finishes with the request is
      // spared that for the moment that most answers take.
      if (minor_version_ == 0 && !streaming_) {
        Lost();
      } else if (streaming_ || SecondsSince(entered_) >= kProbeSeconds) {
        SendLifeSign();
      } else if (outgoing().empty()) {
        sent_ = environment_.now();
      }
      break;
    case Phase::kFinishing:
    case Phase::kDead:
      break;
  }
}

void Connection::Sent(size_t bytes) {
  out_begin_ += bytes;
  sent_ = environment_.now();
  if (out_begin_ == out_.size()) {
    out_begin_ = 0;
    if (out_.capacity() > kSmallBuffer) out_ = {};
    out_.clear();
    if (phase_ == Phase::kFinishing) AfterAnswer();
  } else if (out_begin_ > std::max(kSmallBuffer, out_.size() / 2)) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
}

void Connection::Lost() {
  if (dead()) return;
  Enter(Phase::kDead);
  if (const auto turn = std::exchange(turn_, nullptr)) {
    turn->over = true;
    turn->connection = nullptr;
    turn->client_gone = true;
    if (const auto closed = std::exchange(turn->closed, nullptr)) closed();
  }
}

void Connection::Tick() {
  const HttpOptions& options = environment_.options;
  if (!outgoing().empty() && SecondsSince(sent_) > options.write_seconds) return Lost();
  switch (phase_) {
    case Phase::kReading:
      if (stage_ == RequestReader::Stage::kNothing) {
        const double limit = first_request_ ? options.head_seconds : options.idle_seconds;
        if (SecondsSince(entered_) > limit) Enter(Phase::kLingering);
      } else if (stage_ == RequestReader::Stage::kHead) {
        if (SecondsSince(entered_) > options.head_seconds) {
          Refuse({408, "the request's head took too long", {}});
        }
      } else if (SecondsSince(entered_) > options.body_seconds) {
        Refuse({408, "the request's body took too long", reader_.head().request.path});
      }
      break;
    case Phase::kAnswering: {
      const double wait = client_ended_ ? std::min(kProbeSeconds, options.life_sign_seconds)
                                        : options.life_sign_seconds;
      if (outgoing().empty() && SecondsSince(sent_) >= wait) SendLifeSign();
      break;
    }
    case Phase::kLingering:
      if (SecondsSince(entered_) > kLingerSeconds) Lost();
      break;
    case Phase::kFinishing:
    case Phase::kDead:
      break;
  }
}

void Connection::SendLifeSign() {
  if (streaming_) {
    Write(life_sign_);
  } else if (client_ended_ && minor_version_ > 0) {
    // Answers nothing, which any client must bear; one that is gone resets the connection.
    Append(kContinue);
  }
}

void Connection::TurnAway() { Refuse({503, "the server has too many connections", {}}); }

void Connection::Drain() {
  draining_ = true;
  if (phase_ != Phase::kReading) return;
  if (stage_ == RequestReader::Stage::kNothing) return Enter(Phase::kLingering);
  Refuse({503, "the server is shutting down", reader_.head().request.path});
}

void Connection::ReadRequests() {
  const RequestReader::State state = reader_.Read(in_);
  if (reader_.stage() != stage_) {
    stage_ = reader_.stage();
    entered_ = environment_.now();
  }
  if (state == RequestReader::State::kFault) return Refuse(reader_.fault());
  const RequestHead& arrived = reader_.head();
  if (state == RequestReader::State::kMore) {
    if (client_ended_) return Lost();
    if (stage_ == RequestReader::Stage::kBody && arrived.expects_continue && !told_to_continue_ &&
        in_.empty() && arrived.request.body.empty()) {
      told_to_continue_ = true;
      Append(kContinue);
    }
    return;
  }
  RequestHead head = reader_.Take();
  head.request.peer = peer_;
  first_request_ = false;
  told_to_continue_ = false;
  minor_version_ = head.minor_version;
  keep_alive_ = head.keep_alive && !draining_;
  head_only_ = head.request.method == "HEAD";
  if (head_only_) head.request.method = "GET";
  path_ = head.request.path;
  if (!keep_alive_) in_.clear();
  turn_ = std::make_shared<Turn>();
  turn_->connection = this;
  Enter(Phase::kAnswering);
  environment_.serve(std::move(head.request), turn_);
}

HttpResponse Connection::FaultAnswer(int status, std::string_view message,
                                     std::string_view path) const {
  try {
    return environment_.fault_body(status, message, path);
  } catch (const std::exception&) {
    // The path may be any bytes; that they cannot be told must not end the server.
    return {.status = status, .body = std::string(message), .content_type = "text/plain"};
  }
}

void Connection::Refuse(const HttpFault& fault) {
  keep_alive_ = false;
  head_only_ = reader_.head().request.method == "HEAD";
  in_.clear();
  AppendWhole(FaultAnswer(fault.status, fault.message, fault.path));
  Enter(Phase::kFinishing);
}

void Connection::Append(std::string_view bytes) {
  if (outgoing().empty()) sent_ = environment_.now();
  out_.append(bytes);
  changed_();
}

void Connection::AppendHead(int status, std::string_view content_type, const HttpHeaders& headers,
                            std::string_view framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nServer: cachalot\r\nDate: {}\r\n", status,
                                 HttpStatusText(status), HttpDate(std::time(nullptr)));
  if (status != 204) AppendField(head, "Content-Type", content_type);
  for (const auto& [name, value] : headers) AppendField(head, name, value);
  head.append(framing);
  if (draining_) keep_alive_ = false;
  if (!keep_alive_) head.append("Connection: close\r\n");
  if (keep_alive_ && minor_version_ == 0) head.append("Connection: keep-alive\r\n");
  head.append("\r\n");
  Append(head);
}

void Connection::AppendWhole(const HttpResponse& response) {
  const bool may_have_body = response.status != 204 && response.status != 304;
  AppendHead(response.status, response.content_type, response.headers,
             may_have_body ? fmt::format("Content-Length: {}\r\n", response.body.size()) : "");
  if (may_have_body && !head_only_) Append(response.body);
}

void Connection::Respond(HttpResponse response) {
  if (streaming_) return;
  AppendWhole(response);
  CompleteAnswer();
}

void Connection::BeginStream(HttpStream stream) {
  if (streaming_) return;
  streaming_ = true;
  life_sign_ = std::move(stream.life_sign);
  if (minor_version_ == 0) keep_alive_ = false;
  AppendHead(200, stream.content_type, stream.headers,
             minor_version_ > 0 ? "Transfer-Encoding: chunked\r\n" : "");
}

void Connection::Write(std::string_view piece) {
  if (!streaming_ || head_only_ || piece.empty()) return;
  if (minor_version_ > 0) {
    Append(fmt::format("{:x}\r\n", piece.size()));
    Append(piece);
    Append("\r\n");
  } else {
    Append(piece);
  }
  if (static_cast<int64_t>(outgoing().size()) > environment_.options.max_unsent_bytes) Lost();
}

void Connection::Finish() {
  if (!streaming_) return;
  if (minor_version_ > 0 && !head_only_) Append(kLastChunk);
  CompleteAnswer();
}

void Connection::Abandon() {
  if (streaming_) {
    keep_alive_ = false;  // the end that is missing tells the client
  } else {
    AppendWhole(FaultAnswer(500, "the server failed to answer", path_));
  }
  CompleteAnswer();
}

void Connection::CompleteAnswer() {
  streaming_ = false;
  life_sign_.clear();
  const auto turn = std::exchange(turn_, nullptr);
  turn->over = true;
  turn->connection = nullptr;
  turn->closed = nullptr;
  Enter(Phase::kFinishing);
  if (outgoing().empty()) AfterAnswer();
}

void Connection::AfterAnswer() {
  if (keep_alive_ && !draining_) {
    stage_ = RequestReader::Stage::kNothing;
    Enter(Phase::kReading);
    ReadRequests();
  } else if (client_ended_) {
    Lost();
  } else {
    Enter(Phase::kLingering);
  }
}

}  // namespace cachalot
