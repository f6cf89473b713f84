#include "grammar/configurations.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace cachalot {
namespace {

using Kind = GrammarNode::Kind;

constexpr size_t kManyFrames = 300'000;
constexpr size_t kManyConfigurations = 20'000;
constexpr size_t kManyMasks = 1024;
// A local mask is worth its walk over the whole vocabulary where so many bytes may come.
constexpr size_t kManyBytes = 64;
constexpr size_t kStacksOfOneToken = size_t{1} << 20;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

}  // namespace

Configurations::Configurations(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {
  frames_.push_back({.node = 0, .count = 0, .parent = kBottom, .depth = 0});
  frames_.push_back({.node = 0, .count = 0, .parent = kOutside, .depth = 0});
  frames_[kBottom].canonical[kNear] = frames_[kBottom].canonical[kFar] = kBottom;
  frames_[kOutside].canonical[kNear] = frames_[kOutside].canonical[kFar] = kOutside;
  seen_.resize(2, 0);
  path_.resize(static_cast<size_t>(vocabulary_->max_token_bytes()) + 1);
  CACHALOT_CHECK_EQ(Intern(Closure{}), kDead);
}

// --- configurations ---------------------------------------------------------------------------

const GrammarNode& Configurations::NodeOf(FrameId frame) const {
  return grammar_->nodes[static_cast<size_t>(frames_[static_cast<size_t>(frame)].node)];
}

Configurations::FrameId Configurations::InternFrame(NodeId node, int64_t count, FrameId parent) {
  const uint64_t hash = Mix(Mix(Mix(1, static_cast<uint64_t>(node)), static_cast<uint64_t>(count)),
                            static_cast<uint64_t>(parent));
  const auto [first, end] = frame_ids_.equal_range(hash);
  for (auto it = first; it != end; ++it) {
    const Frame& frame = frames_[static_cast<size_t>(it->second)];
    if (frame.node == node && frame.count == count && frame.parent == parent) {
      return it->second;
    }
  }
  const auto id = static_cast<FrameId>(frames_.size());
  const int32_t depth = frames_[static_cast<size_t>(parent)].depth + 1;
  frames_.push_back({.node = node, .count = count, .parent = parent, .depth = depth});
  seen_.push_back(0);
  frame_ids_.emplace(hash, id);
  return id;
}

int32_t Configurations::Intern(const Closure& closure) {
  uint64_t hash = closure.stacks.size();
  for (const FrameId stack : closure.stacks) {
    hash = Mix(hash, static_cast<uint64_t>(stack));
  }
  int32_t id = -1;
  const auto [first, end] = configuration_ids_.equal_range(hash);
  for (auto it = first; it != end && id < 0; ++it) {
    if (configurations_[static_cast<size_t>(it->second)].stacks == closure.stacks) {
      id = it->second;
    }
  }
  if (id < 0) {
    id = static_cast<int32_t>(configurations_.size());
    Configuration& made = configurations_.emplace_back();
    made.stacks = closure.stacks;
    transitions_.resize(transitions_.size() + static_cast<size_t>(grammar_->num_classes));
    for (const FrameId stack : closure.stacks) {
      made.returns = made.returns || stack <= kOutside;
      made.is_free = made.is_free || (stack > kOutside && NodeOf(stack).kind == Kind::kFree);
    }
    configuration_ids_.emplace(hash, id);
  }
  return id;
}

Configurations::Closure Configurations::NewClosure(size_t max_stacks) {
  ++closure_;
  Closure closure;
  closure.max_stacks = max_stacks;
  return closure;
}

void Configurations::Add(FrameId stack, Closure& closure) {
  if (closure.stacks.size() == closure.max_stacks) {
    closure.is_cut = true;
  } else {
    closure.stacks.push_back(stack);
  }
}

// Adds all stacks that wait for a byte or a token, or are at an end, on the ways from `node`; the
// alternatives of a split in their order.
void Configurations::Close(NodeId node, int64_t count, FrameId parent, Closure& closure) {
  todo_.push_back({node, count, parent});
  while (!todo_.empty()) {
    const Item item = todo_.back();
    todo_.pop_back();
    const GrammarNode& here = grammar_->nodes[static_cast<size_t>(item.node)];
    const bool ends = here.kind == Kind::kReturn;
    if (ends && item.parent > kOutside) {
      const Frame& to = frames_[static_cast<size_t>(item.parent)];
      todo_.push_back({to.node, to.count, to.parent});
      continue;
    }
    const FrameId stack = ends ? item.parent : InternFrame(item.node, item.count, item.parent);
    if (std::exchange(seen_[static_cast<size_t>(stack)], closure_) == closure_) {
      continue;
    }
    const auto enter = [&](NodeId return_to, int64_t return_count) {
      const NodeId body = grammar_->rules[static_cast<size_t>(here.operand)];
      const bool returns_at_once = here.kind == Kind::kCall && here.next == 0;
      const FrameId frame =
          returns_at_once ? item.parent : InternFrame(return_to, return_count, item.parent);
      const int32_t need =
          frames_[static_cast<size_t>(frame)].depth + grammar_->height[static_cast<size_t>(body)];
      closure.need = std::max(closure.need, need);
      // What nests too deep is left out; a way that does not was seen to when `node` was entered.
      if (need <= Grammar::kMaxDepth) {
        todo_.push_back({body, 0, frame});
      }
    };
    switch (here.kind) {
      case Kind::kReturn:
      case Kind::kBytes:
      case Kind::kToken:
      case Kind::kFree:
        Add(stack, closure);
        break;
      case Kind::kCall:
        enter(here.next, 0);
        break;
      case Kind::kRepeat:
        if (item.count >= here.min) {
          todo_.push_back({here.next, 0, item.parent});
        }
        if (here.max == kUnbounded) {
          enter(item.node, std::min(item.count + 1, here.min));
        } else if (item.count < here.max) {
          enter(item.node, item.count + 1);
        }
        break;
      case Kind::kSplit:
        for (int32_t i = here.next; i-- > 0;) {
          todo_.push_back({grammar_->edges[static_cast<size_t>(here.operand + i)], 0, item.parent});
        }
        break;
    }
  }
}

void Configurations::Step(const std::vector<FrameId>& stacks, uint8_t byte_class,
                          Closure& closure) {
  for (const FrameId stack : stacks) {
    if (stack <= kOutside) {
      continue;
    }
    const GrammarNode& node = NodeOf(stack);
    if (node.kind == Kind::kFree) {
      Close(frames_[static_cast<size_t>(stack)].node, 0, frames_[static_cast<size_t>(stack)].parent,
            closure);
    } else if (node.kind == Kind::kBytes &&
               grammar_->class_sets[static_cast<size_t>(node.operand)][byte_class]) {
      Close(node.next, 0, frames_[static_cast<size_t>(stack)].parent, closure);
    }
  }
}

Configurations::Transition Configurations::ComputeNext(int32_t configuration, uint8_t byte_class) {
  Closure closure = NewClosure();
  Step(configurations_[static_cast<size_t>(configuration)].stacks, byte_class, closure);
  Transition made;
  made.to = Intern(closure);
  made.need = static_cast<uint16_t>(closure.need);
  made.is_cut = closure.is_cut;
  made.returns = configurations_[static_cast<size_t>(made.to)].returns;
  transitions_[static_cast<size_t>(configuration * grammar_->num_classes + byte_class)] = made;
  return made;
}

inline Configurations::Transition Configurations::Next(int32_t configuration, uint8_t byte) {
  const uint8_t byte_class = grammar_->class_of[byte];
  const Transition known =
      transitions_[static_cast<size_t>(configuration * grammar_->num_classes + byte_class)];
  return known.to >= 0 ? known : ComputeNext(configuration, byte_class);
}

int32_t Configurations::Start() {
  const std::lock_guard lock(mutex_);
  Closure closure = NewClosure();
  Close(grammar_->rules[static_cast<size_t>(grammar_->root)], 0, kBottom, closure);
  return Intern(closure);
}

Configurations::Portable Configurations::Export(int32_t configuration) {
  const std::lock_guard lock(mutex_);
  Portable portable;
  for (FrameId stack : configurations_[static_cast<size_t>(configuration)].stacks) {
    auto& frames = portable.emplace_back();
    for (; stack > kOutside; stack = frames_[static_cast<size_t>(stack)].parent) {
      const Frame& frame = frames_[static_cast<size_t>(stack)];
      frames.emplace_back(frame.node, frame.count);
    }
    std::reverse(frames.begin(), frames.end());
  }
  return portable;
}

int32_t Configurations::Import(Configurations& other, int32_t configuration) {
  const Portable portable = other.Export(configuration);
  const std::lock_guard lock(mutex_);
  Closure closure;
  for (const auto& frames : portable) {
    FrameId stack = kBottom;
    for (const auto& [node, count] : frames) {
      stack = InternFrame(node, count, stack);
    }
    closure.stacks.push_back(stack);
  }
  return Intern(closure);
}

int32_t Configurations::AdvanceByBytes(int32_t configuration, std::string_view bytes) {
  int32_t at = configuration;
  for (const char byte : bytes) {
    at = Next(at, static_cast<uint8_t>(byte)).to;
  }
  if (at != kDead) {
    return at;
  }
  // A mask shared by many configurations may allow what this one has left out: without a bound it
  // is found.
  Closure closure;
  closure.stacks = configurations_[static_cast<size_t>(configuration)].stacks;
  for (const char byte : bytes) {
    const std::vector<FrameId> from = std::move(closure.stacks);
    closure = NewClosure(kStacksOfOneToken);
    Step(from, grammar_->class_of[static_cast<uint8_t>(byte)], closure);
  }
  closure.stacks.resize(std::min(closure.stacks.size(), kMaxStacks));
  return Intern(closure);
}

int32_t Configurations::Advance(int32_t configuration, int32_t token) {
  const std::lock_guard lock(mutex_);
  const std::string_view bytes = vocabulary_->bytes(token);
  if (!bytes.empty()) {
    return AdvanceByBytes(configuration, bytes);
  }
  Closure closure = NewClosure();
  for (const FrameId stack :
       std::vector<FrameId>(configurations_[static_cast<size_t>(configuration)].stacks)) {
    if (stack <= kOutside) {
      continue;
    }
    const GrammarNode& node = NodeOf(stack);
    const Frame frame = frames_[static_cast<size_t>(stack)];
    if (node.kind == Kind::kFree) {
      Close(frame.node, 0, frame.parent, closure);
    } else if (node.kind == Kind::kToken && node.operand == token) {
      Close(node.next, 0, frame.parent, closure);
    }
  }
  return Intern(closure);
}

bool Configurations::IsComplete(int32_t configuration) {
  const std::lock_guard lock(mutex_);
  const Configuration& found = configurations_[static_cast<size_t>(configuration)];
  return found.returns || found.is_free;
}

bool Configurations::IsOver(int32_t configuration) {
  const std::lock_guard lock(mutex_);
  return configurations_[static_cast<size_t>(configuration)].stacks ==
         std::vector<FrameId>{kBottom};
}

bool Configurations::is_full() {
  const std::lock_guard lock(mutex_);
  return frames_.size() > kManyFrames || configurations_.size() > kManyConfigurations ||
         num_masks_ > kManyMasks;
}

// --- what different configurations have in common ----------------------------------------------

// A repetition consumes a byte at least, so counts that are farther from their bounds than a mask
// looks ahead are all alike.
int64_t Configurations::CanonicalCount(const GrammarNode& node, int64_t count, Reach reach) const {
  if (node.kind != Kind::kRepeat) {
    return count;
  }
  const int64_t beyond =
      2 + (reach == kNear ? GrammarVocabulary::kShortBytes : vocabulary_->max_token_bytes());
  const int64_t to_min = std::max<int64_t>(node.min - count, 0);
  if (node.max != kUnbounded && node.max - count < beyond) {
    return count;
  }
  return to_min >= beyond ? 0 : to_min == 0 ? node.min : count;
}

Configurations::FrameId Configurations::CanonicalFrame(FrameId frame, Reach reach) {
  if (frames_[static_cast<size_t>(frame)].canonical[reach] < 0) {
    const Frame copy = frames_[static_cast<size_t>(frame)];
    const int64_t count = CanonicalCount(NodeOf(frame), copy.count, reach);
    const FrameId parent = CanonicalFrame(copy.parent, reach);
    const FrameId canonical = InternFrame(copy.node, count, parent);
    frames_[static_cast<size_t>(frame)].canonical[reach] = canonical;
  }
  return frames_[static_cast<size_t>(frame)].canonical[reach];
}

int32_t Configurations::Canonical(int32_t configuration, Reach reach) {
  Configuration& from = configurations_[static_cast<size_t>(configuration)];
  if (from.canonical[reach] < 0) {
    std::vector<FrameId> canonical;
    for (const FrameId stack : from.stacks) {
      canonical.push_back(CanonicalFrame(stack, reach));
    }
    Closure closure = NewClosure();
    for (const FrameId stack : canonical) {
      if (std::exchange(seen_[static_cast<size_t>(stack)], closure_) != closure_) {
        Add(stack, closure);
      }
    }
    from.canonical[reach] = Intern(closure);
  }
  return from.canonical[reach];
}

// The frame below the rule that a stack is in. A character that is repeated belongs to the rule of
// its string.
Configurations::FrameId Configurations::BaseOf(FrameId stack) const {
  FrameId base = frames_[static_cast<size_t>(stack)].parent;
  if (base > kOutside && NodeOf(base).kind == Kind::kRepeat &&
      grammar_->is_repeated_leaf[static_cast<size_t>(NodeOf(base).operand)]) {
    base = frames_[static_cast<size_t>(base)].parent;
  }
  return base;
}

// The same stack over kOutside instead of `base`.
Configurations::FrameId Configurations::Rebase(FrameId stack, FrameId base) {
  if (stack == base) {
    return kOutside;
  }
  const Frame frame = frames_[static_cast<size_t>(stack)];
  return InternFrame(frame.node, frame.count, Rebase(frame.parent, base));
}

// --- masks --------------------------------------------------------------------------------------

void Configurations::Mark(int32_t token, TokenMask& mask) const {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
}

template <typename OnNode>
void Configurations::Walk(const Tree& tree, size_t first, size_t end, TokenMask& mask, Visit& visit,
                          OnNode on_node) {
  for (size_t i = first; i < end;) {
    const GrammarVocabulary::TreeNode& node = tree[i];
    const Transition next = Next(path_[size_t{node.depth} - 1], node.byte);
    visit.need = std::max(visit.need, int32_t{next.need});
    visit.is_cut = visit.is_cut || next.is_cut;
    if (next.to == kDead) {
      i += static_cast<size_t>(node.size);
      continue;
    }
    path_[node.depth] = next.to;
    if (node.token >= 0) {
      Mark(node.token, mask);
      for (int32_t id = node.token; node.has_more && id >= 0; id = vocabulary_->next_of(id)) {
        Mark(id, mask);
      }
    }
    on_node(i, next);
    ++i;
  }
}

void Configurations::WalkAll(const Tree& tree, int32_t configuration, TokenMask& mask,
                             Visit& visit) {
  path_[0] = configuration;
  Walk(tree, 0, tree.size(), mask, visit, [](size_t, Transition) {});
}

void Configurations::WalkBelow(int32_t configuration, const std::vector<int32_t>& open,
                               TokenMask& mask, Visit& visit) {
  const Tree& tree = vocabulary_->short_tree();
  path_[0] = configuration;
  size_t done = 0;
  for (const int32_t root : open) {
    const auto first = static_cast<size_t>(root);
    if (first < done) {
      continue;
    }
    done = first + static_cast<size_t>(tree[first].size);
    std::vector<uint8_t> bytes;
    for (int32_t node = root; node >= 0; node = tree[static_cast<size_t>(node)].parent) {
      bytes.push_back(tree[static_cast<size_t>(node)].byte);
    }
    std::reverse(bytes.begin(), bytes.end());
    for (size_t depth = 0; depth < bytes.size(); ++depth) {
      const Transition next = Next(path_[depth], bytes[depth]);
      visit.need = std::max(visit.need, int32_t{next.need});
      visit.is_cut = visit.is_cut || next.is_cut;
      path_[depth + 1] = next.to;
    }
    if (path_[bytes.size()] != kDead) {
      Walk(tree, first + 1, done, mask, visit, [](size_t, Transition) {});
    }
  }
}

std::shared_ptr<const Configurations::LocalMask> Configurations::LocalMaskOf(int32_t local) {
  Configuration& configuration = configurations_[static_cast<size_t>(local)];
  if (!configuration.local) {
    auto made = std::make_shared<LocalMask>();
    made->accepted = NewMask();
    Visit visit;
    path_[0] = local;
    const Tree& tree = vocabulary_->short_tree();
    Walk(tree, 0, tree.size(), made->accepted, visit, [&](size_t i, Transition at) {
      if (at.returns && tree[i].size > 1) {
        made->open.push_back(static_cast<int32_t>(i));
      }
    });
    made->need = visit.need;
    made->is_cut = visit.is_cut;
    ++num_masks_;
    configuration.local = std::move(made);
  }
  return configuration.local;
}

void Configurations::MarkUnspelt(const std::vector<FrameId>& stacks, TokenMask& mask) const {
  for (const FrameId stack : stacks) {
    if (stack == kBottom) {
      for (const int32_t id : vocabulary_->stop_ids()) {
        Mark(id, mask);
      }
    } else if (NodeOf(stack).kind == Kind::kToken) {
      Mark(NodeOf(stack).operand, mask);
    }
  }
}

// By rule: where many bytes may come, what stays within the rule is the same wherever the rule was
// called from, so that only tokens that leave it are looked at.
TokenMask Configurations::ComputeShortMask(int32_t configuration, Visit& visit) {
  TokenMask mask = NewMask();
  const std::vector<FrameId> stacks = configurations_[static_cast<size_t>(configuration)].stacks;
  MarkUnspelt(stacks, mask);
  std::vector<std::pair<FrameId, std::vector<FrameId>>> groups;  // by base
  for (const FrameId stack : stacks) {
    if (stack > kOutside && NodeOf(stack).kind == Kind::kBytes) {
      const FrameId base = BaseOf(stack);
      const auto found = std::find_if(groups.begin(), groups.end(),
                                      [&](const auto& group) { return group.first == base; });
      if (found == groups.end()) {
        groups.push_back({base, {stack}});
      } else {
        found->second.push_back(stack);
      }
    }
  }
  Closure rest;
  for (const auto& [base, members] : groups) {
    ByteSet bytes;
    for (const FrameId stack : members) {
      bytes |= grammar_->byte_sets[static_cast<size_t>(NodeOf(stack).operand)];
    }
    bool is_done = false;
    if (bytes.count() >= kManyBytes) {
      Closure local;
      for (const FrameId stack : members) {
        local.stacks.push_back(Rebase(stack, base));
      }
      const auto found = LocalMaskOf(Intern(local));
      if (!found->is_cut &&
          frames_[static_cast<size_t>(base)].depth + found->need <= Grammar::kMaxDepth) {
        for (size_t i = 0; i < mask.size(); ++i) {
          mask[i] |= found->accepted[i];
        }
        Closure group;
        group.stacks = members;
        WalkBelow(Intern(group), found->open, mask, visit);
        is_done = true;
      }
    }
    if (!is_done) {
      rest.stacks.insert(rest.stacks.end(), members.begin(), members.end());
    }
  }
  WalkAll(vocabulary_->short_tree(), Intern(rest), mask, visit);
  return mask;
}

std::shared_ptr<const TokenMask> Configurations::ShortMaskOf(int32_t canonical) {
  Configuration& configuration = configurations_[static_cast<size_t>(canonical)];
  if (!configuration.short_mask && !configuration.short_mask_is_cut) {
    Visit visit;
    auto mask = std::make_shared<const TokenMask>(ComputeShortMask(canonical, visit));
    configuration.short_mask_is_cut = visit.is_cut;
    if (!visit.is_cut) {
      configuration.short_mask = std::move(mask);
      ++num_masks_;
    }
  }
  return configuration.short_mask;
}

std::shared_ptr<const TokenMask> Configurations::SharedMaskOf(int32_t canonical) {
  Configuration& configuration = configurations_[static_cast<size_t>(canonical)];
  if (!configuration.shared_mask && !configuration.shared_mask_is_cut) {
    const auto short_mask = ShortMaskOf(Canonical(canonical, kNear));
    Visit visit = {0, short_mask == nullptr};
    if (!visit.is_cut) {
      auto mask = std::make_shared<TokenMask>(*short_mask);
      WalkAll(vocabulary_->long_tree(), canonical, *mask, visit);
      if (!visit.is_cut) {
        configuration.shared_mask = std::move(mask);
        ++num_masks_;
      }
    }
    configuration.shared_mask_is_cut = visit.is_cut;
  }
  return configuration.shared_mask;
}

std::shared_ptr<const TokenMask> Configurations::MaskOf(int32_t configuration) {
  const std::lock_guard lock(mutex_);
  Configuration& exact = configurations_[static_cast<size_t>(configuration)];
  if (exact.is_free) {
    return nullptr;
  }
  if (!exact.mask) {
    exact.mask = SharedMaskOf(Canonical(configuration, kFar));
  }
  if (!exact.mask) {
    auto mask = std::make_shared<TokenMask>(NewMask());
    MarkUnspelt(exact.stacks, *mask);
    Visit ignored;
    WalkAll(vocabulary_->short_tree(), configuration, *mask, ignored);
    WalkAll(vocabulary_->long_tree(), configuration, *mask, ignored);
    exact.mask = std::move(mask);
    ++num_masks_;
  }
  return exact.mask;
}

}  // namespace cachalot
