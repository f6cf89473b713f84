// For tests: small vocabularies, and texts fed to a grammar byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"

namespace cachalot {

inline Grammar AnyJsonObject() {
  return GrammarOfJsonSchema(OrderedJson{{"type", "object"}}).value();
}

// Ids: a byte is its own; then `more`, then the specials below.
struct TestVocabulary {
  explicit TestVocabulary(const std::vector<std::string>& more = {}) {
    for (int byte = 0; byte < 256; ++byte) {
      bytes.emplace_back(1, static_cast<char>(byte));
    }
    bytes.insert(bytes.end(), more.begin(), more.end());
    stop = static_cast<int32_t>(bytes.size());
    think_close = stop + 1;
    dsml = stop + 2;
    bytes.resize(bytes.size() + 3);
    auto made = GrammarVocabulary::Make(bytes, {stop});
    EXPECT_TRUE(made) << made.error().message;
    vocabulary = *made;
  }

  std::vector<std::string> bytes;
  int32_t stop;
  int32_t think_close;
  int32_t dsml;
  std::shared_ptr<const GrammarVocabulary> vocabulary;
};

inline bool IsAllowed(std::span<const uint64_t> mask, int32_t id) {
  return mask.empty() || (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

inline std::shared_ptr<CompiledGrammar> Compile(Grammar grammar, const TestVocabulary& test) {
  auto compiled = CompiledGrammar::Make(std::move(grammar), test.vocabulary);
  EXPECT_TRUE(compiled) << compiled.error().message;
  return *compiled;
}

// The whole text can be written, each byte as a token, and then stop.
inline bool Accepts(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view text) {
  GrammarConstraint constraint(grammar);
  bool more = true;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (!more || !IsAllowed(constraint.Allowed(), byte)) {
      return false;
    }
    more = constraint.Accept(byte);
  }
  return constraint.is_complete();
}

}  // namespace cachalot
