#include "http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace cachalot {
namespace {

using testing::ElementsAre;

constexpr int64_t kMaxHeader = 1024;
constexpr int64_t kMaxBody = 100;

struct Reading {
  std::vector<std::string> requests;  // method, path, query, headers, body
  int fault = 0;                      // 0: none
  RequestReader::Stage stage = RequestReader::Stage::kNothing;
  bool operator==(const Reading&) const = default;
};

std::string Text(const HttpRequest& request) {
  std::string text = fmt::format("{} {} ?{}", request.method, request.path, request.query);
  for (const auto& [name, value] : request.headers) text += fmt::format(" [{}={}]", name, value);
  return text + " " + request.body;
}

Reading ReadPieces(const std::vector<std::string_view>& pieces) {
  RequestReader reader(kMaxHeader, kMaxBody);
  Reading reading;
  std::string buffer;
  for (const std::string_view piece : pieces) {
    buffer += piece;
    auto state = reader.Read(buffer);
    for (; state == RequestReader::State::kRequest; state = reader.Read(buffer)) {
      reading.requests.push_back(Text(reader.Take().request));
    }
    if (state == RequestReader::State::kFault) {
      reading.fault = reader.fault().status;
      break;
    }
  }
  if (reading.fault == 0) reading.stage = reader.stage();
  return reading;
}

Reading ReadWhole(std::string_view bytes) { return ReadPieces({bytes}); }

Reading ReadByByte(std::string_view bytes) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < bytes.size(); ++i) pieces.push_back(bytes.substr(i, 1));
  return ReadPieces(pieces);
}

using std::string_literals::operator""s;
using std::string_view_literals::operator""sv;

constexpr std::string_view kThreeRequests =
    "POST /v1/chat%20x?a=%20 HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\nhello"
    "\r\n"
    "POST /c HTTP/1.1\r\nHost:b\r\nTransfer-Encoding: Chunked\r\n\r\n"
    "4;x=\"y\"\r\nab\r\n\r\n00A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
    "GET / HTTP/1.0\r\nX-Empty:\r\nX-Blank: \t v w \t\r\n\r\n";

TEST(RequestReader, ReadsRequestsOneAfterAnother) {
  const Reading reading = ReadWhole(kThreeRequests);
  EXPECT_EQ(reading.fault, 0);
  EXPECT_THAT(reading.requests,
              ElementsAre("POST /v1/chat x ?a=%20 [host=a:80] [content-length=5] hello",
                          "POST /c ? [host=b] [transfer-encoding=Chunked] ab\r\n0123456789",
                          "GET / ? [x-empty=] [x-blank=v w] "));
}

TEST(RequestReader, ReadsTheSameWhereverBytesAreCut) {
  const Reading whole = ReadWhole(kThreeRequests);
  EXPECT_EQ(ReadByByte(kThreeRequests), whole);
  for (size_t cut = 0; cut <= kThreeRequests.size(); ++cut) {
    EXPECT_EQ(ReadPieces({kThreeRequests.substr(0, cut), kThreeRequests.substr(cut)}), whole)
        << "cut at " << cut;
  }
}

TEST(RequestReader, TellsHowFarARequestCame) {
  EXPECT_EQ(ReadWhole("").stage, RequestReader::Stage::kNothing);
  EXPECT_EQ(ReadWhole("\r\n\r\n\r").stage, RequestReader::Stage::kNothing);
  EXPECT_EQ(ReadWhole("G").stage, RequestReader::Stage::kHead);
  EXPECT_EQ(ReadWhole("GET / HTTP/1.1\r\nHost: a\r\n\r").stage, RequestReader::Stage::kHead);
  EXPECT_EQ(ReadWhole("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1").stage,
            RequestReader::Stage::kBody);
}

// What two readers could take for different requests, or what is none at all.
TEST(RequestReader, RefusesWhatIsNotOneWellFormedRequest) {
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::vector<std::string> shapes = {
      // The length in two ways, or in a way of its own.
      post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
      post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
      post + "Content-Length: 5,5\r\n\r\nhello",
      post + "Content-Length: 5, 5\r\n\r\nhello",
      post + "Content-Length: +5\r\n\r\nhello",
      post + "Content-Length: -5\r\n\r\nhello",
      post + "Content-Length: 0x5\r\n\r\nhello",
      post + "Content-Length: 5 x\r\n\r\nhello",
      post + "Content-Length: 5.0\r\n\r\nhello",
      post + "Content-Length:\r\n\r\n",
      post + "Content-Length: \xd9\xa5\r\n\r\nhello",
      post + "Transfer-Encoding: gzip\r\n\r\n",
      post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding:\r\n\r\n",
      post + "Transfer-Encoding:\x0b" + "chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      // Headers.
      post + "Content-Length : 5\r\n\r\nhello",
      post + "Content-Length\t: 5\r\n\r\nhello",
      post + " Content-Length: 5\r\n\r\nhello",
      post + "X: a\r\n b\r\n\r\n",
      post + "X: a\r\n\tb\r\n\r\n",
      post + ": a\r\n\r\n",
      post + "No colon\r\n\r\n",
      post + "X(y): a\r\n\r\n",
      post + "X\xc3\xa4: a\r\n\r\n",
      post + "X: a\x01\r\n\r\n",
      post + "X: a\x7f\r\n\r\n",
      post + "X: a\0b\r\n\r\n"s,
      "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
      // Ends of lines.
      "GET / HTTP/1.1\nHost: a\n\n",
      "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
      post + "X: a\n\r\n",
      post + "X: a\nY: b\r\n\r\n",
      post + "X: a\rY: b\r\n\r\n",
      post + "X: a\r\r\n\r\n",
      post + "\n",
      // Hosts.
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n",
      // First lines.
      "GET /\r\n",
      "GET\r\n",
      "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
      " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
      "GET / http/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
      "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
      "GET / HTTP/11.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.\r\nHost: a\r\n\r\n",
      "GET / \r\nHost: a\r\n\r\n",
      "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
      std::string(33, 'G') + " / HTTP/1.1\r\nHost: a\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      // Targets.
      "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET http://b@c/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET ?a HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%0 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
      // Other protocols.
      "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"s,
      "\0\0\0\0"s,
      "SSH-2.0-OpenSSH_9.2\r\n",
  };
  for (const std::string& shape : shapes) {
    EXPECT_EQ(ReadWhole(shape).fault, 400) << testing::PrintToString(shape);
    EXPECT_EQ(ReadByByte(shape).fault, 400) << testing::PrintToString(shape);
    EXPECT_TRUE(ReadWhole(shape).requests.empty()) << testing::PrintToString(shape);
  }
}

TEST(RequestReader, RefusesChunksThatDoNotParse) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& chunks : {
           "x\r\n"s,
           "\r\n"s,
           "+1\r\na\r\n0\r\n\r\n"s,
           "-1\r\n"s,
           "0x1\r\na\r\n0\r\n\r\n"s,
           " 1\r\na\r\n0\r\n\r\n"s,
           "1 \r\na\r\n0\r\n\r\n"s,
           "1 a\r\na\r\n0\r\n\r\n"s,
           "1,1\r\na\r\n0\r\n\r\n"s,
           "1\na\n0\n\n"s,
           "1\r\naX"s,
           "1\r\naXX0\r\n\r\n"s,
           "1\r\na\n0\r\n\r\n"s,
           "1\r\nab\r\n"s,
           "0000000000000001\r\na"s,
           "ffffffffffffffff\r\n"s,
           "10000000000000001\r\na\r\n0\r\n\r\n"s,
           "1;\ra\r\na\r\n0\r\n\r\n"s,
           "1;\0\r\na\r\n"s,
           "0\r\nno trailer\r\n\r\n"s,
           "0\r\n fold\r\n\r\n"s,
           "0\r\nX: \x01\r\n\r\n"s,
           "0\r\nX : a\r\n\r\n"s,
           "0\r\nX: a\n\r\n"s,
           "1;" + std::string(5000, 'a'),
       }) {
    EXPECT_EQ(ReadWhole(head + chunks).fault, 400) << testing::PrintToString(chunks);
    EXPECT_EQ(ReadByByte(head + chunks).fault, 400) << testing::PrintToString(chunks);
  }
}

TEST(RequestReader, TakesWhatIsOddButClear) {
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
           {"GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n", "GET /c ?d [host=a] "},
           {"GET HTTP://b:8080 HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ? [host=a] "},
           {"GET https://b?d HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ?d [host=a] "},
           {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * ? [host=a] "},
           {"\r\n\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / ? [host=] "},
           {"GET /a%2Fb%c3%A4/?? HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            "GET /a/b\xc3\xa4/ ?? [host=[::1]:80] "},
           {"M-SEARCH // HTTP/1.1\r\nHost: a\r\nX: \xc3\xa4\t,\r\n\r\n",
            "M-SEARCH // ? [host=a] [x=\xc3\xa4\t,] "},
           {"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0001\r\n\r\nx",
            "PUT / ? [host=a] [content-length=0001] x"},
       }) {
    EXPECT_THAT(ReadWhole(bytes).requests, ElementsAre(text));
  }
}

TEST(RequestReader, RefusesWhatIsTooLarge) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::string pad = "X: " + std::string(kMaxHeader - head.size() - 7, 'x') + "\r\n\r\n";
  EXPECT_THAT(ReadWhole(head + pad).requests, testing::SizeIs(1));
  EXPECT_EQ(ReadWhole(head + "X" + pad).fault, 431);
  EXPECT_EQ(ReadByByte(head + "X" + pad).fault, 431);
  EXPECT_EQ(ReadWhole(std::string(kMaxHeader + 1, 'G')).fault, 431);

  const std::string data(kMaxBody, 'x');
  EXPECT_THAT(ReadWhole(head + "Content-Length: 100\r\n\r\n" + data).requests, testing::SizeIs(1));
  for (const char* length : {"101", "999999999999999999", "18446744073709551616",
                             "99999999999999999999999999999999999999999999"}) {
    EXPECT_EQ(ReadWhole(fmt::format("{}Content-Length: {}\r\n\r\n", head, length)).fault, 413);
  }
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(ReadWhole(chunked + "64\r\n" + data + "\r\n0\r\n\r\n").requests, testing::SizeIs(1));
  EXPECT_EQ(ReadWhole(chunked + "65\r\n").fault, 413);
  EXPECT_EQ(ReadWhole(chunked + "fffffffffffffff\r\n").fault, 413);
  EXPECT_EQ(ReadWhole(chunked + "63\r\n" + data.substr(1) + "\r\n2\r\nab").fault, 413);
  // Lines between chunks are bounded too.
  EXPECT_EQ(ReadWhole(chunked + "0\r\n" + std::string(8000, 'X') + ": a").fault, 400);
  std::string trailers = chunked + "0\r\n";
  for (int i = 0; i < 5000; ++i) trailers += "X: a\r\n";
  EXPECT_EQ(ReadWhole(trailers).fault, 400);
}

TEST(RequestReader, KnowsHowAConnectionGoesOn) {
  const auto head = [](const std::string& version, const std::string& headers) {
    return ParseRequestHead(fmt::format("GET / HTTP/{}\r\nHost: a\r\n{}\r\n", version, headers));
  };
  EXPECT_TRUE(head("1.1", "")->keep_alive);
  EXPECT_FALSE(head("1.1", "Connection: foo , Close\r\n")->keep_alive);
  EXPECT_FALSE(head("1.1", "Connection: keep-alive\r\nConnection: close\r\n")->keep_alive);
  EXPECT_FALSE(head("1.0", "")->keep_alive);
  EXPECT_TRUE(head("1.0", "Connection: Keep-Alive\r\n")->keep_alive);
  EXPECT_TRUE(head("1.1", "Expect: 100-Continue\r\n")->expects_continue);
  EXPECT_FALSE(head("1.0", "Expect: 100-continue\r\n")->expects_continue);
  EXPECT_EQ(head("1.1", "Expect: 200-ok\r\n").error().status, 417);
  EXPECT_EQ(head("1.1", "X-A: b\r\nx-a: c\r\n")->request.Header("x-a"), "b");
  EXPECT_EQ(head("1.1", "")->request.Header("x-a"), "");
}

TEST(RequestReader, SaysTheSameOfAnyBytesHoweverTheyCome) {
  std::mt19937 random(1);
  const auto upto = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end)(random);
  };
  const std::string_view odd = "\r\n\t :;,\0%/0f+-\x80\x7f"sv;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(kThreeRequests);
    for (size_t mutation = 0; mutation <= upto(2); ++mutation) {
      const size_t at = upto(bytes.size() - 1);
      const char c = odd[upto(odd.size() - 1)];
      switch (upto(3)) {
        case 0:
          bytes[at] = c;
          break;
        case 1:
          bytes.insert(at, 1, c);
          break;
        case 2:
          bytes.erase(at, 1 + upto(4));
          break;
        default:
          bytes.insert(at, bytes.substr(upto(bytes.size() - 1), 20));
      }
    }
    const Reading whole = ReadWhole(bytes);
    refused += whole.fault != 0;
    ASSERT_EQ(ReadByByte(bytes), whole) << testing::PrintToString(bytes);
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 1900);
}

}  // namespace
}  // namespace cachalot
