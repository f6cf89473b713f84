#include "grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "grammar/answer_constraint.h"
#include "grammar/configurations.h"
#include "grammar/json_schema.h"
#include "grammar/test_vocabulary.h"
#include "grammar/tool_calls.h"

namespace cachalot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> AllowedIds(TokenConstraint& constraint, int32_t size) {
  std::vector<int32_t> ids;
  const auto mask = constraint.Allowed();
  for (int32_t id = 0; id < size; ++id) {
    if (IsAllowed(mask, id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

// --- the automaton in plain: every stack by itself, nothing kept ---------------------------------

class PlainAutomaton {
 public:
  using Stack = std::vector<std::pair<NodeId, int64_t>>;  // from the bottom; the last is to go on
  using Stacks = std::set<Stack>;

  explicit PlainAutomaton(const Grammar& grammar) : grammar_(grammar) {}

  Stacks Start() const {
    Stacks stacks;
    Close({{grammar_.rules[static_cast<size_t>(grammar_.root)], 0}}, stacks);
    return stacks;
  }

  Stacks After(const Stacks& stacks, std::string_view bytes) const {
    Stacks now = stacks;
    for (const char byte : bytes) {
      Stacks next;
      for (const Stack& stack : now) {
        if (stack.empty()) {
          continue;
        }
        const GrammarNode& node = NodeAt(stack.back().first);
        if (node.kind == GrammarNode::Kind::kFree) {
          next.insert(stack);
        } else if (node.kind == GrammarNode::Kind::kBytes &&
                   grammar_
                       .byte_sets[static_cast<size_t>(node.operand)][static_cast<uint8_t>(byte)]) {
          Stack to = stack;
          to.back() = {node.next, 0};
          Close(to, next);
        }
      }
      now = std::move(next);
    }
    return now;
  }

 private:
  const GrammarNode& NodeAt(NodeId id) const { return grammar_.nodes[static_cast<size_t>(id)]; }

  void Close(Stack stack, Stacks& out) const {
    const auto [id, count] = stack.back();
    const GrammarNode& node = NodeAt(id);
    const auto go = [&](NodeId next) {
      Stack to = stack;
      to.back() = {next, 0};
      Close(std::move(to), out);
    };
    const auto enter = [&](NodeId back, int64_t back_count) {
      Stack to = stack;
      to.pop_back();
      if (node.kind != GrammarNode::Kind::kCall || node.next != 0) {
        to.emplace_back(back, back_count);
      }
      const NodeId body = grammar_.rules[static_cast<size_t>(node.operand)];
      if (static_cast<int32_t>(to.size()) + grammar_.height[static_cast<size_t>(body)] <=
          Grammar::kMaxDepth) {
        to.emplace_back(body, 0);
        Close(std::move(to), out);
      }
    };
    switch (node.kind) {
      case GrammarNode::Kind::kBytes:
      case GrammarNode::Kind::kToken:
      case GrammarNode::Kind::kFree:
        out.insert(std::move(stack));
        break;
      case GrammarNode::Kind::kReturn:
        stack.pop_back();
        if (stack.empty()) {
          out.insert(stack);
        } else {
          Close(std::move(stack), out);
        }
        break;
      case GrammarNode::Kind::kCall:
        enter(node.next, 0);
        break;
      case GrammarNode::Kind::kRepeat:
        if (count < node.max) {
          enter(id, node.max == kUnbounded ? std::min(count + 1, node.min) : count + 1);
        }
        if (count >= node.min) {
          go(node.next);
        }
        break;
      case GrammarNode::Kind::kSplit:
        for (int32_t i = 0; i < node.next; ++i) {
          go(grammar_.edges[static_cast<size_t>(node.operand + i)]);
        }
        break;
    }
  }

  const Grammar& grammar_;
};

class RandomGrammar {
 public:
  explicit RandomGrammar(std::mt19937& random) : random_(random) {}

  Result<Grammar> Make() {
    constexpr int kRules = 4;
    for (int i = 0; i < kRules; ++i) {
      rules_.push_back(builder_.DeclareRule("rule"));
    }
    for (int i = 0; i < kRules; ++i) {
      // Never empty, so that any may be repeated.
      builder_.DefineRule(rules_[static_cast<size_t>(i)], Byte(Piece(3, builder_.Return())));
    }
    return std::move(builder_).Build(rules_.front());
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  NodeId Byte(NodeId next) {
    switch (Below(6)) {
      case 0:
        return builder_.Bytes(ByteRange(0x20, 0x7F) & ~BytesIn("ab"), next);  // very many
      case 1:
        return builder_.Bytes(BytesIn("abc"), next);
      default:
        return builder_.Bytes(ByteRange(static_cast<uint8_t>('a' + Below(3)), 'c'), next);
    }
  }

  NodeId Piece(int depth, NodeId next) {
    const RuleId rule = rules_[static_cast<size_t>(Below(static_cast<int>(rules_.size())))];
    switch (depth == 0 ? 0 : Below(7)) {
      case 0:
        return Byte(next);
      case 1:
        return builder_.Call(rule, Piece(depth - 1, next));
      case 2: {
        const int64_t min = Below(4) == 0 ? 12 : Below(3);
        return builder_.Repeat(rule, min, Below(2) == 0 ? kUnbounded : min + Below(20) + 1, next);
      }
      case 3:
        return builder_.Split({Piece(depth - 1, next), Piece(depth - 1, next)});
      case 4: {
        const NodeId loop = builder_.OpenSplit();
        builder_.CloseSplit(loop, {Byte(loop), next});
        return loop;
      }
      case 5:
        return builder_.Optional(Piece(depth - 1, next), next);
      default:
        return Piece(depth - 1, Piece(depth - 1, next));
    }
  }

  std::mt19937& random_;
  GrammarBuilder builder_;
  std::vector<RuleId> rules_;
};

void ExpectMasksOfPlainAutomaton(const Grammar& grammar, const TestVocabulary& test,
                                 std::string_view begin, size_t steps, std::mt19937& random) {
  const PlainAutomaton plain(grammar);
  GrammarConstraint constraint(Compile(grammar, test));
  PlainAutomaton::Stacks at = plain.Start();
  for (const char byte : begin) {
    constraint.Accept(static_cast<uint8_t>(byte));
  }
  at = plain.After(at, begin);
  std::string text(begin);
  for (size_t step = 0; step < steps && at.size() < 100; ++step) {
    const auto mask = constraint.Allowed();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < test.vocabulary->size(); ++id) {
      if (IsAllowed(mask, id)) {
        allowed.push_back(id);
      }
      if (id < 256 && id != 'a' && id % 16 != static_cast<int32_t>(step % 16)) {
        continue;  // a few of the bytes will do
      }
      const std::string& bytes = test.bytes[static_cast<size_t>(id)];
      const bool expected =
          id == test.stop ? at.contains({}) : !bytes.empty() && !plain.After(at, bytes).empty();
      ASSERT_EQ(IsAllowed(mask, id), expected) << "after " << text << ": token " << bytes;
    }
    ASSERT_FALSE(allowed.empty()) << "after " << text;
    // Long tokens are rarer than bytes.
    int32_t id = allowed[random() % allowed.size()];
    if (id >= 256 || allowed.back() < 256) {
      if (id == test.stop) {
        return;
      }
    } else if (random() % 2 == 0 && allowed.back() != test.stop) {
      id = allowed.back();
    }
    text += test.bytes[static_cast<size_t>(id)];
    at = plain.After(at, test.bytes[static_cast<size_t>(id)]);
    const bool more = constraint.Accept(id);
    ASSERT_EQ(more, at != PlainAutomaton::Stacks{{}});
    if (!more) {
      return;
    }
  }
}

TEST(GrammarMasks, EqualThoseOfEachTokenTriedByItself) {
  std::mt19937 random(7);
  int built = 0;
  for (int round = 0; round < 50; ++round) {
    auto grammar = RandomGrammar(random).Make();
    if (!grammar) {
      continue;
    }
    ++built;
    std::vector<std::string> tokens;
    for (int i = 0; i < 60; ++i) {
      std::string& token = tokens.emplace_back();
      for (size_t length = 1 + random() % 6; length > 0; --length) {
        token += "abcx "[random() % 5];
      }
    }
    const TestVocabulary test(tokens);
    for (int answer = 0; answer < 2 && !HasFatalFailure(); ++answer) {
      ExpectMasksOfPlainAutomaton(*grammar, test, "", 25, random);
    }
  }
  EXPECT_GT(built, 20);
}

TEST(GrammarMasks, EqualThoseOfEachTokenNearTheDeepestNesting) {
  std::mt19937 random(8);
  const Grammar grammar = AnyJsonObject();
  const TestVocabulary test({"[[", "[[[[", "]]", "[\"", "{\"a\":", "\"]", "\",[[[", "1,"});
  for (const size_t levels : {498}) {
    const std::string begin = "{\"\":" + std::string(levels, '[');
    ExpectMasksOfPlainAutomaton(grammar, test, begin, 2, random);
    ExpectMasksOfPlainAutomaton(grammar, test, begin + "\"", 1, random);
  }
}

TEST(GrammarMasks, OfTextsThatNestEndAtTheDeepestNesting) {
  GrammarBuilder builder;
  const RuleId group = builder.DeclareRule("group");
  const NodeId loop = builder.OpenSplit();
  builder.CloseSplit(loop, {builder.Bytes(ByteRange(0x20, 0x7F) & ~BytesIn("()"), loop),
                            builder.Call(group, loop), builder.Literal(")", builder.Return())});
  builder.DefineRule(group, builder.Literal("(", loop));
  const Grammar grammar = std::move(builder).Build(group).value();
  const TestVocabulary test({"((", "(((", "a((((", "))((", ")a)"});
  std::mt19937 random(10);
  for (const size_t levels : {490, 497, 498, 499, 500, 501}) {
    ExpectMasksOfPlainAutomaton(grammar, test, std::string(levels, '('), 1, random);
  }
}

TEST(GrammarMasks, AreTheSameWhereCountsAreFarFromTheirBounds) {
  const OrderedJson schema = {{"type", "string"}, {"minLength", 40}, {"maxLength", 90}};
  const Grammar grammar = GrammarOfJsonSchema(schema).value();
  std::mt19937 random(9);
  const TestVocabulary test({"aa", "aaaa", "a\"", "aaaaaaaa\"", "\\u00", "é", "\xC3",
                             std::string(17, 'a'), std::string(30, 'a') + "\""});
  for (const size_t length :
       {0, 5, 10, 25, 30, 38, 39, 40, 57, 60, 61, 73, 74, 80, 82, 88, 89, 90}) {
    ExpectMasksOfPlainAutomaton(grammar, test, "\"" + std::string(length, 'a'), 1, random);
  }
}

TEST(GrammarConstraints, GoOnWithNewCachesWhereTheOldAreFull) {
  const OrderedJson schema = {{"type", "array"},
                              {"items", {{"type", "string"}, {"maxLength", 22'000}}}};
  const TestVocabulary test({"aaaa"});
  const auto compiled = Compile(GrammarOfJsonSchema(schema).value(), test);
  const auto first = compiled->caches();
  GrammarConstraint constraint(compiled);
  constraint.Accept('[');
  constraint.Accept('"');
  for (int i = 0; i < 22'000; ++i) {
    const auto mask = constraint.Allowed();
    ASSERT_TRUE(IsAllowed(mask, 'a')) << i;
    ASSERT_EQ(IsAllowed(mask, 256), i <= 22'000 - 4) << i;
    constraint.Accept('a');
  }
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()), ElementsAre('"'));
  EXPECT_NE(compiled->caches(), first);
}

TEST(GrammarConstraints, OfManyThreadsShareOneGrammar) {
  const TestVocabulary test({"{\"a\":", "\": [", "],\"b", "\"}", "1,2", "abc"});
  const auto run = [&](const std::shared_ptr<CompiledGrammar>& compiled, unsigned seed) {
    std::mt19937 random(seed);
    GrammarConstraint constraint(compiled);
    std::vector<int32_t> ids;
    for (int step = 0; step < 200; ++step) {
      const auto allowed = AllowedIds(constraint, test.vocabulary->size());
      const int32_t id = allowed[random() % allowed.size()];
      if (id == test.stop) {
        break;
      }
      ids.push_back(id);
      if (!constraint.Accept(id)) {
        break;
      }
    }
    return ids;
  };
  const auto shared = Compile(AnyJsonObject(), test);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] { found[i] = run(shared, i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (unsigned i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], run(Compile(AnyJsonObject(), test), i));
  }
}

// Each level may be any of two: without a bound there would be 2^depth stacks.
TEST(GrammarConstraints, FollowABoundedNumberOfWays) {
  const auto schema = ParseOrderedJson(R"({"$ref": "#/$defs/x", "$defs": {"x": {"anyOf": [
      {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 1},
      {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}]}}})",
                                       "schema");
  const TestVocabulary test({"[[[[", "]]]", "null,", "]]]]"});
  const auto compiled = Compile(GrammarOfJsonSchema(*schema).value(), test);
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    GrammarConstraint constraint(compiled);
    for (int i = 0; i < 30; ++i) {
      constraint.Accept('[');
    }
    for (int i = 0; i < 40; ++i) {
      const auto allowed = AllowedIds(constraint, test.vocabulary->size());
      ASSERT_FALSE(allowed.empty());
      const int32_t id = allowed[random() % allowed.size()];
      if (id == test.stop || !constraint.Accept(id)) {
        break;
      }
    }
  }
}

// --- builder and vocabulary ----------------------------------------------------------------------

TEST(GrammarBuilder, RefusesWhatHasNoEndOrBeginsWithItself) {
  const auto build = [](auto define) {
    GrammarBuilder builder;
    const RuleId root = builder.DeclareRule("root");
    const RuleId other = builder.DeclareRule("other");
    define(builder, root, other);
    auto grammar = std::move(builder).Build(root);
    return grammar ? std::string("built") : grammar.error().message;
  };
  EXPECT_EQ(build([](GrammarBuilder& b, RuleId root, RuleId other) {
              b.DefineRule(root, b.Literal("a", b.Call(other, b.Return())));
              b.DefineRule(other, b.Optional(b.Literal("b", b.Call(root, b.Return())), b.Return()));
            }),
            "built");
  EXPECT_THAT(build([](GrammarBuilder& b, RuleId root, RuleId) {
                b.DefineRule(root, b.Literal("a", b.Call(root, b.Return())));
              }),
              HasSubstr("root: nothing satisfies"));
  EXPECT_THAT(build([](GrammarBuilder& b, RuleId root, RuleId other) {
                b.DefineRule(root, b.Optional(b.Call(other, b.Literal("x", b.Return())),
                                              b.Literal("y", b.Return())));
                b.DefineRule(other, b.Call(root, b.Return()));
              }),
              HasSubstr("begins with itself"));
  EXPECT_THAT(build([](GrammarBuilder& b, RuleId root, RuleId) {
                b.DefineRule(root, b.Optional(b.Literal("a", b.Return()), b.Return()));
              }),
              HasSubstr("empty text"));
}

TEST(GrammarBuilder, RefusesMoreNodesThanItMayHave) {
  GrammarBuilder builder(100);
  const RuleId root = builder.DeclareRule("root");
  builder.DefineRule(root, builder.Literal(std::string(200, 'a'), builder.Return()));
  EXPECT_TRUE(builder.is_full());
  const auto grammar = std::move(builder).Build(root);
  ASSERT_FALSE(grammar);
  EXPECT_THAT(grammar.error().message, HasSubstr("more than 100 nodes"));
}

TEST(GrammarVocabularies, AreRefusedWhereAnAnswerCouldNotEnd) {
  EXPECT_FALSE(GrammarVocabulary::Make({"a", ""}, {}));
  EXPECT_FALSE(GrammarVocabulary::Make({"a", ""}, {2}));
  EXPECT_FALSE(GrammarVocabulary::Make({"a", ""}, {0}));
  const auto letters = GrammarVocabulary::Make({"{", "}", "{}", ""}, {3}).value();
  const auto compiled = CompiledGrammar::Make(AnyJsonObject(), letters);
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error().message, HasSubstr("no token for the byte 0x"));
  const std::vector<std::string> names = {"a"};
  const TestVocabulary test;
  EXPECT_FALSE(CompiledGrammar::Make(ForcedToolCall(names, 'a').value(), test.vocabulary));
  EXPECT_FALSE(CompiledGrammar::Make(ForcedToolCall(names, 1000).value(), test.vocabulary));
}

TEST(GrammarVocabularies, MayHaveManyTokensOfTheSameBytes) {
  const TestVocabulary test({"{", "{", "{\"", "{\""});
  GrammarConstraint constraint(Compile(AnyJsonObject(), test));
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()),
              ElementsAre('{', 256, 257, 258, 259));
}

// --- whole answers -------------------------------------------------------------------------------

class Answers : public testing::Test {
 protected:
  AnswerConstraint Make(bool thinks, std::optional<int64_t> budget, bool has_grammar) {
    return AnswerConstraint(test_.vocabulary,
                            {.begins_with_thinking = thinks,
                             .think_close = test_.think_close,
                             .thinking_budget = budget,
                             .grammar = has_grammar ? Compile(AnyJsonObject(), test_) : nullptr});
  }

  TestVocabulary test_{{"word", "{\""}};
};

TEST_F(Answers, ThinkFreelyAndThenFollowTheirGrammarAtOnce) {
  AnswerConstraint answer = Make(true, {}, true);
  for (const int32_t id : {int32_t{'{'}, int32_t{'\n'}, 256, test_.dsml}) {
    EXPECT_TRUE(IsAllowed(answer.Allowed(), id));
    EXPECT_TRUE(answer.Accept(id));
  }
  EXPECT_FALSE(IsAllowed(answer.Allowed(), test_.stop));
  EXPECT_TRUE(IsAllowed(answer.Allowed(), test_.think_close));
  EXPECT_TRUE(answer.Accept(test_.think_close));
  EXPECT_THAT(AllowedIds(answer, test_.vocabulary->size()), ElementsAre('{', 257));
  EXPECT_TRUE(answer.Accept('{'));
  EXPECT_FALSE(answer.Accept('}'));
}

TEST_F(Answers, StopThinkingAtTheirBudget) {
  for (const bool has_grammar : {false, true}) {
    AnswerConstraint answer = Make(true, 2, has_grammar);
    for (int i = 0; i < 2; ++i) {
      EXPECT_GT(AllowedIds(answer, test_.vocabulary->size()).size(), 256U);
      EXPECT_EQ(IsAllowed(answer.Allowed(), test_.stop), !has_grammar);
      EXPECT_TRUE(answer.Accept('x'));
    }
    EXPECT_THAT(AllowedIds(answer, test_.vocabulary->size()), ElementsAre(test_.think_close));
    EXPECT_TRUE(answer.Accept(test_.think_close));
    EXPECT_EQ(IsAllowed(answer.Allowed(), 'x'), !has_grammar);
  }
  AnswerConstraint none = Make(true, 0, false);
  EXPECT_THAT(AllowedIds(none, test_.vocabulary->size()), ElementsAre(test_.think_close));
}

TEST_F(Answers, ThatDoNotThinkBeginWithTheirGrammarOrAreFree) {
  AnswerConstraint strict = Make(false, {}, true);
  EXPECT_THAT(AllowedIds(strict, test_.vocabulary->size()), ElementsAre('{', 257));
  AnswerConstraint free = Make(false, 3, false);
  EXPECT_TRUE(free.Allowed().empty());
  EXPECT_TRUE(free.Accept(test_.think_close));
}

// --- tool calls ----------------------------------------------------------------------------------

TEST(ForcedToolCalls, AreOneOfTheToolsInTheMarkupOfPrompts) {
  const TestVocabulary test({"\n\n<", "tool_calls", ">\n<", "invoke", " name=\"", "\">\n",
                             "｜DSML｜", "\n\n", "\">\nx", "get_weather", "get_time"});
  const auto id_of = [&](std::string_view bytes) {
    return static_cast<int32_t>(std::find(test.bytes.begin(), test.bytes.end(), bytes) -
                                test.bytes.begin());
  };
  const std::vector<std::string> names = {"get_weather", "get_time"};
  const auto compiled = Compile(ForcedToolCall(names, test.dsml).value(), test);
  GrammarConstraint constraint(compiled);
  const auto write = [&](int32_t id) {
    EXPECT_TRUE(IsAllowed(constraint.Allowed(), id)) << id;
    EXPECT_TRUE(constraint.Accept(id));
  };
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()),
              ElementsAre('\n', id_of("\n\n<"), id_of("\n\n")));
  write(id_of("\n\n<"));
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()), ElementsAre(test.dsml));
  write(test.dsml);
  write(id_of("tool_calls"));
  write(id_of(">\n<"));
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()), ElementsAre(test.dsml));
  write(test.dsml);
  write(id_of("invoke"));
  write(id_of(" name=\""));
  EXPECT_THAT(AllowedIds(constraint, test.vocabulary->size()),
              ElementsAre('g', id_of("get_weather"), id_of("get_time")));
  write(id_of("get_time"));
  EXPECT_FALSE(constraint.is_complete());
  write(id_of("\">\nx"));
  EXPECT_TRUE(constraint.is_complete());
  for (const int32_t id : {test.dsml, int32_t{0xFF}, test.think_close, id_of("｜DSML｜")}) {
    EXPECT_TRUE(constraint.Allowed().empty());
    EXPECT_TRUE(constraint.Accept(id));
  }
}

// As where a client has the model go on behind its end-of-sentence mark.
TEST(GrammarConstraints, EndWithAStopIdThatNobodyStopsAt) {
  const TestVocabulary test;
  GrammarConstraint number(Compile(GrammarOfJsonSchema({{"type", "integer"}}).value(), test));
  EXPECT_TRUE(number.Accept('1'));
  EXPECT_TRUE(IsAllowed(number.Allowed(), test.stop));
  EXPECT_FALSE(number.Accept(test.stop));
}

TEST(ToolCalls, MayStandInPlaceOfJson) {
  const TestVocabulary test({"\n\n<"});
  const std::vector<std::string> names = {"f"};
  const auto compiled =
      Compile(GrammarOfJsonSchemaOr(
                  OrderedJson{{"enum", {12}}},
                  [&](GrammarBuilder& builder) { return AddToolCall(builder, names, test.dsml); })
                  .value(),
              test);
  GrammarConstraint json(compiled);
  EXPECT_THAT(AllowedIds(json, test.vocabulary->size()), ElementsAre('\n', '1', 256));
  EXPECT_TRUE(json.Accept('1'));
  EXPECT_FALSE(json.Accept('2'));
  GrammarConstraint call(compiled);
  EXPECT_TRUE(call.Accept(256));
  EXPECT_THAT(AllowedIds(call, test.vocabulary->size()), ElementsAre(test.dsml));

  EXPECT_FALSE(GrammarOfJsonSchemaOr(OrderedJson{{"enum", {12}}}, [&](GrammarBuilder& builder) {
    return AddToolCall(builder, {}, test.dsml);
  }));
}

TEST(ForcedToolCalls, NeedNamesThatFitTheMarkup) {
  EXPECT_FALSE(ForcedToolCall({}, 1));
  for (const char* name : {"", "a\"b", "a\nb"}) {
    const std::vector<std::string> names = {"ok", name};
    const auto grammar = ForcedToolCall(names, 1);
    ASSERT_FALSE(grammar);
    EXPECT_THAT(grammar.error().message, HasSubstr("tool 1"));
  }
}

}  // namespace
}  // namespace cachalot
