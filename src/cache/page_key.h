// PageKey: the name of a page of tokens and of all pages before it, by content. Two prompts that
// begin with the same tokens of the same model share the keys of the pages they share, in any
// process on any day.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cache/ids.h"
#include "io/digest.h"

namespace cachalot {

struct PageKey {
  Digest bytes = {};

  auto operator<=>(const PageKey&) const = default;
};

// The parent of every first page: BLAKE2b-256("cachalot pages of " + fingerprint). The fingerprint
// names all that a page's bytes depend on besides tokens: the model and the formats of its rows.
PageKey RootKey(std::string_view fingerprint);

// BLAKE2b-256(parent, tokens as int32 little endian), for exactly kPageTokens tokens.
PageKey ChildKey(const PageKey& parent, std::span<const int32_t> tokens);

// 64 lower-case hexadecimal digits.
std::string HexOf(const PageKey& key);

// A page's key and what it is the key of: key == ChildKey(parent, tokens).
struct PageIdentity {
  PageKey key;
  PageKey parent;
  std::array<int32_t, kPageTokens> tokens = {};

  bool operator==(const PageIdentity&) const = default;
};

}  // namespace cachalot

template <>
struct std::hash<cachalot::PageKey> {
  size_t operator()(const cachalot::PageKey& key) const {
    size_t first = 0;  // a digest is uniform: any of its bytes will do
    std::memcpy(&first, key.bytes.data(), sizeof(first));
    return first;
  }
};
