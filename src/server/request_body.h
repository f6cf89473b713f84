// The JSON object that a request's body is.
#pragma once

#include "http/http.h"
#include "io/json.h"
#include "server/api_error.h"

namespace cachalot {

// Big integers stay exact (chat/python_json.h); nesting ends at 512 levels. 400 for anything else.
ApiResult<OrderedJson> ParseBody(const HttpRequest& request);

}  // namespace cachalot
