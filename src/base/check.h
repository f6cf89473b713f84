// Checks of our own invariants: they print both values and abort. Never reachable from input, on in
// release.
#pragma once

#include <fmt/format.h>

#include <string>

namespace cachalot {

[[noreturn]] void FailCheck(const char* file, int line, const char* condition,
                            const std::string& detail);

}  // namespace cachalot

// CACHALOT_CHECK(slot >= 0, "request {} has no slot", id);
#define CACHALOT_CHECK(condition, ...)                                                      \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::cachalot::FailCheck(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                       \
  } while (false)

#define CACHALOT_CHECK_OP(left, op, right)                                            \
  do {                                                                                \
    const auto& check_left = (left);                                                  \
    const auto& check_right = (right);                                                \
    if (!(check_left op check_right)) [[unlikely]] {                                  \
      ::cachalot::FailCheck(__FILE__, __LINE__, #left " " #op " " #right,             \
                            ::fmt::format("{} against {}", check_left, check_right)); \
    }                                                                                 \
  } while (false)

#define CACHALOT_CHECK_EQ(left, right) CACHALOT_CHECK_OP(left, ==, right)
#define CACHALOT_CHECK_NE(left, right) CACHALOT_CHECK_OP(left, !=, right)
#define CACHALOT_CHECK_LE(left, right) CACHALOT_CHECK_OP(left, <=, right)
#define CACHALOT_CHECK_LT(left, right) CACHALOT_CHECK_OP(left, <, right)
#define CACHALOT_CHECK_GE(left, right) CACHALOT_CHECK_OP(left, >=, right)
#define CACHALOT_CHECK_GT(left, right) CACHALOT_CHECK_OP(left, >, right)
