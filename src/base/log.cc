#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>

namespace cachalot {

Status SetUpLog(const std::string& level, const std::string& otherwise) {
  std::string wanted = level;
  if (wanted.empty()) {
    const char* from_environment = std::getenv("CACHALOT_LOG");
    wanted = from_environment != nullptr ? from_environment : otherwise;
  }
  const auto parsed = spdlog::level::from_str(wanted);
  if (parsed == spdlog::level::off && wanted != "off") {
    return MakeError(StatusCode::kInvalidArgument,
                     "log level \"{}\" is none of trace, debug, info, warn, error, off", wanted);
  }
  auto logger = spdlog::get("cachalot");
  if (!logger) {
    logger = spdlog::stderr_color_mt("cachalot");
    logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    spdlog::set_default_logger(logger);
  }
  logger->set_level(parsed);
  return {};
}

}  // namespace cachalot
