#include "grammar/text_set.h"

#include <algorithm>
#include <map>
#include <utility>

#include "grammar/grammar.h"

namespace cachalot {
namespace {

constexpr char32_t kLastCodePoint = 0x10FFFF;

size_t At(int32_t state) { return static_cast<size_t>(state); }

tl::unexpected<Error> TooManyStates() {
  return MakeError(StatusCode::kUnsupported,
                   "too complex: needs more than {} states together with its other bounds",
                   TextSet::kMaxStates);
}

}  // namespace

CodePoints MakeCodePoints(CodePoints ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  CodePoints joined;
  for (const CodePointRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  CodePoints points;
  for (const CodePointRange& range : joined) {
    if (range.first < 0xD800) {
      points.push_back({range.first, std::min<char32_t>(range.last, 0xD7FF)});
    }
    if (range.last > 0xDFFF) {
      points.push_back({std::max<char32_t>(range.first, 0xE000), range.last});
    }
  }
  return points;
}

CodePoints Complement(const CodePoints& points) {
  CodePoints others;
  char32_t next = 0;
  for (const CodePointRange& range : points) {
    if (range.first > next) {
      others.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) {
    others.push_back({next, kLastCodePoint});
  }
  return MakeCodePoints(std::move(others));
}

CodePoints AllCodePoints() { return Complement({}); }

char32_t TakeCodePoint(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t point = length == 1 ? lead : lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    point = point << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(length);
  return point;
}

TextSet::TextSet(std::vector<State> states) {
  std::vector<std::vector<int32_t>> from(states.size());
  std::vector<int32_t> todo;
  std::vector<bool> is_live(states.size(), false);
  for (size_t i = 0; i < states.size(); ++i) {
    for (const Edge& edge : states[i].edges) {
      from[At(edge.to)].push_back(static_cast<int32_t>(i));
    }
    if (states[i].accepts) {
      is_live[i] = true;
      todo.push_back(static_cast<int32_t>(i));
    }
  }
  while (!todo.empty()) {
    const int32_t state = todo.back();
    todo.pop_back();
    for (const int32_t before : from[At(state)]) {
      if (!is_live[At(before)]) {
        is_live[At(before)] = true;
        todo.push_back(before);
      }
    }
  }
  if (states.empty() || !is_live[0]) {
    return;
  }
  std::vector<int32_t> renamed(states.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    renamed[i] = is_live[i] ? count++ : -1;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (!is_live[i]) {
      continue;
    }
    State& kept = states_.emplace_back();
    kept.accepts = states[i].accepts;
    for (Edge edge : states[i].edges) {
      edge.to = renamed[At(edge.to)];
      if (edge.to < 0) {
        continue;
      }
      if (!kept.edges.empty() && kept.edges.back().to == edge.to &&
          kept.edges.back().range.last + 1 == edge.range.first) {
        kept.edges.back().range.last = edge.range.last;
      } else {
        kept.edges.push_back(edge);
      }
    }
  }
}

Result<TextSet> TextSet::OfLength(int64_t min, int64_t max) {
  const int64_t last = max == kUnbounded ? min : max;
  if (last >= static_cast<int64_t>(kMaxStates)) {
    return TooManyStates();
  }
  std::vector<State> states(static_cast<size_t>(std::max<int64_t>(last, 0)) + 1);
  for (int64_t length = 0; length <= last; ++length) {
    State& state = states[static_cast<size_t>(length)];
    state.accepts = length >= min;
    for (const CodePointRange& range : AllCodePoints()) {
      if (length < last || max == kUnbounded) {
        state.edges.push_back({range, static_cast<int32_t>(std::min(length + 1, last))});
      }
    }
  }
  return TextSet(std::move(states));
}

Result<TextSet> TextSet::AllBut(const std::vector<std::string>& texts) {
  // State 0 is the empty text, 1 any text that is none of the beginnings.
  std::vector<std::map<char32_t, int32_t>> children(2);
  std::vector<bool> is_text(2, false);
  for (const std::string& text : texts) {
    int32_t state = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const char32_t point = TakeCodePoint(rest);
      const auto [child, is_new] =
          children[At(state)].try_emplace(point, static_cast<int32_t>(children.size()));
      state = child->second;
      if (is_new) {
        children.emplace_back();
        is_text.push_back(false);
      }
    }
    is_text[At(state)] = true;
    if (children.size() > kMaxStates) {
      return TooManyStates();
    }
  }
  std::vector<State> states(children.size());
  for (size_t i = 0; i < states.size(); ++i) {
    states[i].accepts = !is_text[i];
    CodePoints own;
    for (const auto& [point, child] : children[i]) {
      states[i].edges.push_back({{point, point}, child});
      own.push_back({point, point});
    }
    for (const CodePointRange& range : Complement(MakeCodePoints(own))) {
      states[i].edges.push_back({range, 1});
    }
    std::sort(states[i].edges.begin(), states[i].edges.end(),
              [](const Edge& a, const Edge& b) { return a.range.first < b.range.first; });
  }
  return TextSet(std::move(states));
}

Result<TextSet> TextSet::Intersection(const TextSet& a, const TextSet& b) {
  if (a.empty() || b.empty()) {
    return TextSet({});
  }
  std::map<std::pair<int32_t, int32_t>, int32_t> ids = {{{0, 0}, 0}};
  std::vector<std::pair<int32_t, int32_t>> pairs = {{0, 0}};
  std::vector<State> states;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const State& left = a.states_[At(pairs[i].first)];
    const State& right = b.states_[At(pairs[i].second)];
    State state;
    state.accepts = left.accepts && right.accepts;
    for (size_t l = 0, r = 0; l < left.edges.size() && r < right.edges.size();) {
      const Edge& one = left.edges[l];
      const Edge& other = right.edges[r];
      const char32_t first = std::max(one.range.first, other.range.first);
      const char32_t last = std::min(one.range.last, other.range.last);
      if (first <= last) {
        const std::pair<int32_t, int32_t> to = {one.to, other.to};
        const auto [id, is_new] = ids.try_emplace(to, static_cast<int32_t>(pairs.size()));
        if (is_new) {
          pairs.push_back(to);
        }
        state.edges.push_back({{first, last}, id->second});
      }
      ++(one.range.last < other.range.last ? l : r);
    }
    states.push_back(std::move(state));
    if (pairs.size() > kMaxStates) {
      return TooManyStates();
    }
  }
  return TextSet(std::move(states));
}

bool TextSet::Contains(std::string_view text) const {
  if (empty()) {
    return false;
  }
  int32_t at = 0;
  while (!text.empty()) {
    const char32_t point = TakeCodePoint(text);
    const std::vector<Edge>& edges = states_[At(at)].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(), [&](const Edge& candidate) {
      return candidate.range.first <= point && point <= candidate.range.last;
    });
    if (edge == edges.end()) {
      return false;
    }
    at = edge->to;
  }
  return states_[At(at)].accepts;
}

}  // namespace cachalot
