// The tokens of a model as trees of their bytes, made once for each tokenizer and shared by all
// grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cachalot {

// Immutable.
class GrammarVocabulary {
 public:
  // Few tokens are longer, and what may come within so few bytes is the same in many more places.
  static constexpr int32_t kShortBytes = 16;

  // A node of a tree of tokens' bytes; a tree is its nodes in depth-first order, so that what
  // lies under node i is i .. i + size.
  struct TreeNode {
    uint8_t byte;
    bool has_more;   // next_of(token) is another id
    uint16_t depth;  // bytes from the root, this one included: 1 ..
    int32_t size;    // nodes of its subtree, itself included
    int32_t token;   // -1 where no token ends
    int32_t parent;  // -1 at the root
  };

  // bytes_by_id[id]: what a token adds to a text; empty for ids that may not stand in text (special
  // tokens, unused ids). One entry for each logit. Errors (kInvalidArgument): a stop id that is
  // none of them or has bytes; no stop id; a token beyond 65535 bytes.
  static Result<std::shared_ptr<const GrammarVocabulary>> Make(
      const std::vector<std::string>& bytes_by_id, std::vector<int32_t> stop_ids);

  int32_t size() const { return static_cast<int32_t>(next_of_.size()); }
  size_t num_mask_words() const { return (next_of_.size() + 63) / 64; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  const std::vector<TreeNode>& short_tree() const { return short_tree_; }
  // Of the tokens that have more than kShortBytes.
  const std::vector<TreeNode>& long_tree() const { return long_tree_; }
  // Another id with the same bytes, or -1.
  int32_t next_of(int32_t id) const { return next_of_[static_cast<size_t>(id)]; }
  std::string_view bytes(int32_t id) const;
  int32_t max_token_bytes() const { return max_token_bytes_; }
  bool has_byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

 private:
  GrammarVocabulary() = default;
  // Of tokens in the order of their bytes.
  std::vector<TreeNode> MakeTree(const std::vector<int32_t>& tokens);

  std::string text_;  // all tokens' bytes
  std::vector<uint32_t> begin_;
  std::vector<int32_t> next_of_;
  std::vector<TreeNode> short_tree_;
  std::vector<TreeNode> long_tree_;
  std::vector<int32_t> stop_ids_;
  std::vector<bool> byte_tokens_;
  int32_t max_token_bytes_ = 0;
};

}  // namespace cachalot
