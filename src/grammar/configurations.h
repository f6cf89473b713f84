// Where texts of a grammar may stand: configurations of its automaton, with their transitions and
// masks as far as they were asked for.
//
// A stack is a frame: a node to go on from and the frame to return to, hash-consed, so that equal
// stacks have equal ids. A configuration is the list of all stacks that a text may have led to, in
// an order that the text alone decides. It follows kMaxStacks at most: the rest, which only
// grammars of many overlapping alternatives have, is left out, so that less can be written, and
// nothing wrong.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace cachalot {

using TokenMask = std::vector<uint64_t>;

// Any thread may use it at any time; ids of configurations hold as long as the object.
class Configurations {
 public:
  static constexpr int32_t kDead = 0;  // nothing can have led here
  static constexpr size_t kMaxStacks = 512;

  Configurations(std::shared_ptr<const Grammar> grammar,
                 std::shared_ptr<const GrammarVocabulary> vocabulary);

  // Of the empty text.
  int32_t Start();
  // The same configuration here.
  int32_t Import(Configurations& other, int32_t configuration);
  // After a token; kDead if it is none of the mask.
  int32_t Advance(int32_t configuration, int32_t token);
  // Null: any token may come.
  std::shared_ptr<const TokenMask> MaskOf(int32_t configuration);
  // The text is one of the grammar.
  bool IsComplete(int32_t configuration);
  // It is, and nothing can follow.
  bool IsOver(int32_t configuration);
  // So much is kept that others should be made.
  bool is_full();

 private:
  using FrameId = int32_t;
  static constexpr FrameId kBottom = 0;   // the end of the grammar
  static constexpr FrameId kOutside = 1;  // what a local configuration returns to
  // How many bytes ahead a mask looks: those of a short token, or of any.
  enum Reach { kNear, kFar };
  using Tree = std::vector<GrammarVocabulary::TreeNode>;
  struct Frame {
    NodeId node;
    int64_t count;  // of a kRepeat: how often it came, at most `min` where there is no maximum
    FrameId parent;
    int32_t depth;
    FrameId canonical[2] = {-1, -1};  // by Reach
  };
  struct Closure {
    std::vector<FrameId> stacks;
    int32_t need = 0;
    bool is_cut = false;
    size_t max_stacks = kMaxStacks;
  };
  // What is true of a text whatever its local configuration returns to.
  struct LocalMask {
    TokenMask accepted;
    std::vector<int32_t> open;  // tree nodes where it may have returned: what is below depends
    int32_t need = 0;
    bool is_cut = false;
  };
  struct Configuration {
    std::vector<FrameId> stacks;
    int32_t canonical[2] = {-1, -1};  // by Reach
    bool is_free = false;
    bool returns = false;  // to the bottom, or outside
    std::shared_ptr<const TokenMask> mask;
    // Of those that are canonical; short: of tokens in the short tree, and of no bytes.
    std::shared_ptr<const TokenMask> shared_mask;
    std::shared_ptr<const TokenMask> short_mask;
    bool short_mask_is_cut = false;
    bool shared_mask_is_cut = false;
    std::shared_ptr<const LocalMask> local;
  };
  // A function of where it leads from and the byte alone, as all that is decided by it.
  struct Transition {
    int32_t to = -1;       // not known yet
    uint16_t need = 0;     // the deepest that the way went, with what was still needed there
    bool is_cut = false;   // there were more stacks than there may be
    bool returns = false;  // to the bottom, or outside
  };
  struct Visit {
    int32_t need = 0;
    bool is_cut = false;
  };
  // A stack as nodes and counts from the bottom.
  using Portable = std::vector<std::vector<std::pair<NodeId, int64_t>>>;

  FrameId InternFrame(NodeId node, int64_t count, FrameId parent);
  int32_t Intern(const Closure& closure);
  void Close(NodeId node, int64_t count, FrameId parent, Closure& closure);
  void Add(FrameId stack, Closure& closure);
  Closure NewClosure(size_t max_stacks = kMaxStacks);
  void Step(const std::vector<FrameId>& stacks, uint8_t byte_class, Closure& closure);
  Transition Next(int32_t configuration, uint8_t byte);
  Transition ComputeNext(int32_t configuration, uint8_t byte_class);
  int32_t AdvanceByBytes(int32_t configuration, std::string_view bytes);

  const GrammarNode& NodeOf(FrameId frame) const;
  int64_t CanonicalCount(const GrammarNode& node, int64_t count, Reach reach) const;
  FrameId CanonicalFrame(FrameId frame, Reach reach);
  int32_t Canonical(int32_t configuration, Reach reach);
  FrameId BaseOf(FrameId stack) const;
  FrameId Rebase(FrameId stack, FrameId base);
  Portable Export(int32_t configuration);

  TokenMask NewMask() const { return TokenMask(vocabulary_->num_mask_words(), 0); }
  void Mark(int32_t token, TokenMask& mask) const;
  // Marks all tokens at nodes [first, end) of a tree that may follow; path_ holds what led there.
  template <typename OnNode>
  void Walk(const Tree& tree, size_t first, size_t end, TokenMask& mask, Visit& visit,
            OnNode on_node);
  void WalkAll(const Tree& tree, int32_t configuration, TokenMask& mask, Visit& visit);
  // Below some nodes of the short tree.
  void WalkBelow(int32_t configuration, const std::vector<int32_t>& open, TokenMask& mask,
                 Visit& visit);
  void MarkUnspelt(const std::vector<FrameId>& stacks, TokenMask& mask) const;
  std::shared_ptr<const LocalMask> LocalMaskOf(int32_t local);
  TokenMask ComputeShortMask(int32_t configuration, Visit& visit);
  // These two are null where a bound was met: then masks depend on all of a configuration.
  std::shared_ptr<const TokenMask> ShortMaskOf(int32_t canonical);
  std::shared_ptr<const TokenMask> SharedMaskOf(int32_t canonical);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;
  std::vector<Frame> frames_;
  std::unordered_multimap<uint64_t, FrameId> frame_ids_;
  std::deque<Configuration> configurations_;
  std::vector<Transition> transitions_;  // by configuration and class of byte
  std::unordered_multimap<uint64_t, int32_t> configuration_ids_;
  size_t num_masks_ = 0;

  // Scratch.
  std::vector<uint32_t> seen_;  // by frame: the closure that last had it
  uint32_t closure_ = 0;
  struct Item {
    NodeId node;
    int64_t count;
    FrameId parent;
  };
  std::vector<Item> todo_;
  std::vector<int32_t> path_;  // configurations after 0, 1, ... bytes of a walk
};

}  // namespace cachalot
