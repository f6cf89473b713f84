#include "grammar/grammar.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

using Kind = GrammarNode::Kind;

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// Each node before those that lead to it, as the builder adds them; loops take more rounds.
void ComputeHeights(Grammar& grammar) {
  std::vector<int32_t>& height = grammar.height;
  height.assign(grammar.nodes.size(), Grammar::kNotWithin);
  const auto called = [&](const GrammarNode& node) {
    const bool returns_at_once = node.kind == Kind::kCall && node.next == 0;
    const int32_t inside = height[Index(grammar.rules[Index(node.operand)])];
    return std::min(inside + (returns_at_once ? 0 : 1), Grammar::kNotWithin);
  };
  const auto height_of = [&](const GrammarNode& node) {
    switch (node.kind) {
      case Kind::kReturn:
      case Kind::kFree:
        return 0;
      case Kind::kBytes:
      case Kind::kToken:
        return height[Index(node.next)];
      case Kind::kCall:
        return std::max(called(node), height[Index(node.next)]);
      case Kind::kRepeat:
        return std::max(node.min > 0 ? called(node) : 0, height[Index(node.next)]);
      case Kind::kSplit: {
        int32_t least = Grammar::kNotWithin;
        for (int32_t i = 0; i < node.next; ++i) {
          least = std::min(least, height[Index(grammar.edges[Index(node.operand + i)])]);
        }
        return least;
      }
    }
    return Grammar::kNotWithin;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < grammar.nodes.size(); ++i) {
      const int32_t found = height_of(grammar.nodes[i]);
      changed = changed || found != height[i];
      height[i] = found;
    }
  }
}

std::vector<bool> NodesThatMayBeEmpty(const Grammar& grammar) {
  std::vector<bool> empty(grammar.nodes.size(), false);
  const auto is_empty = [&](const GrammarNode& node) -> bool {
    switch (node.kind) {
      case Kind::kReturn:
        return true;
      case Kind::kCall:
        return empty[Index(grammar.rules[Index(node.operand)])] && empty[Index(node.next)];
      case Kind::kRepeat:
        return node.min == 0 && empty[Index(node.next)];
      case Kind::kSplit:
        for (int32_t i = 0; i < node.next; ++i) {
          if (empty[Index(grammar.edges[Index(node.operand + i)])]) {
            return true;
          }
        }
        return false;
      default:
        return false;
    }
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < grammar.nodes.size(); ++i) {
      if (!empty[i] && is_empty(grammar.nodes[i])) {
        empty[i] = true;
        changed = true;
      }
    }
  }
  return empty;
}

// Where a walk may stand after node `id` without a byte (`at_once`) or at all.
void AppendSuccessors(const Grammar& grammar, const std::vector<bool>& may_be_empty, NodeId id,
                      bool at_once, std::vector<NodeId>& out) {
  const GrammarNode& node = grammar.nodes[Index(id)];
  const auto append = [&](NodeId next) {
    if (grammar.height[Index(next)] < Grammar::kNotWithin) {
      out.push_back(next);
    }
  };
  switch (node.kind) {
    case Kind::kReturn:
    case Kind::kFree:
      break;
    case Kind::kBytes:
    case Kind::kToken:
      if (!at_once) {
        append(node.next);
      }
      break;
    case Kind::kCall:
    case Kind::kRepeat: {
      const NodeId body = grammar.rules[Index(node.operand)];
      append(body);
      const bool skips =
          node.kind == Kind::kCall ? may_be_empty[Index(body)] : node.min == 0 || node.max == 0;
      if (!at_once || skips) {
        append(node.next);
      }
      break;
    }
    case Kind::kSplit:
      for (int32_t i = 0; i < node.next; ++i) {
        append(grammar.edges[Index(node.operand + i)]);
      }
      break;
  }
}

std::vector<NodeId> ReachableNodes(const Grammar& grammar, const std::vector<bool>& may_be_empty) {
  std::vector<bool> seen(grammar.nodes.size(), false);
  std::vector<NodeId> reached = {grammar.rules[Index(grammar.root)]};
  seen[Index(reached.front())] = true;
  std::vector<NodeId> next;
  for (size_t i = 0; i < reached.size(); ++i) {
    next.clear();
    AppendSuccessors(grammar, may_be_empty, reached[i], false, next);
    for (const NodeId id : next) {
      if (!seen[Index(id)]) {
        seen[Index(id)] = true;
        reached.push_back(id);
      }
    }
  }
  return reached;
}

// A node that is reached from itself without a byte, or -1.
NodeId FindEmptyLoop(const Grammar& grammar, const std::vector<bool>& may_be_empty,
                     const std::vector<NodeId>& reachable) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(grammar.nodes.size(), Mark::kNew);
  std::vector<std::pair<NodeId, bool>> todo;  // second: all behind it has been seen
  std::vector<NodeId> next;
  for (const NodeId start : reachable) {
    todo.emplace_back(start, false);
    while (!todo.empty()) {
      const auto [id, is_leaving] = todo.back();
      todo.pop_back();
      Mark& mark = marks[Index(id)];
      if (is_leaving) {
        mark = Mark::kDone;
      } else if (mark == Mark::kNew) {
        mark = Mark::kOpen;
        todo.emplace_back(id, true);
        next.clear();
        AppendSuccessors(grammar, may_be_empty, id, true, next);
        for (const NodeId successor : next) {
          if (marks[Index(successor)] == Mark::kOpen) {
            return successor;
          }
          todo.emplace_back(successor, false);
        }
      }
    }
  }
  return -1;
}

bool CallsNothing(const Grammar& grammar, const std::vector<bool>& may_be_empty, RuleId rule) {
  std::vector<NodeId> todo = {grammar.rules[Index(rule)]};
  std::unordered_set<NodeId> seen;
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    const Kind kind = grammar.nodes[Index(id)].kind;
    if (kind == Kind::kCall || kind == Kind::kRepeat) {
      return false;
    }
    if (seen.insert(id).second) {
      AppendSuccessors(grammar, may_be_empty, id, false, todo);
    }
  }
  return true;
}

void ComputeClasses(Grammar& grammar) {
  grammar.class_of.fill(0);
  grammar.num_classes = 1;
  for (const ByteSet& set : grammar.byte_sets) {
    std::array<int32_t, 512> split;
    split.fill(-1);
    int32_t count = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      int32_t& to = split[2 * size_t{grammar.class_of[byte]} + (set[byte] ? 1 : 0)];
      if (to < 0) {
        to = count++;
      }
      grammar.class_of[byte] = static_cast<uint8_t>(to);
    }
    grammar.num_classes = count;
  }
  for (const ByteSet& set : grammar.byte_sets) {
    ByteSet classes;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (set[byte]) {
        classes.set(grammar.class_of[byte]);
      }
    }
    grammar.class_sets.push_back(classes);
  }
}

}  // namespace

ByteSet ByteRange(uint8_t first, uint8_t last) {
  ByteSet bytes;
  for (size_t byte = first; byte <= last; ++byte) {
    bytes.set(byte);
  }
  return bytes;
}

ByteSet BytesIn(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) {
    set.set(static_cast<uint8_t>(byte));
  }
  return set;
}

GrammarBuilder::GrammarBuilder(size_t max_nodes) : max_nodes_(max_nodes) {
  nodes_.push_back({.kind = Kind::kReturn});
  nodes_.push_back({.kind = Kind::kSplit});
  splits_.emplace_back();
}

NodeId GrammarBuilder::Add(GrammarNode node) {
  if (nodes_.size() + num_edges_ >= max_nodes_) {
    is_full_ = true;
    return Nothing();
  }
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

RuleId GrammarBuilder::DeclareRule(std::string name) {
  rules_.push_back(Nothing());
  rule_names_.push_back(std::move(name));
  is_full_ = is_full_ || rules_.size() > max_nodes_;
  return static_cast<RuleId>(rules_.size() - 1);
}

NodeId GrammarBuilder::Bytes(const ByteSet& bytes, NodeId next) {
  if (bytes.none() || next == Nothing()) {
    return Nothing();
  }
  const auto [set, is_new_set] =
      byte_set_ids_.try_emplace(bytes, static_cast<int32_t>(byte_sets_.size()));
  if (is_new_set) {
    byte_sets_.push_back(bytes);
  }
  const auto [node, is_new] = bytes_nodes_.try_emplace({set->second, next}, 0);
  if (is_new) {
    node->second = Add({.kind = Kind::kBytes, .operand = set->second, .next = next});
  }
  return node->second;
}

NodeId GrammarBuilder::Literal(std::string_view text, NodeId next) {
  for (size_t i = text.size(); i-- > 0;) {
    next = Bytes(BytesIn(text.substr(i, 1)), next);
  }
  return next;
}

NodeId GrammarBuilder::Token(int32_t id, NodeId next) {
  return Add({.kind = Kind::kToken, .operand = id, .next = next});
}

NodeId GrammarBuilder::Call(RuleId rule, NodeId next) {
  return Add({.kind = Kind::kCall, .operand = rule, .next = next});
}

NodeId GrammarBuilder::Repeat(RuleId body, int64_t min, int64_t max, NodeId next) {
  if (min > max) {
    return Nothing();
  }
  return max == 0
             ? next
             : Add({.kind = Kind::kRepeat, .operand = body, .next = next, .min = min, .max = max});
}

NodeId GrammarBuilder::Split(std::vector<NodeId> alternatives) {
  std::erase(alternatives, Nothing());
  if (alternatives.empty()) {
    return Nothing();
  }
  if (alternatives.size() == 1) {
    return alternatives.front();
  }
  const NodeId split = OpenSplit();
  CloseSplit(split, std::move(alternatives));
  return split;
}

NodeId GrammarBuilder::Free() { return Add({.kind = Kind::kFree}); }

NodeId GrammarBuilder::OpenSplit() {
  const NodeId split = Add({.kind = Kind::kSplit, .operand = static_cast<int32_t>(splits_.size())});
  if (split != Nothing()) {
    splits_.emplace_back();
  }
  return split;
}

void GrammarBuilder::CloseSplit(NodeId split, std::vector<NodeId> alternatives) {
  if (split == Nothing()) {
    return;
  }
  num_edges_ += alternatives.size();
  splits_[Index(nodes_[Index(split)].operand)] = std::move(alternatives);
}

Result<Grammar> GrammarBuilder::Build(RuleId root) && {
  if (is_full_) {
    return MakeError(StatusCode::kInvalidArgument,
                     "too large: the grammar would need more than {} nodes", max_nodes_);
  }
  Grammar grammar;
  grammar.nodes = std::move(nodes_);
  grammar.rules = std::move(rules_);
  grammar.root = root;
  grammar.byte_sets = std::move(byte_sets_);
  for (GrammarNode& node : grammar.nodes) {
    if (node.kind == Kind::kSplit) {
      const std::vector<NodeId>& alternatives = splits_[Index(node.operand)];
      node.operand = static_cast<int32_t>(grammar.edges.size());
      node.next = static_cast<int32_t>(alternatives.size());
      grammar.edges.insert(grammar.edges.end(), alternatives.begin(), alternatives.end());
    }
  }
  ComputeHeights(grammar);
  const NodeId begin = grammar.rules[Index(root)];
  if (grammar.height[Index(begin)] >= Grammar::kNotWithin) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}: nothing satisfies it within {} levels of nesting",
                     rule_names_[Index(root)], Grammar::kMaxDepth);
  }
  for (GrammarNode& node : grammar.nodes) {
    if (node.kind == Kind::kSplit) {
      const auto first = grammar.edges.begin() + node.operand;
      const auto end = std::remove_if(first, first + node.next, [&](NodeId id) {
        return grammar.height[Index(id)] >= Grammar::kNotWithin;
      });
      node.next = static_cast<int32_t>(end - first);
    }
  }
  const std::vector<bool> may_be_empty = NodesThatMayBeEmpty(grammar);
  const std::vector<NodeId> reachable = ReachableNodes(grammar, may_be_empty);
  if (const NodeId loop = FindEmptyLoop(grammar, may_be_empty, reachable); loop >= 0) {
    for (size_t rule = 0; rule < grammar.rules.size(); ++rule) {
      if (grammar.rules[rule] == loop) {
        return MakeError(StatusCode::kInvalidArgument, "{}: begins with itself", rule_names_[rule]);
      }
    }
    return MakeError(StatusCode::kInvalidArgument, "{}: something in it begins with itself",
                     rule_names_[Index(root)]);
  }
  if (may_be_empty[Index(begin)]) {
    return MakeError(StatusCode::kInvalidArgument, "{}: the empty text satisfies it",
                     rule_names_[Index(root)]);
  }
  grammar.is_repeated_leaf.assign(grammar.rules.size(), false);
  for (const NodeId id : reachable) {
    const GrammarNode& node = grammar.nodes[Index(id)];
    if (node.kind == Kind::kBytes) {
      grammar.used_bytes |= grammar.byte_sets[Index(node.operand)];
    } else if (node.kind == Kind::kToken) {
      grammar.used_tokens.push_back(node.operand);
    } else if (node.kind == Kind::kRepeat) {
      CACHALOT_CHECK(!may_be_empty[Index(grammar.rules[Index(node.operand)])],
                     "rule {} is repeated and may be empty", node.operand);
      grammar.is_repeated_leaf[Index(node.operand)] =
          CallsNothing(grammar, may_be_empty, node.operand);
    }
  }
  ComputeClasses(grammar);
  return grammar;
}

}  // namespace cachalot
