// Integers of different meaning as different types: a page is not a slot, a slot is not a position.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace cachalot {

template <typename Tag, typename T = int32_t>
struct StrongId {
  T value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(T v) : value(v) {}
  constexpr auto operator<=>(const StrongId&) const = default;
};

}  // namespace cachalot

template <typename Tag, typename T>
struct std::hash<cachalot::StrongId<Tag, T>> {
  size_t operator()(cachalot::StrongId<Tag, T> id) const { return std::hash<T>{}(id.value); }
};

template <typename Tag, typename T>
struct fmt::formatter<cachalot::StrongId<Tag, T>> : fmt::formatter<T> {
  auto format(cachalot::StrongId<Tag, T> id, fmt::format_context& context) const {
    return fmt::formatter<T>::format(id.value, context);
  }
};
