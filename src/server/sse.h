// Server-sent events (WHATWG HTML, "Server-sent events"): how answers are streamed.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace cachalot {

// "data: {…}\n\n"; text that is no UTF-8 becomes U+FFFD.
std::string SseData(const OrderedJson& data);
// "event: NAME\ndata: {…}\n\n".
std::string SseEvent(std::string_view name, const OrderedJson& data);

// A comment: a sign of life that no client takes for an event.
inline constexpr std::string_view kSseComment = ": alive\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace cachalot
