// An exchange that is counted and logged once its answer is complete, or never will be, and whose
// answers have some headers more.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/http.h"

namespace cachalot {

// What became of a request.
struct HttpRecord {
  std::string method;
  std::string path;
  std::string peer;
  int status = 0;  // 499: the client went before its answer was complete
  double seconds = 0;
  std::vector<std::pair<std::string, std::string>> notes;
};

std::shared_ptr<HttpExchange> Observe(std::shared_ptr<HttpExchange> exchange, HttpHeaders headers,
                                      std::function<void(const HttpRecord&)> done);

}  // namespace cachalot
