// config.json: any text gives either an error of one line or a configuration whose table of tensors
// can be made and counted, and that formats to a text which reads back the same.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/config.h"
#include "checkpoint/footprint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = cachalot::ParseModelConfig(text, "input");
  if (!config) {
    const std::string& message = config.error().message;
    CACHALOT_CHECK(!message.empty() && message.find('\n') == std::string::npos, "{}", message);
    return 0;
  }
  const std::string formatted = cachalot::FormatModelConfig(*config);
  const auto again = cachalot::ParseModelConfig(formatted, "formatted");
  CACHALOT_CHECK(again.has_value(), "{}", again.error().message);
  CACHALOT_CHECK_EQ(cachalot::FormatModelConfig(*again), formatted);
  // Larger tables are right but slow.
  if (config->num_layers * config->num_experts < 100) {
    CACHALOT_CHECK_GT(cachalot::TotalOf(cachalot::CountWeights(*config)).bytes, 0);
  }
  CACHALOT_CHECK_GE(cachalot::CountRequestBytes(*config, config->max_position), 0);
  return 0;
}
