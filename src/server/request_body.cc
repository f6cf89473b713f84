#include "server/request_body.h"

#include <algorithm>
#include <cmath>

#include "chat/python_json.h"

namespace cachalot {
namespace {

// Python's NaN and Infinity, and numbers beyond a double, are no JSON.
bool IsFinite(const OrderedJson& value) {
  if (value.is_number_float()) {
    return std::isfinite(value.get<double>());
  }
  return !value.is_structured() ||
         std::all_of(value.begin(), value.end(), [](const OrderedJson& v) { return IsFinite(v); });
}

}  // namespace

ApiResult<OrderedJson> ParseBody(const HttpRequest& request) {
  if (request.body.empty()) {
    return tl::unexpected(ApiError(400, "the body is empty, expected a JSON object"));
  }
  CACHALOT_ASSIGN_OR_RETURN(OrderedJson body, ParsePythonJson(request.body, "body"));
  if (!body.is_object()) {
    return tl::unexpected(
        ApiError(400, fmt::format("the body is a JSON {}, expected an object", body.type_name())));
  }
  if (!IsFinite(body)) {
    return tl::unexpected(ApiError(400, "the body has a number that is no finite one"));
  }
  return body;
}

}  // namespace cachalot
