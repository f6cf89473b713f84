#include "chat/completion_lexer.h"

#include <algorithm>
#include <utility>

#include "chat/markers.h"

namespace cachalot {
namespace {

using Kind = CompletionToken::Kind;
using Name = CompletionToken::Name;
using Form = CompletionToken::Form;

struct TagName {
  std::string_view text;
  Name name;
};
// "calls" is V4.1's, "function_calls" is what models remember from other formats.
constexpr TagName kTagNames[] = {{kToolCallsTag, Name::kToolCalls},
                                 {"calls", Name::kToolCalls},
                                 {"function_calls", Name::kToolCalls},
                                 {kInvokeTag, Name::kInvoke},
                                 {kParameterTag, Name::kParameter}};

enum class Match { kNo, kCut, kYes };  // kCut: all the bytes there are fit, more are needed

Match MatchMark(std::string_view text, std::string_view mark) {
  if (text.size() < mark.size()) {
    return mark.starts_with(text) ? Match::kCut : Match::kNo;
  }
  return text.starts_with(mark) ? Match::kYes : Match::kNo;
}

// A tag at the front of `text`. On kYes `*tag` is it and its text is what to consume.
Match MatchTag(std::string_view text, CompletionToken* tag) {
  tag->kind = Kind::kTag;
  tag->name = Name::kUnknown;
  size_t at = 0;
  tag->form = Form::kBare;
  if (text[0] == '<') {
    tag->form = Form::kOpening;
    at = 1;
    if (text.size() > 1 && text[1] == '/') {
      tag->form = Form::kClosing;
      at = 2;
    }
  }
  const Match dsml = MatchMark(text.substr(at), kDsml);
  if (dsml != Match::kYes) {
    return dsml;
  }
  at += kDsml.size();
  tag->text = text.substr(0, at);
  const size_t name_at = at + (text.substr(at).starts_with(' ') ? 1 : 0);  // V4.1 writes a space
  Match best = Match::kNo;
  for (const TagName& candidate : kTagNames) {
    const Match match = MatchMark(text.substr(name_at), candidate.text);
    if (match == Match::kYes) {
      tag->name = candidate.name;
      tag->text = text.substr(0, name_at + candidate.text.size());
      return Match::kYes;
    }
    best = match == Match::kCut ? match : best;
  }
  return best == Match::kCut ? Match::kCut : Match::kYes;  // a ｜DSML｜ without a name is a tag too
}

// Any mark at the front of `text`, which begins with '<' or the wide bar.
Match MatchAny(std::string_view text, CompletionToken* token) {
  for (const auto& [mark, kind] : {std::pair(kThinkClose, Kind::kThinkClose),
                                   std::pair(kEndOfSentence, Kind::kEndOfSentence)}) {
    if (const Match match = MatchMark(text, mark); match == Match::kYes) {
      token->kind = kind;
      token->text = mark;
      return match;
    }
  }
  const Match tag = MatchTag(text, token);
  const bool is_cut = tag == Match::kCut || MatchMark(text, kThinkClose) == Match::kCut ||
                      MatchMark(text, kEndOfSentence) == Match::kCut;
  return tag == Match::kYes ? tag : is_cut ? Match::kCut : Match::kNo;
}

void AddText(std::vector<CompletionToken>& tokens, std::string_view text) {
  if (text.empty()) {
    return;
  }
  if (tokens.empty() || tokens.back().kind != Kind::kText) {
    tokens.emplace_back();
  }
  tokens.back().text += text;
}

}  // namespace

std::vector<CompletionToken> CompletionLexer::Push(std::string_view bytes) {
  held_ += stream_.Push(bytes);
  return Scan();
}

std::vector<CompletionToken> CompletionLexer::Finish() {
  held_ += stream_.Finish();
  std::vector<CompletionToken> tokens = Scan();
  while (!held_.empty()) {
    // What is held is the front of a mark that will not be whole. Its own rest may hold marks
    // again: "<</think>".
    if (held_.find(kDsml) != std::string::npos) {
      held_.clear();
      break;
    }
    AddText(tokens, held_.substr(0, 1));
    held_.erase(0, 1);
    for (CompletionToken& token : Scan()) {
      if (token.kind == Kind::kText) {
        AddText(tokens, token.text);
      } else {
        tokens.push_back(std::move(token));
      }
    }
  }
  return tokens;
}

std::vector<CompletionToken> CompletionLexer::Scan() {
  constexpr std::string_view kInteresting = "\n<\xEF";  // a wide bar begins with EF
  std::vector<CompletionToken> tokens;
  const std::string_view text = held_;
  size_t at = 0;
  while (at < text.size()) {
    const size_t next = std::min(text.find_first_of(kInteresting, at), text.size());
    AddText(tokens, text.substr(at, next - at));
    at = next;
    if (at == text.size()) {
      break;
    }
    if (text[at] == '\n') {
      tokens.push_back({Kind::kNewline, "\n"});
      ++at;
      continue;
    }
    CompletionToken token;
    const Match match = MatchAny(text.substr(at), &token);
    if (match == Match::kCut) {
      break;
    }
    if (match == Match::kYes) {
      at += token.text.size();
      tokens.push_back(std::move(token));
    } else {
      const size_t length =
          text[at] == '<' ? 1 : kWideBar.size();  // every character that EF begins has 3 bytes
      AddText(tokens, text.substr(at, length));
      at += length;
    }
  }
  held_.erase(0, at);
  return tokens;
}

}  // namespace cachalot
