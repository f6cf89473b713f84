#include "cli/request_log.h"

#include <spdlog/pattern_formatter.h>

#include <memory>

#include "base/log.h"
#include "io/json.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr size_t kMaxPathBytes = 200;

std::string PathOf(const HttpRecord& record) {
  const std::string path = ReplaceInvalidUtf8(record.path);
  return std::string(Utf8Prefix(path, kMaxPathBytes));
}

// The message as a JSON member; what is one already stays (LogAsJson).
constexpr std::string_view kMember = "\x01";

class MessageMember final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string member = text.starts_with(kMember)
                                   ? std::string(text.substr(kMember.size()))
                                   : "\"message\":" + DumpJson(OrderedJson(text));
    out.append(member.data(), member.data() + member.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MessageMember>();
  }
};

void LogAsJson(const HttpRecord& record) {
  OrderedJson request = {{"peer", record.peer},
                         {"method", record.method},
                         {"path", PathOf(record)},
                         {"status", record.status},
                         {"seconds", record.seconds}};
  for (const auto& [key, value] : record.notes) {
    const auto number = ParseOrderedJson(value, key);
    request[key] = number && number->is_number() ? *number : OrderedJson(value);
  }
  spdlog::info("{}\"request\":{}", kMember, DumpJson(request));
}

void LogAsText(const HttpRecord& record) {
  std::string notes;
  for (const auto& [key, value] : record.notes) {
    notes += fmt::format(" {}={}", key, value);
  }
  spdlog::info("{} {} {} {} {:.3f}s{}", record.peer, record.method, PathOf(record), record.status,
               record.seconds, notes);
}

}  // namespace

std::function<void(const HttpRecord&)> OpenRequestLog(bool json) {
  if (!json) {
    return LogAsText;
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MessageMember>('*').set_pattern(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})");
  spdlog::default_logger()->set_formatter(std::move(formatter));
  return LogAsJson;
}

}  // namespace cachalot
