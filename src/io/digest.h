// Digest: BLAKE2b-256. It names models and pages of the prefix cache, and proves their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace cachalot {

using Digest = std::array<uint8_t, 32>;

// Of the spans' bytes, one after the other.
Digest DigestOf(std::initializer_list<std::span<const std::byte>> message);
Digest DigestOf(std::span<const std::span<const std::byte>> message);

}  // namespace cachalot
