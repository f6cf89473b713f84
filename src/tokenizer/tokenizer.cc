#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "io/file.h"
#include "io/utf8.h"
#include "tokenizer/tokenizer_file.h"

namespace cachalot {
namespace {

// Far above any prompt; keeps byte offsets within 32 bits.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return MakeError(StatusCode::kInvalidArgument, "text of {} bytes, expected at most {}",
                     text.size(), kMaxTextBytes);
  }
  if (const auto fault = FindInvalidUtf8(text)) {
    return MakeError(StatusCode::kInvalidArgument, "text is not UTF-8: byte {} of {} is 0x{:02X}",
                     *fault, text.size(), static_cast<uint8_t>(text[*fault]));
  }
  return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::string& path) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTokenizerFileBytes));
  return Parse(text, path);
}

Result<Tokenizer> Tokenizer::Parse(std::string_view text, const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(TokenizerFile file, ParseTokenizerFile(text, source));
  Tokenizer tokenizer;
  for (size_t i = 0; i < file.patterns.size(); ++i) {
    Result<Pattern> pattern = Pattern::Compile(file.patterns[i]);
    if (!pattern) {
      return MakeError(pattern.error().code,
                       "{}: pre_tokenizer.pretokenizers[{}].pattern.Regex: {}", source, i,
                       pattern.error().message);
    }
    tokenizer.patterns_.push_back(*std::move(pattern));
  }
  tokenizer.vocab_size_ = file.vocabulary.size();
  std::vector<AddedToken> first;
  std::vector<AddedToken> second;
  for (const AddedToken& token : file.added_tokens) {
    tokenizer.vocab_size_ = std::max(tokenizer.vocab_size_, token.id + 1);
    tokenizer.added_.emplace(token.id, token);
    (token.normalized ? second : first).push_back(token);
  }
  tokenizer.first_ = AddedTokenFinder(std::move(first));
  tokenizer.second_ = AddedTokenFinder(std::move(second));
  tokenizer.bpe_ = Bpe(std::move(file.vocabulary), file.merges);
  return tokenizer;
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  CACHALOT_RETURN_IF_ERROR(CheckText(text));
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4);
  CACHALOT_RETURN_IF_ERROR(AppendIds(text, options.special_tokens, ids));
  return ids;
}

Result<std::vector<int32_t>> Tokenizer::EncodeSegments(std::span<const Segment> segments) const {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& [text, trusted] = segments[i];
    Status status = CheckText(text);
    if (status) {
      status = AppendIds(text, trusted, ids);
    }
    if (!status) {
      return MakeError(status.error().code, "segment {}: {}", i, status.error().message);
    }
  }
  return ids;
}

Status Tokenizer::AppendIds(std::string_view text, bool trusted, std::vector<int32_t>& ids) const {
  std::vector<AddedTokenFinder::Match> matches;
  if (trusted) {
    matches = FindAddedTokens(text);
  }
  PatternScratch scratch;
  size_t at = 0;
  for (const AddedTokenFinder::Match& match : matches) {
    CACHALOT_RETURN_IF_ERROR(AppendPiece(text.substr(at, match.begin - at), 0, scratch, ids));
    ids.push_back(match.id);
    at = match.end;
  }
  return AppendPiece(text.substr(at), 0, scratch, ids);
}

std::vector<AddedTokenFinder::Match> Tokenizer::FindAddedTokens(std::string_view text) const {
  std::vector<AddedTokenFinder::Match> matches;
  for (size_t at = 0; at < text.size();) {
    const AddedTokenFinder::Match first = first_.FindNext(text, at);
    const std::string_view before = text.substr(0, first.begin);
    while (at < before.size()) {
      const AddedTokenFinder::Match second = second_.FindNext(before, at);
      if (second.id != kNoToken) {
        matches.push_back(second);
      }
      at = second.end;
    }
    if (first.id != kNoToken) {
      matches.push_back(first);
    }
    at = first.end;
  }
  return matches;
}

Status Tokenizer::AppendPiece(std::string_view piece, size_t from, PatternScratch& scratch,
                              std::vector<int32_t>& ids) const {
  if (from == patterns_.size()) {
    bpe_.Encode(piece, ids);
    return {};
  }
  // Matches and what lies between them are pieces alike, and the next pattern sees each by itself.
  for (size_t at = 0; at < piece.size();) {
    const auto match = patterns_[from].FindNext(piece, at, scratch);
    if (!match) {
      return MakeError(match.error().code, "pre-tokenizer pattern {}: {}", from,
                       match.error().message);
    }
    if (match->begin > at) {
      CACHALOT_RETURN_IF_ERROR(
          AppendPiece(piece.substr(at, match->begin - at), from + 1, scratch, ids));
    }
    if (match->end > match->begin) {
      CACHALOT_RETURN_IF_ERROR(AppendPiece(piece.substr(match->begin, match->end - match->begin),
                                           from + 1, scratch, ids));
    }
    at = match->end;
  }
  return {};
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string_view token, TokenBytes(id));
    if (!skip_special || !IsSpecial(id)) {
      bytes += token;
    }
  }
  return bytes;
}

std::string_view Tokenizer::BytesOf(int32_t id) const {
  if (id >= 0 && id < bpe_.vocabulary().size() && !bpe_.vocabulary().bytes(id).empty()) {
    return bpe_.vocabulary().bytes(id);
  }
  const auto added = added_.find(id);
  return added == added_.end() ? std::string_view() : added->second.content;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const auto added = added_.find(id);
  return added != added_.end() && added->second.special;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view content) const {
  for (const int32_t id :
       {first_.Find(content), second_.Find(content), bpe_.vocabulary().Find(content)}) {
    if (id != kNoToken) {
      return id;
    }
  }
  return std::nullopt;
}

Result<std::string_view> Tokenizer::TokenBytes(int32_t id) const {
  const std::string_view bytes = BytesOf(id);
  if (bytes.empty()) {
    return MakeError(StatusCode::kOutOfRange, "token id {} has no token, expected ids from 0 to {}",
                     id, vocab_size_ - 1);
  }
  return bytes;
}

}  // namespace cachalot
