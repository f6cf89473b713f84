#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

namespace cachalot {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  // std::string compares as unsigned bytes, which LongestPrefix relies on.
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  for (const AddedToken& token : tokens_) {
    starts_token_[static_cast<uint8_t>(token.content[0])] = true;
  }
}

const AddedToken* AddedTokenFinder::LongestPrefix(std::string_view text) const {
  // The tokens that share the first `length` bytes of the text are neighbours in sorted order:
  // narrow them byte by byte.
  const AddedToken* longest = nullptr;
  auto begin = tokens_.begin();
  auto end = tokens_.end();
  for (size_t length = 0; begin != end; ++length) {
    if (begin->content.size() == length) {  // the shortest of equal beginnings sorts first
      longest = &*begin;
      ++begin;
    }
    if (length == text.size()) {
      break;
    }
    const auto byte = static_cast<uint8_t>(text[length]);
    const auto byte_of = [length](const AddedToken& token) {
      return static_cast<uint8_t>(token.content[length]);
    };
    const auto range = std::ranges::equal_range(begin, end, byte, {}, byte_of);
    begin = range.begin();
    end = range.end();
  }
  return longest;
}

AddedTokenFinder::Match AddedTokenFinder::FindNext(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_token_[static_cast<uint8_t>(text[at])]) {
      continue;
    }
    if (const AddedToken* token = LongestPrefix(text.substr(at)); token != nullptr) {
      return {at, at + token->content.size(), token->id};
    }
  }
  return {text.size(), text.size(), kNoToken};
}

int32_t AddedTokenFinder::Find(std::string_view content) const {
  const auto found = std::ranges::lower_bound(tokens_, content, {}, &AddedToken::content);
  return found != tokens_.end() && found->content == content ? found->id : kNoToken;
}

}  // namespace cachalot
