// What stands before all endpoints, and the fields that all dialects share.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "server/fake_exchange.h"
#include "server/thinking_fields.h"

namespace cachalot {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

class ServiceScene : public testing::Test {
 protected:
  explicit ServiceScene(std::string cors = "") {
    ServiceOptions options;
    options.api_keys = {"first", "second"};
    options.cors_origin = std::move(cors);
    options.version = "1.2";
    options.on_request = [this](const HttpRecord& record) { records_.push_back(record); };
    options.http_gauges = [] { return HttpGauges{.connections = 7, .accepted = 9}; };
    service_ = std::make_unique<Service>(std::move(options), metrics_);
  }

  HttpResponse Ask(std::string method, std::string path, HttpHeaders headers = {}) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.headers = std::move(headers);
    const auto exchange = std::make_shared<FakeExchange>(std::move(request));
    service_->Handle(exchange);
    EXPECT_TRUE(exchange->response());
    return exchange->response().value_or(HttpResponse());
  }

  ServerMetrics metrics_{{.version = "1.2", .device = "cpu", .model = "m"}};
  std::vector<HttpRecord> records_;
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceScene, OpensWithEitherKeyInEitherHeader) {
  EXPECT_EQ(Ask("GET", "/version").status, 401);
  EXPECT_EQ(Ask("GET", "/version", {{"authorization", "Bearer third"}}).status, 401);
  EXPECT_EQ(Ask("GET", "/version", {{"authorization", "Bearer firs"}}).status, 401);
  EXPECT_EQ(Ask("GET", "/version", {{"authorization", "Bearer firstfirst"}}).status, 401);
  EXPECT_EQ(Ask("GET", "/version", {{"authorization", "first"}}).status, 401);
  EXPECT_EQ(Ask("GET", "/version", {{"authorization", "bearer first"}}).status, 200);
  EXPECT_EQ(Ask("GET", "/version", {{"x-api-key", "second"}}).status, 200);
  EXPECT_EQ(Ask("GET", "/version", {{"x-api-key", "second"}}).body, R"({"version":"1.2"})");
}

TEST_F(ServiceScene, SpeaksOfErrorsAsItsClientsDo) {
  EXPECT_THAT(Ask("POST", "/v1/chat/completions").body,
              HasSubstr(R"({"error":{"message":"no API)"));
  EXPECT_THAT(Ask("POST", "/v1/messages").body,
              HasSubstr(R"({"type":"error","error":{"type":"authentication_error")"));
  EXPECT_THAT(service_->Fault(413, "too much", "/v1/messages").body,
              HasSubstr(R"("type":"request_too_large","message":"too much")"));
}

TEST_F(ServiceScene, IsUnhealthyWhileItsModelIsLoaded) {
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  EXPECT_EQ(Ask("GET", "/health").body, R"({"status":"loading"})");
  EXPECT_EQ(Ask("POST", "/v1/completions", {{"x-api-key", "first"}}).status, 503);
  EXPECT_EQ(Ask("GET", "/v1/models", {{"x-api-key", "first"}}).status, 503);
}

TEST_F(ServiceScene, NamesWhatIsNotThere) {
  EXPECT_EQ(Ask("GET", "/v2").status, 404);
  const HttpResponse wrong = Ask("DELETE", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_THAT(wrong.headers, Contains(Pair("Allow", "POST")));
  EXPECT_LT(Ask("GET", "/" + std::string(5000, 'x')).body.size(), 300U);
}

TEST_F(ServiceScene, CountsAndTellsOfRequests) {
  Ask("GET", "/health");
  Ask("GET", "/nobody/knows");
  ASSERT_THAT(records_, SizeIs(2));
  EXPECT_EQ(records_[1].path, "/nobody/knows");
  EXPECT_EQ(records_[1].status, 404);
  const HttpResponse metrics = Ask("GET", "/metrics", {{"x-api-key", "first"}});
  EXPECT_THAT(metrics.body, HasSubstr(R"(http_requests_total{path="other",status="404"} 1)"));
  EXPECT_THAT(metrics.body, HasSubstr("cachalot:http_connections 7"));
}

TEST_F(ServiceScene, HasThePageAtItsRoot) {
  std::ifstream file(CACHALOT_SOURCE_DIR "/src/server/page/index.html");
  std::stringstream text;
  text << file.rdbuf();
  const HttpResponse page = Ask("GET", "/");
  EXPECT_EQ(page.body, text.str());
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
}

class OpenService : public ServiceScene {
 protected:
  OpenService() : ServiceScene("https://example.org") {}
};

TEST_F(ServiceScene, TellsOtherOriginsNothing) {
  EXPECT_EQ(Ask("OPTIONS", "/v1/models").status, 405);
  for (const auto& [name, value] : Ask("GET", "/health").headers) {
    EXPECT_NE(name, "Access-Control-Allow-Origin");
  }
}

TEST_F(OpenService, TellsOneOriginWhatItAsks) {
  const HttpResponse preflight = Ask("OPTIONS", "/v1/models");
  EXPECT_EQ(preflight.status, 204);
  for (const HttpResponse& response : {preflight, Ask("GET", "/health"), Ask("GET", "/v2")}) {
    EXPECT_THAT(response.headers,
                Contains(Pair("Access-Control-Allow-Origin", "https://example.org")));
  }
}

struct ThinkingCase {
  const char* fields;
  std::optional<bool> enabled;
  const char* effort = "";
  std::optional<int64_t> budget = std::nullopt;
};

TEST(Thinking, IsOneAnswerFromAllSpellings) {
  for (const ThinkingCase& c : {
           ThinkingCase{"{}", std::nullopt},
           ThinkingCase{R"({"thinking": true})", true},
           ThinkingCase{R"({"thinking": false})", false},
           ThinkingCase{R"({"thinking": {"type": "enabled", "budget_tokens": 2000}})", true, "",
                        2000},
           ThinkingCase{R"({"thinking": {"type": "disabled"}, "reasoning_effort": "high"})", false},
           ThinkingCase{R"({"thinking": {"type": "adaptive"}})", std::nullopt},
           ThinkingCase{R"({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}})",
                        true, "max"},
           ThinkingCase{R"({"reasoning_effort": "none"})", false},
           ThinkingCase{R"({"reasoning_effort": "low"})", true, "low"},
           ThinkingCase{R"({"reasoning": {"effort": "high", "summary": "auto"}})", true, "high"},
           ThinkingCase{R"({"reasoning": {"enabled": true, "max_tokens": 9}})", true, "", 9},
           ThinkingCase{R"({"enable_thinking": true, "thinking_budget": 0})", true},
           ThinkingCase{R"({"thinking_budget": 0})", false},
           ThinkingCase{R"({"chat_template_kwargs": {"thinking": true}})", true},
           ThinkingCase{R"({"chat_template_kwargs": {"enable_thinking": false}})", false},
           ThinkingCase{R"({"chat_template_kwargs": {"reasoning_effort": "max"}})", true, "max"},
           ThinkingCase{R"({"thinking": null, "reasoning": null})", std::nullopt},
       }) {
    const OrderedJson json = *ParseOrderedJson(c.fields, "fields");
    const auto found = ReadThinking(JsonFields(json));
    ASSERT_TRUE(found) << c.fields << ": " << found.error().message;
    EXPECT_EQ(found->enabled, c.enabled) << c.fields;
    EXPECT_EQ(found->effort, c.effort) << c.fields;
    EXPECT_EQ(found->budget, c.budget) << c.fields;
  }
}

TEST(Thinking, FaultsNameTheField) {
  for (const auto& [fields, subject] :
       {std::pair(R"({"thinking": "yes"})", "thinking"),
        std::pair(R"({"thinking": {"type": 1}})", "thinking.type"),
        std::pair(R"({"thinking": {"type": "sometimes"}})", "thinking.type"),
        std::pair(R"({"thinking": {"budget_tokens": -1}})", "thinking.budget_tokens"),
        std::pair(R"({"reasoning_effort": 3})", "reasoning_effort"),
        std::pair(R"({"reasoning": []})", "reasoning"),
        std::pair(R"({"chat_template_kwargs": {"thinking": 1}})",
                  "chat_template_kwargs.thinking")}) {
    const OrderedJson json = *ParseOrderedJson(fields, "fields");
    EXPECT_EQ(ReadThinking(JsonFields(json)).error().subject, subject) << fields;
  }
}

}  // namespace
}  // namespace cachalot
