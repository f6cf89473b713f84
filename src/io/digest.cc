#include "io/digest.h"

#include <blake2.h>

#include "base/check.h"

namespace cachalot {

Digest DigestOf(std::initializer_list<std::span<const std::byte>> message) {
  return DigestOf(std::span(message.begin(), message.size()));
}

Digest DigestOf(std::span<const std::span<const std::byte>> message) {
  blake2b_state state;
  CACHALOT_CHECK_EQ(blake2b_init(&state, Digest().size()), 0);
  for (const auto& bytes : message) {
    blake2b_update(&state, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  Digest digest;
  CACHALOT_CHECK_EQ(blake2b_final(&state, digest.data(), digest.size()), 0);
  return digest;
}

}  // namespace cachalot
