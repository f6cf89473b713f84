// The server's log: a line for each request, as text or as JSON.
#pragma once

#include <functional>

#include "server/observed_exchange.h"

namespace cachalot {

// At level info. With `json` this and all other lines of the log are JSON objects from now on.
std::function<void(const HttpRecord&)> OpenRequestLog(bool json);

}  // namespace cachalot
