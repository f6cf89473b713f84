// Status and Result: how every fault that is not our own bug travels. Nothing in cachalot throws;
// exceptions of libraries are caught in the one file that uses the library.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace cachalot {

enum class StatusCode {
#define CACHALOT_STATUS_CODE(name, text, exit_code) name,
#include "base/status_codes.def"
#undef CACHALOT_STATUS_CODE
};

const char* StatusCodeText(StatusCode code);
// The exit code that a program should end with, never 0.
int ExitCode(StatusCode code);

// One line that names the thing, the place, what was found and what was expected.
struct Error {
  StatusCode code;
  std::string message;
  std::string subject = {};  // the field at fault, where one is: "messages[3].role"
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// return MakeError(StatusCode::kDataLoss, "{}: tensor {} has shape {}, expected {}", file, name,
// found, expected);
template <typename... Args>
tl::unexpected<Error> MakeError(StatusCode code, fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace cachalot

#define CACHALOT_CONCAT_INNER(a, b) a##b
#define CACHALOT_CONCAT(a, b) CACHALOT_CONCAT_INNER(a, b)

#define CACHALOT_RETURN_IF_ERROR(expression)                          \
  do {                                                                \
    auto status_of_expression = (expression);                         \
    if (!status_of_expression) {                                      \
      return tl::unexpected(std::move(status_of_expression).error()); \
    }                                                                 \
  } while (false)

// CACHALOT_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
#define CACHALOT_ASSIGN_OR_RETURN(left, expression) \
  CACHALOT_ASSIGN_OR_RETURN_INNER(left, expression, CACHALOT_CONCAT(result_of_line_, __LINE__))
#define CACHALOT_ASSIGN_OR_RETURN_INNER(left, expression, result) \
  auto result = (expression);                                     \
  if (!result) {                                                  \
    return tl::unexpected(std::move(result).error());             \
  }                                                               \
  left = std::move(*result)
