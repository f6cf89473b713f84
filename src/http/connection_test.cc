#include "http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cachalot {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view kOldGet = "GET /a HTTP/1.0\r\n\r\n";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// A connection without a socket, at a time that the test sets.
class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    environment_.options = {.max_header_bytes = 1000,
                            .max_body_bytes = 100,
                            .max_unsent_bytes = 1000,
                            .head_seconds = 20,
                            .body_seconds = 30,
                            .idle_seconds = 40,
                            .write_seconds = 50,
                            .life_sign_seconds = 10};
    environment_.fault_body = [](int status, std::string_view message, std::string_view path) {
      return HttpResponse{.status = status, .body = fmt::format("{}: {}", path, message)};
    };
    environment_.now = [this] { return now_; };
    environment_.serve = [this](HttpRequest request, std::shared_ptr<Turn> turn) {
      requests_.push_back(std::move(request));
      turns_.push_back(std::move(turn));
      turns_.back()->closed = [this] { ++closed_; };
    };
    connection_.emplace(environment_, "1.2.3.4:5", [] {});
  }

  // What goes out, as if the client read all of it.
  std::string Out() {
    std::string out(connection_->outgoing());
    if (!out.empty()) connection_->Sent(out.size());
    return out;
  }
  void Pass(double seconds) {
    now_ += std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
    connection_->Tick();
  }
  void Ask(std::string_view bytes) { connection_->Received(bytes); }
  void AnswerWith(const std::string& body) { connection_->Respond({.body = body}); }

  std::chrono::steady_clock::time_point now_;
  HttpEnvironment environment_;
  std::vector<HttpRequest> requests_;
  std::vector<std::shared_ptr<Turn>> turns_;
  int closed_ = 0;
  std::optional<Connection> connection_;
};

TEST_F(ConnectionTest, AnswersWithLengthTypeAndDate) {
  Ask(kGet);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].path, "/a");
  EXPECT_EQ(requests_[0].peer, "1.2.3.4:5");
  connection_->Respond(
      {.status = 429, .body = "{}", .headers = {{"Retry-After", "1\r\nSet-Cookie: x"}}});
  const std::string out = Out();
  EXPECT_THAT(out, StartsWith("HTTP/1.1 429 Too Many Requests\r\nServer: cachalot\r\nDate: "));
  EXPECT_THAT(out, HasSubstr(" GMT\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(out, HasSubstr("\r\nRetry-After: 1  Set-Cookie: x\r\n"));
  EXPECT_THAT(out, EndsWith("\r\nContent-Length: 2\r\n\r\n{}"));
  EXPECT_TRUE(turns_[0]->over);
  EXPECT_EQ(closed_, 0);
}

TEST_F(ConnectionTest, AnswersPipelinedRequestsInTheirOrder) {
  Ask(std::string(kGet) + "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /c HT");
  ASSERT_EQ(requests_.size(), 1u);
  AnswerWith("first");
  // The next one waits until the answer has gone.
  EXPECT_EQ(requests_.size(), 1u);
  EXPECT_THAT(Out(), EndsWith("\r\n\r\nfirst"));
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(requests_[1].body, "abc");
  connection_->BeginStream({});
  connection_->Write("second");
  connection_->Finish();
  EXPECT_THAT(Out(), EndsWith("\r\n\r\n6\r\nsecond\r\n0\r\n\r\n"));
  EXPECT_EQ(requests_.size(), 2u);
  Ask("TP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_EQ(requests_.size(), 3u);
  EXPECT_EQ(requests_[2].path, "/c");
}

TEST_F(ConnectionTest, ReadsOnlySoFarAheadOfItsAnswers) {
  Ask(kGet);
  EXPECT_TRUE(connection_->wants_bytes());
  while (connection_->wants_bytes()) Ask(kGet);
  const size_t ahead = 1000 / kGet.size() + 1;
  for (size_t i = 0; i < ahead; ++i) {
    AnswerWith("x");
    EXPECT_EQ(requests_.size(), i + 1);
    Out();
    EXPECT_TRUE(connection_->wants_bytes());
  }
  AnswerWith("x");
  Out();
  EXPECT_EQ(requests_.size(), ahead + 1);
}

TEST_F(ConnectionTest, ClosesWhereTheClientWantsIt) {
  Ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /smuggled");
  AnswerWith("x");
  EXPECT_THAT(Out(), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_TRUE(connection_->sent_all());
  Ask(kGet);
  EXPECT_EQ(requests_.size(), 1u);
  connection_->ReceivedEnd();
  EXPECT_TRUE(connection_->dead());
}

TEST_F(ConnectionTest, KeepsConnectionsOfHttp10OnlyWhereAsked) {
  Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  AnswerWith("x");
  EXPECT_THAT(Out(), HasSubstr("\r\nConnection: keep-alive\r\n"));
  EXPECT_FALSE(connection_->sent_all());
  Ask(kOldGet);
  AnswerWith("x");
  EXPECT_THAT(Out(), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_TRUE(connection_->sent_all());
}

TEST_F(ConnectionTest, StreamsInChunksAndToOldClientsUntilTheEnd) {
  Ask(kGet);
  connection_->Write("before the head");
  connection_->BeginStream({.headers = {{"X-Id", "7"}}});
  const std::string head = Out();
  EXPECT_THAT(head, HasSubstr("\r\nContent-Type: text/event-stream\r\nX-Id: 7\r\n"));
  EXPECT_THAT(head, EndsWith("\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
  connection_->Write("abc");
  connection_->Write("");
  connection_->Write(std::string(17, 'x'));
  EXPECT_EQ(Out(), "3\r\nabc\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n");
  connection_->Respond({});  // too late
  connection_->Finish();
  EXPECT_EQ(Out(), "0\r\n\r\n");

  Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  connection_->BeginStream({});
  const std::string old_head = Out();
  EXPECT_THAT(old_head, EndsWith("\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(old_head, Not(HasSubstr("Transfer-Encoding")));
  connection_->Write("abc");
  EXPECT_EQ(Out(), "abc");
  connection_->Finish();
  EXPECT_TRUE(connection_->sent_all());
}

TEST_F(ConnectionTest, AnswersHeadAsGetWithoutTheBody) {
  Ask("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(requests_[0].method, "GET");
  AnswerWith("hello");
  EXPECT_THAT(Out(), EndsWith("\r\nContent-Length: 5\r\n\r\n"));
  Ask("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
  connection_->BeginStream({});
  connection_->Write("hello");
  connection_->Finish();
  EXPECT_THAT(Out(), EndsWith("\r\nTransfer-Encoding: chunked\r\n\r\n"));
  Ask(kGet);
  connection_->Respond({.status = 204, .body = "none"});
  const std::string out = Out();
  EXPECT_THAT(out, EndsWith("\r\n\r\n"));
  EXPECT_THAT(out, Not(HasSubstr("Content-")));
}

TEST_F(ConnectionTest, TellsAClientThatWaitsWithItsBodyToGoOn) {
  const std::string head = "POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
  Ask(head + "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(Out(), kContinue);
  Ask("a");
  EXPECT_EQ(Out(), "");
  Ask("bc");
  ASSERT_EQ(requests_.size(), 1u);
  AnswerWith("x");
  Out();
  Ask(head + "Content-Length: 3\r\n\r\nabc");  // it did not wait
  EXPECT_EQ(Out(), "");
  AnswerWith("x");
  Out();
  Ask(head + "Content-Length: 101\r\n\r\n");
  EXPECT_THAT(Out(), StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(connection_->sent_all());
}

TEST_F(ConnectionTest, RefusesInTheDialectOfThePath) {
  Ask("POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n");
  const std::string out = Out();
  EXPECT_THAT(out, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(out, EndsWith("\r\n\r\n/v1/x: the request's body is larger than the server takes"));
  EXPECT_TRUE(connection_->sent_all());
  // What follows is read, so that the client gets to read, but not looked at.
  EXPECT_TRUE(connection_->wants_bytes());
  Ask(kGet);
  EXPECT_THAT(requests_, IsEmpty());
  Pass(3);
  EXPECT_TRUE(connection_->dead());
}

TEST_F(ConnectionTest, RefusesWhatTakesTooLong) {
  Ask("GET / HT");
  Pass(19);
  Ask("TP");
  Pass(2);
  EXPECT_THAT(Out(), StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(connection_->sent_all());

  connection_.emplace(environment_, "", [] {});
  Ask("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
  Pass(29);
  Ask("a");
  EXPECT_EQ(Out(), "");
  Pass(2);
  EXPECT_THAT(Out(), testing::AllOf(StartsWith("HTTP/1.1 408 "), HasSubstr("\r\n\r\n/b: ")));
}

TEST_F(ConnectionTest, ClosesIdleConnectionsWithoutAWord) {
  Pass(19);
  EXPECT_FALSE(connection_->sent_all());
  Pass(2);
  EXPECT_TRUE(connection_->sent_all());
  EXPECT_EQ(Out(), "");

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  Pass(1000);  // the answer takes its time
  AnswerWith("x");
  Out();
  Pass(39);
  EXPECT_FALSE(connection_->sent_all());
  Pass(2);
  EXPECT_TRUE(connection_->sent_all());
  EXPECT_EQ(Out(), "");
}

TEST_F(ConnectionTest, ClosesClientsThatTakeNothing) {
  Ask(kGet);
  connection_->BeginStream({});
  connection_->Write("abc");
  Pass(49);
  connection_->Sent(1);
  Pass(49);
  connection_->Write("abc");  // no reason to wait longer
  EXPECT_FALSE(connection_->dead());
  Pass(2);
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 1);

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  AnswerWith(std::string(100, 'x'));
  Pass(51);
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 1);  // that answer was complete
}

TEST_F(ConnectionTest, BoundsWhatWaitsForAClient) {
  Ask(kGet);
  AnswerWith(std::string(5000, 'x'));  // what is there as a whole may wait
  EXPECT_EQ(Out().substr(0, 12), "HTTP/1.1 200");
  Ask(kGet);
  connection_->BeginStream({});
  Out();
  for (int i = 0; i < 10; ++i) {
    connection_->Write(std::string(900, 'x'));
    Out();
  }
  connection_->Write(std::string(900, 'x'));
  EXPECT_FALSE(connection_->dead());
  connection_->Write(std::string(100, 'x'));
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 1);
}

TEST_F(ConnectionTest, SendsLifeSignsWhereNothingElseWasSent) {
  Ask(kGet);
  Pass(100);
  EXPECT_EQ(Out(), "");  // there is no stream yet
  connection_->BeginStream({.life_sign = ": alive\n\n"});
  Out();
  Pass(9);
  EXPECT_EQ(Out(), "");
  Pass(1);
  EXPECT_EQ(Out(), "9\r\n: alive\n\n\r\n");
  Pass(9);
  connection_->Write("x");
  EXPECT_EQ(Out(), "1\r\nx\r\n");
  Pass(9);
  EXPECT_EQ(Out(), "");
  Pass(1);
  EXPECT_NE(connection_->outgoing(), "");
  const size_t waiting = connection_->outgoing().size();
  Pass(11);  // one that is not read has no company
  EXPECT_EQ(connection_->outgoing().size(), waiting);
  Out();
  connection_->Finish();
  Out();
  Ask(kGet);
  connection_->BeginStream({});
  Out();
  Pass(100);
  EXPECT_EQ(Out(), "");
}

TEST_F(ConnectionTest, AnswersAClientThatHasFinishedSending) {
  Ask(std::string(kGet) + std::string(kGet));
  connection_->ReceivedEnd();
  EXPECT_FALSE(connection_->wants_bytes());
  AnswerWith("first");
  EXPECT_THAT(Out(), EndsWith("\r\n\r\nfirst"));
  connection_->BeginStream({.life_sign = "alive"});
  Out();
  connection_->Write("x");
  EXPECT_EQ(Out(), "1\r\nx\r\n");
  Pass(1);
  EXPECT_EQ(Out(), "5\r\nalive\r\n");
  connection_->Finish();
  EXPECT_FALSE(connection_->dead());
  EXPECT_EQ(Out(), "0\r\n\r\n");
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 0);
}

TEST_F(ConnectionTest, AsksAClientThatHasFinishedSendingWhetherItListens) {
  Ask(kGet);
  connection_->ReceivedEnd();
  Pass(0.5);
  EXPECT_EQ(Out(), "");
  Pass(0.5);
  EXPECT_EQ(Out(), kContinue);
  Pass(1);
  EXPECT_EQ(Out(), kContinue);
  AnswerWith("x");
  Out();
  EXPECT_EQ(closed_, 0);

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  Pass(5);
  connection_->ReceivedEnd();
  EXPECT_EQ(connection_->outgoing(), kContinue);
  connection_->Lost();  // which is what such bytes come to where nobody listens
  EXPECT_EQ(closed_, 1);
}

TEST_F(ConnectionTest, TakesTheEndOfAnOldClientForItsGoing) {
  Ask(kOldGet);
  connection_->ReceivedEnd();
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 1);

  connection_.emplace(environment_, "", [] {});
  Ask(kOldGet);
  connection_->BeginStream({});
  connection_->ReceivedEnd();
  connection_->Write("x");
  EXPECT_THAT(Out(), EndsWith("\r\n\r\nx"));
  EXPECT_FALSE(connection_->dead());
}

TEST_F(ConnectionTest, TellsOnceThatAClientWent) {
  connection_->Lost();  // nothing was asked
  connection_.emplace(environment_, "", [] {});
  Ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na");
  connection_->ReceivedEnd();  // an unfinished request
  EXPECT_TRUE(connection_->dead());
  EXPECT_EQ(closed_, 0);

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  connection_->Lost();
  connection_->Lost();
  EXPECT_EQ(closed_, 1);
  EXPECT_TRUE(turns_.back()->client_gone);
  EXPECT_TRUE(turns_.back()->over);
  EXPECT_EQ(turns_.back()->connection, nullptr);

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  connection_->BeginStream({});
  connection_.reset();
  EXPECT_EQ(closed_, 2);
}

TEST_F(ConnectionTest, AnswersForHandlersThatDoNot) {
  Ask(kGet);
  connection_->Abandon();
  EXPECT_THAT(Out(), StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
  Ask(kGet);
  connection_->BeginStream({});
  connection_->Write("x");
  connection_->Abandon();
  EXPECT_THAT(Out(), EndsWith("\r\n\r\n1\r\nx\r\n"));  // without the last chunk
  EXPECT_TRUE(connection_->sent_all());
}

TEST_F(ConnectionTest, RefusesInPlainWordsWhereTheDialectFails) {
  environment_.fault_body = [](int, std::string_view, std::string_view) -> HttpResponse {
    throw std::invalid_argument("not UTF-8");
  };
  Ask("GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(requests_[0].path, "/\xff");
  connection_->Abandon();
  EXPECT_THAT(Out(), testing::AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr("text/plain"),
                                    EndsWith("\r\n\r\nthe server failed to answer")));
}

TEST_F(ConnectionTest, TurnsAwayWithoutLookingAtTheRequest) {
  connection_->TurnAway();
  Ask(kGet);
  EXPECT_THAT(Out(), testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Connection: close")));
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_TRUE(connection_->sent_all());
}

TEST_F(ConnectionTest, DrainsInEveryState) {
  connection_->Drain();  // nothing was asked
  EXPECT_TRUE(connection_->sent_all());

  connection_.emplace(environment_, "", [] {});
  Ask("GET / ");
  connection_->Drain();
  EXPECT_THAT(Out(), StartsWith("HTTP/1.1 503 "));

  connection_.emplace(environment_, "", [] {});
  Ask(std::string(kGet) + std::string(kGet));
  connection_->Drain();
  EXPECT_FALSE(connection_->sent_all());
  AnswerWith("x");
  EXPECT_THAT(Out(), testing::AllOf(HasSubstr("\r\nConnection: close\r\n"), EndsWith("x")));
  EXPECT_TRUE(connection_->sent_all());
  EXPECT_EQ(requests_.size(), 1u);

  connection_.emplace(environment_, "", [] {});
  Ask(kGet);
  connection_->BeginStream({});
  connection_->Drain();
  connection_->Write("x");
  connection_->Finish();
  EXPECT_THAT(Out(), EndsWith("1\r\nx\r\n0\r\n\r\n"));
  EXPECT_TRUE(connection_->sent_all());
  EXPECT_EQ(closed_, 0);
}

}  // namespace
}  // namespace cachalot
