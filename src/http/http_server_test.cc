#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http.h"
#include "http/raw_client.h"

namespace cachalot {
namespace {

TEST(HttpServer, Answers) {
  auto server = HttpServer::Start(
      {}, [](std::shared_ptr<HttpExchange> e) { e->Respond({.body = e->request().path}); },
      [](int status, std::string_view m, std::string_view) {
        return HttpResponse{.status = status, .body = std::string(m)};
      });
  ASSERT_TRUE(server) << server.error().message;
  RawClient client((*server)->port());
  const auto a = client.Ask("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(a.body, "/x");
}

}  // namespace
}  // namespace cachalot
