#include "grammar/vocabulary.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace cachalot {

std::string_view GrammarVocabulary::bytes(int32_t id) const {
  const auto i = static_cast<size_t>(id);
  return std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i]);
}

Result<std::shared_ptr<const GrammarVocabulary>> GrammarVocabulary::Make(
    const std::vector<std::string>& bytes_by_id, std::vector<int32_t> stop_ids) {
  const auto made = std::shared_ptr<GrammarVocabulary>(new GrammarVocabulary());
  made->begin_.push_back(0);
  for (size_t id = 0; id < bytes_by_id.size(); ++id) {
    const std::string& bytes = bytes_by_id[id];
    if (bytes.size() > std::numeric_limits<uint16_t>::max()) {
      return MakeError(StatusCode::kInvalidArgument,
                       "token {} has {} bytes, expected at most 65535 for a grammar", id,
                       bytes.size());
    }
    made->text_ += bytes;
    made->begin_.push_back(static_cast<uint32_t>(made->text_.size()));
    made->max_token_bytes_ = std::max(made->max_token_bytes_, static_cast<int32_t>(bytes.size()));
  }
  const auto num_ids = static_cast<int32_t>(bytes_by_id.size());
  made->next_of_.assign(bytes_by_id.size(), -1);
  if (stop_ids.empty()) {
    return MakeError(StatusCode::kInvalidArgument, "no stop id, expected one for a grammar");
  }
  for (const int32_t id : stop_ids) {
    if (id < 0 || id >= num_ids) {
      return MakeError(StatusCode::kInvalidArgument, "stop id {} is none of {} tokens", id,
                       num_ids);
    }
    if (!made->bytes(id).empty()) {
      return MakeError(StatusCode::kInvalidArgument, "stop id {} may stand in text", id);
    }
  }
  made->stop_ids_ = std::move(stop_ids);

  std::vector<int32_t> tokens;
  made->byte_tokens_.assign(256, false);
  for (int32_t id = 0; id < num_ids; ++id) {
    const std::string_view bytes = made->bytes(id);
    if (!bytes.empty()) {
      tokens.push_back(id);
    }
    if (bytes.size() == 1) {
      made->byte_tokens_[static_cast<uint8_t>(bytes[0])] = true;
    }
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](int32_t a, int32_t b) { return made->bytes(a) < made->bytes(b); });
  const auto long_begin = std::stable_partition(tokens.begin(), tokens.end(), [&](int32_t id) {
    return made->bytes(id).size() <= size_t{kShortBytes};
  });
  made->short_tree_ = made->MakeTree({tokens.begin(), long_begin});
  made->long_tree_ = made->MakeTree({long_begin, tokens.end()});
  return made;
}

std::vector<GrammarVocabulary::TreeNode> GrammarVocabulary::MakeTree(
    const std::vector<int32_t>& tokens) {
  std::vector<TreeNode> tree;
  std::vector<int32_t> path;  // nodes of the last token, by depth
  std::string_view last;
  int32_t last_id = -1;
  for (const int32_t id : tokens) {
    const std::string_view text = bytes(id);
    if (last_id >= 0 && text == last) {
      next_of_[static_cast<size_t>(last_id)] = id;
      tree.back().has_more = true;
      last_id = id;
      continue;
    }
    const auto common = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    path.resize(common);
    for (size_t depth = common; depth < text.size(); ++depth) {
      tree.push_back({.byte = static_cast<uint8_t>(text[depth]),
                      .has_more = false,
                      .depth = static_cast<uint16_t>(depth + 1),
                      .size = 1,
                      .token = -1,
                      .parent = path.empty() ? -1 : path.back()});
      path.push_back(static_cast<int32_t>(tree.size() - 1));
    }
    tree.back().token = id;
    last = text;
    last_id = id;
  }
  for (size_t i = tree.size(); i-- > 0;) {
    if (const int32_t parent = tree[i].parent; parent >= 0) {
      tree[static_cast<size_t>(parent)].size += tree[i].size;
    }
  }
  return tree;
}

}  // namespace cachalot
