#include "cache/page_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "base/check.h"

namespace cachalot {

static_assert(std::endian::native == std::endian::little, "keys are of little-endian tokens");

PageKey RootKey(std::string_view fingerprint) {
  constexpr std::string_view kPurpose = "cachalot pages of ";
  return {DigestOf({std::as_bytes(std::span(kPurpose)), std::as_bytes(std::span(fingerprint))})};
}

PageKey ChildKey(const PageKey& parent, std::span<const int32_t> tokens) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(tokens.size()), kPageTokens);
  return {DigestOf({std::as_bytes(std::span(parent.bytes)), std::as_bytes(tokens)})};
}

std::string HexOf(const PageKey& key) { return fmt::format("{:02x}", fmt::join(key.bytes, "")); }

}  // namespace cachalot
