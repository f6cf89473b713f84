// The server over sockets (docs/contracts/server.md, H1 to H8). What needs no socket is tested beside
// request_reader.h and connection.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/http_server_scene.h"

namespace cachalot {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(HttpServerTest, AnswersOneRequestAfterAnother) {
  StartEcho();
  RawClient client = Connect();
  for (int i = 0; i < 3; ++i) {
    const RawAnswer answer = client.Ask(Get(fmt::format("/{}", i)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, fmt::format("GET /{} ", i));
    EXPECT_EQ(answer.Header("Server"), "cachalot");
    EXPECT_EQ(answer.Header("Connection"), "");
    EXPECT_THAT(answer.Header("Date"), EndsWith(" GMT"));
  }
  const RawAnswer last = client.Ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(last.Header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(server_->stats().accepted, 1);
  client.Close();
  AwaitConnections(0);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  StartEcho();
  RawClient client = Connect();
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += Get(fmt::format("/{}", i));
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.Read().body, fmt::format("GET /{} ", i));
}

TEST_F(HttpServerTest, ReadsBodiesHoweverTheyCome) {
  StartEcho();
  RawClient client = Connect();
  for (const char c : std::string_view("POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"
                                       "\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n")) {
    ASSERT_TRUE(client.Send({&c, 1}));
  }
  EXPECT_EQ(client.Read().body, "POST /b abcde");
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(client.Send(fmt::format("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}",
                                      large.size(), large)));
  EXPECT_EQ(client.Read().body, "POST /b " + large);
}

TEST_F(HttpServerTest, AnswersHeadAndExpectations) {
  StartEcho();
  RawClient client = Connect();
  ASSERT_TRUE(client.Send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(client.Read(true).Header("Content-Length"), "7");
  const std::string post = "POST /b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
  EXPECT_EQ(client.Ask(post + "Content-Length: 3\r\n\r\n").status, 100);
  EXPECT_EQ(client.Ask("abc").body, "POST /b abc");
  EXPECT_EQ(client.Ask(post + "Content-Length: 99999999999\r\n\r\n").status, 413);
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, LetsAClientReadThatItsBodyIsTooLarge) {
  StartEcho({.max_body_bytes = 1000});
  RawClient client = Connect();
  const std::string body(4 << 20, 'x');
  const std::string head = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n";
  EXPECT_TRUE(client.Send(head + body));  // all of it, before it looks at the answer
  const RawAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "/b: the request's body is larger than the server takes");
  EXPECT_EQ(answer.Header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, RefusesAndClosesWhatIsNoRequest) {
  StartEcho({.max_header_bytes = 1000});
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
           {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            400},
           {"GET /\r\n", 400},
           {std::string("\x16\x03\x01\x00\x05", 5), 400},
           {"\xff\xfe\xfd", 400},
           {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1000, 'x'), 431},
       }) {
    RawClient client = Connect();
    const RawAnswer answer = client.Ask(bytes + Get("/smuggled"));
    EXPECT_EQ(answer.status, status) << testing::PrintToString(bytes);
    EXPECT_EQ(answer.Header("Connection"), "close");
    EXPECT_TRUE(client.AtEnd()) << testing::PrintToString(bytes);
  }
}

TEST_F(HttpServerTest, OutlivesAnyBytes) {
  StartEcho();
  std::mt19937 random(2);
  const std::string request = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  for (int i = 0; i < 100; ++i) {
    std::string bytes = request;
    for (int mutation = 0; mutation < 3; ++mutation) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    RawClient client = Connect();
    client.Send(bytes);
    client.FinishSending();
    client.ReadToEnd();
  }
  EXPECT_EQ(Connect().Ask(request).body, "POST /b abc");
}

TEST_F(HttpServerTest, ClosesWhatIsTooSlow) {
  StartEcho({.head_seconds = 0.1, .body_seconds = 0.1, .idle_seconds = 0.1});
  for (const char* part :
       {"GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na"}) {
    // Where this thread is slower than that, it finds the connection closed without a word.
    RawAnswer answer;
    for (int i = 0; i < 100 && answer.status == 0; ++i) {
      RawClient client = Connect();
      answer = client.Ask(part);
      EXPECT_TRUE(client.AtEnd());
    }
    EXPECT_EQ(answer.status, 408);
    EXPECT_EQ(answer.Header("Connection"), "close");
  }
  RawClient client = Connect();
  client.Send(kGet);
  while (client.Read().status != 0) {
  }
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, TurnsAwayConnectionsAboveTheBound) {
  Start({.max_connections = 2});
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(Connect());
    clients.back().Send(kGet);
  }
  const auto first = TakeExchange();
  const auto second = TakeExchange();
  RawClient third = Connect();
  const RawAnswer answer = third.Ask(kGet);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.Header("Connection"), "close");
  EXPECT_TRUE(third.AtEnd());
  third.Close();
  EXPECT_EQ(server_->stats().turned_away, 1);
  AwaitConnections(2);
  clients.back().Reset();
  AwaitConnections(1);
  RawClient fourth = Connect();
  fourth.Send(kGet);
  TakeExchange()->Respond({.body = "x"});
  EXPECT_EQ(fourth.Read().body, "x");
}

TEST_F(HttpServerTest, AnswersForHandlersThatThrowOrForget) {
  StartWith({}, [](const ExchangePtr& exchange) {
    const std::string& path = exchange->request().path;
    if (path == "/late") exchange->BeginStream({});
    if (path == "/odd") throw 1;
    if (path != "/forget") throw std::runtime_error("it hurts");
  });
  RawClient client = Connect();
  for (const char* path : {"/throw", "/odd", "/forget"}) {
    const RawAnswer answer = client.Ask(Get(path));
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.body, fmt::format("{}: the server failed to answer", path));
  }
  const RawAnswer late = client.Ask(Get("/late"));
  EXPECT_EQ(late.status, 200);
  EXPECT_FALSE(late.whole);
}

TEST_F(HttpServerTest, SendsTheHeadOfAStreamAndSignsOfLifeBeforeItsPieces) {
  Start({.life_sign_seconds = 0.02});
  RawClient client = Connect();
  client.Send(kGet);
  const auto exchange = TakeExchange();
  exchange->BeginStream({.life_sign = ": alive\n\n"});
  EXPECT_EQ(client.Read(true).Header("Content-Type"), "text/event-stream");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ReadChunk(), ": alive\n\n");
  exchange->Write("x");
  exchange->Finish();
  std::string chunk = ": alive\n\n";
  while (chunk == ": alive\n\n") chunk = client.ReadChunk();
  EXPECT_EQ(chunk, "x");
  EXPECT_EQ(client.ReadChunk(), "");
  client.Send(kGet);
  TakeExchange()->Respond({.body = "next"});
  EXPECT_EQ(client.Read().body, "next");
}

TEST_F(HttpServerTest, SendsPiecesOfAThousandStreamsInOrder) {
  Start({.workers = 1});
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);  // as the server has raised it
  const int streams = static_cast<int>(std::min<rlim_t>(1000, (files.rlim_cur - 100) / 2));
  constexpr int kPieces = 20;
  std::vector<RawClient> clients;
  std::vector<ExchangePtr> exchanges;
  for (int i = 0; i < streams; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back().Send(Get(fmt::format("/{}", i))));
  }
  for (int i = 0; i < streams; ++i) exchanges.push_back(TakeExchange());
  std::thread writer([&] {
    for (const auto& exchange : exchanges) exchange->BeginStream({});
    for (int piece = 0; piece < kPieces; ++piece) {
      for (const auto& exchange : exchanges) {
        exchange->Write(fmt::format("{}:{} ", exchange->request().path, piece));
      }
    }
    for (const auto& exchange : exchanges) exchange->Finish();
  });
  for (int i = 0; i < streams; ++i) {
    std::string wanted;
    for (int piece = 0; piece < kPieces; ++piece) wanted += fmt::format("/{}:{} ", i, piece);
    const RawAnswer answer = clients[static_cast<size_t>(i)].Read();
    ASSERT_TRUE(answer.whole);
    ASSERT_EQ(answer.body, wanted);
  }
  writer.join();
  EXPECT_EQ(closed_.size(), 0u);
}

TEST_F(HttpServerTest, LetsASlowReaderHoldUpNobody) {
  Start({.max_unsent_bytes = 1 << 20});
  RawClient slow(server_->port(), 4096);
  slow.Send(kGet);
  const auto slow_exchange = TakeExchange();
  RawClient quick = Connect();
  quick.Send(kGet);
  const auto quick_exchange = TakeExchange();
  slow_exchange->BeginStream({});
  quick_exchange->BeginStream({});
  EXPECT_EQ(quick.Read(true).status, 200);
  const std::string piece(100 << 10, 'x');
  size_t pieces = 0;
  for (; pieces < 1000 && closed_.size() == 0; ++pieces) {
    slow_exchange->Write(piece);
    quick_exchange->Write("y");
    EXPECT_EQ(quick.ReadChunk(), "y");
  }
  EXPECT_LT(pieces, 1000u);
  EXPECT_GE(pieces, 10u);
  AwaitConnections(1);
  quick_exchange->Finish();
  EXPECT_EQ(quick.ReadChunk(), "");
  EXPECT_EQ(closed_.size(), 1u);
}

TEST_F(HttpServerTest, ClosesAReaderThatTakesNothing) {
  Start({.max_unsent_bytes = 64 << 20, .write_seconds = 0.1});
  RawClient slow(server_->port(), 4096);
  slow.Send(kGet);
  const auto exchange = TakeExchange();
  exchange->BeginStream({});
  exchange->Write(std::string(32 << 20, 'x'));
  EXPECT_TRUE(closed_.Take());
  AwaitConnections(0);
  EXPECT_EQ(closed_.size(), 0u);
}

TEST_F(HttpServerTest, NoticesClientsThatGoInEveryState) {
  Start({.life_sign_seconds = 0.05, .workers = 1});
  for (const bool reset : {false, true}) {
    const auto leave = [&](RawClient& client) { reset ? client.Reset() : client.Close(); };
    // In the head, in the body.
    for (const char* part :
         {"GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na"}) {
      RawClient client = Connect();
      client.Send(part);
      AwaitConnections(1);
      leave(client);
      AwaitConnections(0);
    }
    // Before the answer's head; with OnClose set before and after.
    RawClient waiting = Connect();
    waiting.Send(kGet);
    const auto exchange = TakeExchange();
    leave(waiting);
    EXPECT_TRUE(closed_.Take());
    exchange->OnClose([this] { closed_.Put(true); });
    EXPECT_TRUE(closed_.Take());
    AwaitConnections(0);
    // Between pieces of a stream.
    RawClient streaming = Connect();
    streaming.Send(kGet);
    const auto stream = TakeExchange();
    stream->BeginStream({.life_sign = ": alive\n\n"});
    EXPECT_EQ(streaming.Read(true).status, 200);
    leave(streaming);
    EXPECT_TRUE(closed_.Take());
    AwaitConnections(0);
    for (const auto& gone : {exchange, stream}) {
      gone->BeginStream({});
      gone->Write("x");
      gone->Finish();
      gone->Respond({});
      Settle(*gone);
    }
    EXPECT_EQ(closed_.size(), 0u);  // once each
  }
}

TEST_F(HttpServerTest, RunsNoHandlerForAClientThatHasGone) {
  std::promise<void> release;
  std::atomic<int> handled = 0;
  StartWith({.workers = 1}, [&, released = release.get_future().share()](const ExchangePtr& e) {
    ++handled;
    released.wait();
    e->Respond({.body = "x"});
  });
  RawClient first = Connect();
  first.Send(kGet);
  while (handled == 0) std::this_thread::yield();
  RawClient second = Connect();
  second.Send(kGet);
  AwaitConnections(2);
  second.Reset();
  AwaitConnections(1);
  release.set_value();
  EXPECT_EQ(first.Read().body, "x");
  EXPECT_EQ(first.Ask(kGet).body, "x");
  EXPECT_EQ(handled, 2);
}

TEST_F(HttpServerTest, AnswersAClientThatHasFinishedSending) {
  Start({.life_sign_seconds = 0.02});
  RawClient whole = Connect();
  whole.Send(kGet);
  whole.FinishSending();
  const auto exchange = TakeExchange();
  RawAnswer answer = whole.Read();
  EXPECT_EQ(answer.status, 100);  // whether it still listens
  exchange->Respond({.body = "x"});
  while (answer.status == 100) answer = whole.Read();
  EXPECT_EQ(answer.body, "x");
  EXPECT_TRUE(whole.AtEnd());

  RawClient streaming = Connect();
  streaming.Send(kGet);
  const auto stream = TakeExchange();
  stream->BeginStream({.life_sign = "alive"});
  EXPECT_EQ(streaming.Read(true).status, 200);
  streaming.FinishSending();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(streaming.ReadChunk(), "alive");
  stream->Write("x");
  stream->Finish();
  std::string chunk = "alive";
  while (chunk == "alive") chunk = streaming.ReadChunk();
  EXPECT_EQ(chunk, "x");
  EXPECT_EQ(streaming.ReadChunk(), "");
  EXPECT_TRUE(streaming.AtEnd());
  EXPECT_EQ(closed_.size(), 0u);
}

TEST_F(HttpServerTest, DoesPostedWorkInOrderOnOneThread) {
  Start();
  RawClient client = Connect();
  client.Send(kGet);
  const auto exchange = TakeExchange();
  std::vector<int> done;
  std::thread::id thread;
  for (int i = 0; i < 1000; ++i) {
    exchange->Post([&, i] {
      if (i == 0) thread = std::this_thread::get_id();
      EXPECT_EQ(thread, std::this_thread::get_id());
      done.push_back(i);
    });
  }
  Settle(*exchange);
  ASSERT_EQ(done.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_NE(thread, std::this_thread::get_id());
  client.Close();
  Settle(*exchange);  // with a client or without
}

TEST_F(HttpServerTest, DrainsWithLiveStreams) {
  Start();
  RawClient idle = Connect();
  RawClient streaming = Connect();
  RawClient waiting = Connect();
  streaming.Send(kGet);
  const auto stream = TakeExchange();
  stream->BeginStream({});
  EXPECT_EQ(streaming.Read(true).status, 200);
  waiting.Send(kGet);
  const auto wait = TakeExchange();
  AwaitConnections(3);
  server_->StopAccepting();
  server_->StopAccepting();
  EXPECT_TRUE(idle.AtEnd());
  Settle(*wait);
  EXPECT_FALSE(Connect().connected());
  stream->Write("x");
  EXPECT_EQ(streaming.ReadChunk(), "x");
  stream->Finish();
  EXPECT_EQ(streaming.ReadChunk(), "");
  EXPECT_TRUE(streaming.AtEnd());
  wait->Respond({.body = "y"});
  const RawAnswer answer = waiting.Read();
  EXPECT_EQ(answer.body, "y");
  EXPECT_EQ(answer.Header("Connection"), "close");
  EXPECT_TRUE(waiting.AtEnd());
  EXPECT_EQ(closed_.size(), 0u);
}

TEST_F(HttpServerTest, StopsWithLiveStreams) {
  Start();
  std::vector<RawClient> clients;
  std::vector<ExchangePtr> exchanges;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(Connect());
    clients.back().Send(kGet);
    exchanges.push_back(TakeExchange());
    exchanges.back()->BeginStream({});
  }
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) {
      for (const auto& exchange : exchanges) exchange->Write("x");
    }
  });
  EXPECT_EQ(clients[0].Read(true).status, 200);
  server_->Stop();
  server_->Stop();
  EXPECT_EQ(closed_.size(), exchanges.size());
  EXPECT_EQ(server_->stats().connections, 0);
  server_.reset();
  stop = true;
  writer.join();
  for (const auto& exchange : exchanges) {
    exchange->Finish();
    exchange->Post([] { ADD_FAILURE() << "there is no thread to do this"; });
  }
  exchanges.clear();
}

TEST_F(HttpServerTest, StopsAtAnyMoment) {
  for (int i = 0; i < 60; ++i) {
    StartEcho({.life_sign_seconds = 0.001});
    RawClient client = Connect();
    client.Send(kGet);
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
    server_.reset();
    client.ReadToEnd();
  }
}

TEST_F(HttpServerTest, AcceptsAgainOnceThereAreFiles) {
  StartEcho({.life_sign_seconds = 0.02});
  EXPECT_EQ(Connect().Ask(kGet).status, 200);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  RawClient client = Connect();  // its socket is there before the last file is taken
  EXPECT_EQ(client.Ask(kGet).status, 200);
  std::vector<int> taken;
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int file = dup(0); file >= 0; file = dup(0)) taken.push_back(file);
  ASSERT_FALSE(taken.empty());
  close(taken.back());
  taken.pop_back();
  RawClient waiting = Connect();  // takes the one that is left
  EXPECT_TRUE(waiting.connected());
  EXPECT_EQ(client.Ask(kGet).status, 200);
  for (const int file : taken) close(file);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(waiting.Ask(kGet).status, 200);
}

TEST_F(HttpServerTest, ListensWhereItIsTold) {
  for (const char* address : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    StartEcho({.address = address});
    EXPECT_EQ(Connect().Ask(kGet).status, 200) << address;
  }
  // Where the machine has no IPv6, that is what is said.
  const auto v6 = HttpServer::Start(
      {.address = "::1"}, [](ExchangePtr) {}, FaultBody);
  if (v6) {
    EXPECT_NE((*v6)->port(), 0);
  } else {
    EXPECT_THAT(v6.error().message, StartsWith("::1 port 0: "));
  }
  StartEcho();
  const auto taken = HttpServer::Start(
      {.port = server_->port()}, [](ExchangePtr) {}, FaultBody);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message,
              HasSubstr(fmt::format("127.0.0.1 port {}: Address already in use", server_->port())));
  const auto foreign = HttpServer::Start(
      {.address = "192.0.2.1"}, [](ExchangePtr) {}, FaultBody);
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, StartsWith("192.0.2.1 port 0: "));
}

}  // namespace
}  // namespace cachalot
