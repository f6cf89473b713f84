// A client for tests that sends bytes as they are and reads answers as they come. It blocks, for half
// a minute at most.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cachalot {

struct RawAnswer {
  int status = 0;    // 0: none came
  std::string head;  // from the status line on, without the empty line
  std::string body;  // chunks joined
  bool whole = false;

  std::string Header(std::string_view name) const {
    const std::string line = fmt::format("\r\n{}: ", name);
    const size_t begin = head.find(line);
    if (begin == std::string::npos) return "";
    const size_t value = begin + line.size();
    return head.substr(value, head.find("\r\n", value) - value);
  }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const timeval half_a_minute = {30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &half_a_minute, sizeof half_a_minute);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &half_a_minute, sizeof half_a_minute);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        received_(std::move(other.received_)) {}
  RawClient& operator=(RawClient&&) = delete;

  bool connected() const { return connected_; }

  // Whether all of it went.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void FinishSending() { shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  // Closes so that the server sees a reset.
  void Reset() {
    const linger at_once = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    Close();
  }

  // One answer. Interim ones (100) are returned like others.
  RawAnswer Read(bool head_only = false) {
    RawAnswer answer;
    if (!ReadUntil("\r\n\r\n")) return answer;
    const size_t end = received_.find("\r\n\r\n");
    answer.head = Take(end + 4).substr(0, end);
    std::from_chars(answer.head.data() + 9, answer.head.data() + 12, answer.status);
    if (head_only || answer.status / 100 == 1 || answer.status == 204) {
      answer.whole = true;
    } else if (answer.Header("Transfer-Encoding") == "chunked") {
      answer.whole = ReadChunks(answer.body);
    } else if (const std::string length = answer.Header("Content-Length"); !length.empty()) {
      answer.whole = ReadBytes(std::stoul(length));
      answer.body = Take(std::min<size_t>(std::stoul(length), received_.size()));
    } else {
      answer.whole = ReadToEnd();
      answer.body = Take(received_.size());
    }
    return answer;
  }
  RawAnswer Ask(std::string_view bytes) {
    Send(bytes);
    return Read();
  }
  // The data of the next chunk of an answer whose head was read; empty: the last one, or none came.
  std::string ReadChunk() {
    if (!ReadUntil("\r\n")) return "";
    const std::string line = Take(received_.find("\r\n") + 2);
    const size_t size = std::stoul(line, nullptr, 16);
    if (!ReadBytes(size + 2)) return "";
    return Take(size + 2).substr(0, size);
  }
  // Whether the server ended, or reset, the connection and sent nothing more before.
  bool AtEnd() { return received_.empty() && !Receive(); }
  // Whether the end came in order, after what is left.
  bool ReadToEnd() {
    while (Receive()) {
    }
    return ended_;
  }
  const std::string& received() const { return received_; }

 private:
  bool Receive() {
    char buffer[16 << 10];
    const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
    if (count > 0) received_.append(buffer, static_cast<size_t>(count));
    ended_ |= count == 0;
    return count > 0;
  }
  bool ReadUntil(std::string_view end) {
    while (received_.find(end) == std::string::npos) {
      if (!Receive()) return false;
    }
    return true;
  }
  bool ReadBytes(size_t count) {
    while (received_.size() < count) {
      if (!Receive()) return false;
    }
    return true;
  }
  bool ReadChunks(std::string& body) {
    while (true) {
      if (!ReadUntil("\r\n")) return false;
      const size_t size = std::stoul(received_.substr(0, received_.find("\r\n")), nullptr, 16);
      const std::string chunk = ReadChunk();
      if (chunk.size() != size) return false;
      if (size == 0) return true;
      body += chunk;
    }
  }
  std::string Take(size_t count) {
    std::string taken = received_.substr(0, count);
    received_.erase(0, count);
    return taken;
  }

  int socket_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

}  // namespace cachalot
