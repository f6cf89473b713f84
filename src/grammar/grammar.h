// A grammar over bytes and special tokens, compiled to the nodes of a pushdown automaton. Front
// ends (json_schema.h, tool_calls.h) build one, matcher.h turns it into masks over a vocabulary.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace cachalot {

using ByteSet = std::bitset<256>;
// Bytes from `first` to `last`, both included.
ByteSet ByteRange(uint8_t first, uint8_t last);
ByteSet BytesIn(std::string_view bytes);

// Index into Grammar::nodes and Grammar::rules.
using NodeId = int32_t;
using RuleId = int32_t;

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

struct GrammarNode {
  enum class Kind : uint8_t {
    kBytes,   // one byte of byte_sets[operand], then `next`
    kToken,   // the special token `operand`, then `next`
    kCall,    // rule `operand`, then `next`
    kRepeat,  // rule `operand`, which is never empty, `min` to `max` times, then `next`
    kSplit,   // any one of edges[operand .. operand + next)
    kReturn,  // the end of its rule
    kFree,    // any tokens from here on, for good
  };
  Kind kind;
  int32_t operand = 0;
  NodeId next = 0;
  int64_t min = 0;
  int64_t max = 0;
};

// Immutable. From each of its nodes some text leads to the end of the answer within kMaxDepth
// calls: what had none has been cut away, so that no beginning of a text is a dead end.
struct Grammar {
  static constexpr int32_t kMaxDepth = 500;  // calls that have not returned
  static constexpr int32_t kNotWithin = kMaxDepth + 1;

  std::vector<GrammarNode> nodes;
  std::vector<NodeId> edges;
  std::vector<NodeId> rules;  // where each begins
  RuleId root = 0;
  std::vector<ByteSet> byte_sets;
  // How many calls must be open at once on the way from a node to the end of its rule that needs
  // fewest; kNotWithin: there is no way.
  std::vector<int32_t> height;
  // By rule: it is repeated somewhere and calls nothing, as the character of a string.
  std::vector<bool> is_repeated_leaf;
  // Bytes that no set tells apart have the same class.
  std::array<uint8_t, 256> class_of{};
  int32_t num_classes = 0;
  std::vector<ByteSet> class_sets;  // byte_sets in classes
  ByteSet used_bytes;               // that some text has
  std::vector<int32_t> used_tokens;
};

// Builds a grammar from the end to the beginning: each call takes the node that follows and returns
// the node where the piece begins. Beyond `max_nodes` it adds nothing more and Build says so, hence
// no other call can fail.
class GrammarBuilder {
 public:
  static constexpr size_t kDefaultMaxNodes = 200'000;
  explicit GrammarBuilder(size_t max_nodes = kDefaultMaxNodes);

  // A rule may be called before it is defined. `name` is for errors.
  RuleId DeclareRule(std::string name);
  void DefineRule(RuleId rule, NodeId begin) { rules_[static_cast<size_t>(rule)] = begin; }

  NodeId Return() const { return 0; }
  NodeId Nothing() const { return 1; }  // where nothing can follow
  NodeId Bytes(const ByteSet& bytes, NodeId next);
  NodeId Literal(std::string_view text, NodeId next);
  NodeId Token(int32_t id, NodeId next);
  NodeId Call(RuleId rule, NodeId next);
  // `body` must not match the empty text. max may be kUnbounded.
  NodeId Repeat(RuleId body, int64_t min, int64_t max, NodeId next);
  NodeId Split(std::vector<NodeId> alternatives);
  NodeId Optional(NodeId piece, NodeId next) { return Split({piece, next}); }
  NodeId Free();
  // For loops: a split whose alternatives come later, each with a byte before it leads back.
  NodeId OpenSplit();
  void CloseSplit(NodeId split, std::vector<NodeId> alternatives);

  bool is_full() const { return is_full_; }

  // Errors (kInvalidArgument): too many nodes; a rule that begins with itself; a grammar that
  // nothing matches, or the empty text.
  Result<Grammar> Build(RuleId root) &&;

 private:
  NodeId Add(GrammarNode node);

  size_t max_nodes_;
  bool is_full_ = false;
  std::vector<GrammarNode> nodes_;
  std::vector<std::vector<NodeId>> splits_;  // alternatives; a kSplit's operand is an index here
  size_t num_edges_ = 0;
  std::vector<NodeId> rules_;
  std::vector<std::string> rule_names_;
  std::vector<ByteSet> byte_sets_;
  std::unordered_map<ByteSet, int32_t> byte_set_ids_;
  std::map<std::pair<int32_t, NodeId>, NodeId> bytes_nodes_;  // by set and next: tails are shared
};

}  // namespace cachalot
