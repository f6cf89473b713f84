#include "server/sse.h"

#include <fmt/format.h>

namespace cachalot {

std::string SseData(const OrderedJson& data) { return fmt::format("data: {}\n\n", DumpJson(data)); }

std::string SseEvent(std::string_view name, const OrderedJson& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, DumpJson(data));
}

}  // namespace cachalot
