// Digest: BLAKE2b-256, the one hash of the prefix cache. It names pages and proves their bytes.
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

}  // namespace cachalot
