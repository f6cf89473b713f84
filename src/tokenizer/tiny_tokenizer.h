// For tests: small tokenizer files with V4's patterns, made here so that tests need no file.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

inline constexpr int32_t kTinyBos = 0;
inline constexpr int32_t kTinyFirstByte = 3;  // byte b has the id 3 + b
inline constexpr int32_t kTinyFirstMerge = kTinyFirstByte + 256;
inline constexpr int32_t kTinyThink = 1000;
inline constexpr int32_t kTinyEndThink = 1001;
inline constexpr int32_t kTinyUser = 1002;
inline constexpr int32_t kTinyThinkHard = 1003;

// The patterns of DeepSeek-V4's tokenizer.json.
inline const std::vector<std::string>& TinyPatterns() {
  static const std::vector<std::string> patterns = {
      R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
      R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  return patterns;
}

// `merges` in order of rank as pairs of raw bytes; results get ids from kTinyFirstMerge on.
inline Json TinyTokenizerJson(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[WriteBytes(std::string(1, static_cast<char>(byte)))] = kTinyFirstByte + byte;
  }
  Json pairs = Json::array();
  int32_t next = kTinyFirstMerge;
  for (const auto& [left, right] : merges) {
    if (!vocabulary.contains(WriteBytes(left + right))) {
      vocabulary[WriteBytes(left + right)] = next++;
    }
    pairs.push_back(WriteBytes(left) + " " + WriteBytes(right));
  }
  Json steps = Json::array();
  for (const std::string& pattern : TinyPatterns()) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  const auto added = [](int32_t id, const char* content, bool special, bool normalized) {
    return Json{{"id", id},          {"content", content}, {"single_word", false},
                {"lstrip", false},   {"rstrip", false},    {"normalized", normalized},
                {"special", special}};
  };
  return {
      {"version", "1.0"},
      {"added_tokens",
       {added(kTinyBos, "<｜begin▁of▁sentence｜>", true, false),
        added(kTinyThink, "<think>", false, true), added(kTinyEndThink, "</think>", false, true),
        added(kTinyUser, "<｜User｜>", true, false),
        added(kTinyThinkHard, "<think>hard", false, true)}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", Json::array()}}},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
      {"post_processor", {{"type", "ByteLevel"}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", pairs}}}};
}

// A few English words, runs of one letter by doubling, and merges that a pattern must keep from
// happening.
inline Json TinyTokenizerJson() {
  return TinyTokenizerJson(
      {{"h", "e"},           {"t", "he"},  {" ", "the"}, {"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"},
       {" ", " "},           {"  ", "  "}, {"\n", "\n"}, {"1", "2"}, {"12", "3"},  {"3", "4"},
       {"123", "4"},         {">", "h"},   {"\r", "\n"}, {"!", "!"}, {"!!", "!!"}, {"\xE4", "\xB8"},
       {"\xE4\xB8", "\xAD"}, {"e", " "},   {"he", "!"}});
}

inline Tokenizer TinyTokenizer(const Json& json) {
  Result<Tokenizer> tokenizer = Tokenizer::Parse(DumpJson(json), "tiny");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

inline const Tokenizer& TinyTokenizer() {
  static const Tokenizer tokenizer = TinyTokenizer(TinyTokenizerJson());
  return tokenizer;
}

}  // namespace cachalot
