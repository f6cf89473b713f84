#include "chat/completion.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "chat/markers.h"
#include "chat/python_json.h"

namespace cachalot {
namespace {

using Kind = CompletionEvent::Kind;

// `text` without the wide bars that would complete ｜DSML｜ after `tail`, the end of what was
// emitted before. Only text that lost a mark from its middle can come to this.
std::string WithoutMark(std::string_view text, std::string& tail) {
  std::string joined = tail;
  const size_t before = joined.size();
  for (size_t at = 0; at < text.size(); ++at) {
    joined += text[at];
    if (joined.ends_with(kDsml)) {
      joined.resize(joined.size() - kWideBar.size());
    }
  }
  std::string out = joined.substr(std::min(before, joined.size()));
  const size_t keep = std::min(joined.size(), kDsml.size());
  tail = joined.substr(joined.size() - keep);
  return out;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool IsJson(std::string_view text) { return ParseJson(text, "value").has_value(); }

}  // namespace

void AppendEvent(std::vector<CompletionEvent>& events, CompletionEvent event) {
  const bool is_piece = event.kind != Kind::kCallStart && event.kind != Kind::kCallEnd;
  if (is_piece && !events.empty() && events.back().kind == event.kind &&
      events.back().call == event.call) {
    events.back().text += event.text;
  } else {
    events.push_back(std::move(event));
  }
}

CompletionParser::CompletionParser(ThinkingMode mode, CompletionOptions options)
    : stop_(std::move(options.stop)),
      state_(mode == ThinkingMode::kThinking ? State::kReasoning : State::kContent) {}

std::vector<CompletionEvent> CompletionParser::Push(std::string_view bytes) {
  CACHALOT_CHECK(!is_finished_, "text after the end of a completion");
  for (const Token& token : lexer_.Push(bytes)) {
    OnToken(token);
  }
  return std::exchange(events_, {});
}

std::vector<CompletionEvent> CompletionParser::Finish(FinishReason reason) {
  CACHALOT_CHECK(!is_finished_, "a completion finished twice");
  is_finished_ = true;
  for (const Token& token : lexer_.Finish()) {
    OnToken(token);
  }
  pending_.resize(std::min(pending_.find(kEndOfSentence), pending_.size()));
  if (state_ == State::kSkipTag) {
    state_ = after_skip_;
  }
  if (state_ == State::kReasoning || state_ == State::kContent) {
    EmitProse(TakePending(false));
    EmitHeldProse();
  } else if (state_ == State::kValue) {
    AddValue(TakePending(false));
  }
  if (reason == FinishReason::kEndOfSentence) {
    if (state_ == State::kValue) {
      EndValue();
    }
    if (state_ == State::kInvoke || state_ == State::kParameterTag) {
      EndCall();
    }
  } else if (state_ == State::kValue && value_type_ == ValueType::kJson) {
    EmitArguments(value_);  // as far as it came
  }
  state_ = State::kDone;
  return std::exchange(events_, {});
}

void CompletionParser::OnToken(const Token& token) {
  switch (state_) {
    case State::kReasoning:
    case State::kContent:
      return OnProse(token);
    case State::kCalls:
      return OnCalls(token);
    case State::kInvokeTag:
    case State::kParameterTag:
      return OnTag(token);
    case State::kInvoke:
      return OnInvoke(token);
    case State::kValue:
      return OnValue(token);
    case State::kSkipTag:
      return OnSkipTag(token);
    case State::kDone:
      return;
  }
}

void CompletionParser::OnProse(const Token& token) {
  const bool opens_calls =
      token.kind == Token::Kind::kTag && token.form == Token::Form::kOpening &&
      (token.name == Token::Name::kToolCalls || token.name == Token::Name::kInvoke);
  switch (token.kind) {
    case Token::Kind::kNewline:
    case Token::Kind::kEndOfSentence:
      pending_ += token.text;
      return;
    case Token::Kind::kText:
      EmitProse(TakePending(false));
      EmitProse(token.text);
      return;
    case Token::Kind::kThinkClose:
      if (state_ == State::kReasoning) {
        EmitProse(TakePending(true));
        state_ = State::kContent;
        has_prose_ = false;
        prose_tail_.clear();
      }
      return;  // in content it is a stray and means nothing
    case Token::Kind::kTag:
      if (opens_calls) {
        EmitProse(TakePending(true));
        EmitHeldProse();
        if (state_ != State::kDone) {
          state_ = token.name == Token::Name::kInvoke ? State::kInvokeTag : State::kCalls;
          tag_.clear();
          in_quotes_ = false;
        }
      } else if (token.form != Token::Form::kBare) {
        SkipTag();
      }
  }
}

void CompletionParser::OnCalls(const Token& token) {
  if (token.kind != Token::Kind::kTag) {
    return;
  }
  if (token.name == Token::Name::kInvoke && token.form == Token::Form::kOpening) {
    state_ = State::kInvokeTag;
    tag_.clear();
    in_quotes_ = false;
  } else if (token.name == Token::Name::kToolCalls && token.form == Token::Form::kClosing) {
    state_ = State::kDone;
  }
}

// Attributes up to ">". A newline outside quotes or the next tag end them too: the model forgot the
// rest.
void CompletionParser::OnTag(const Token& token) {
  if (token.kind == Token::Kind::kTag) {
    FinishTag();
    return OnToken(token);
  }
  for (size_t at = 0; at < token.text.size(); ++at) {
    const char c = token.text[at];
    // A key with a quote in it unsettles the count; the last attribute still tells the end.
    const bool is_end = c == '>' && (!in_quotes_ || tag_.ends_with("string=\"true\"") ||
                                     tag_.ends_with("string=\"false\""));
    if (is_end || (c == '\n' && !in_quotes_)) {
      FinishTag();
      if (at + 1 < token.text.size()) {
        OnToken({Token::Kind::kText, token.text.substr(at + 1)});
      }
      return;
    }
    in_quotes_ = in_quotes_ != (c == '"');
    tag_ += c;
  }
}

void CompletionParser::OnInvoke(const Token& token) {
  if (token.kind != Token::Kind::kTag) {
    if (keys_.empty()) {
      body_ += token.text;
    }
    return;
  }
  const bool opens = token.form == Token::Form::kOpening;
  const bool closes = token.form == Token::Form::kClosing;
  if (opens && token.name == Token::Name::kParameter) {
    state_ = State::kParameterTag;
    tag_.clear();
    in_quotes_ = false;
  } else if ((opens && token.name == Token::Name::kInvoke) ||
             (closes && token.name == Token::Name::kToolCalls)) {
    EndCall();  // its own closing tag was forgotten
    OnToken(token);
  } else if (closes && token.name == Token::Name::kInvoke) {
    EndCall();
  }
}

void CompletionParser::OnValue(const Token& token) {
  if (token.kind == Token::Kind::kEndOfSentence) {
    pending_ += token.text;
    return;
  }
  const bool is_tag = token.kind == Token::Kind::kTag;
  if (is_tag && token.form == Token::Form::kBare) {
    return;
  }
  if (is_tag && token.form == Token::Form::kOpening && token.name == Token::Name::kUnknown) {
    return SkipTag();
  }
  if (!is_tag && !pending_.empty() && token.kind == Token::Kind::kNewline) {
    pending_ += token.text;  // after an end mark, perhaps the end of the whole text
    return;
  }
  AddValue(TakePending(false));
  if (!is_tag) {
    return AddValue(token.text);
  }
  EndValue();
  if (token.form == Token::Form::kOpening || token.name == Token::Name::kInvoke ||
      token.name == Token::Name::kToolCalls) {
    OnToken(token);  // the parameter's own closing tag was forgotten
  }
}

void CompletionParser::OnSkipTag(const Token& token) {
  const size_t end = token.kind == Token::Kind::kText ? token.text.find_first_of("<>") : 0;
  if (end == std::string::npos) {
    return;
  }
  state_ = after_skip_;
  if (token.kind != Token::Kind::kText) {
    return OnToken(token);
  }
  const size_t rest = end + (token.text[end] == '>' ? 1 : 0);
  if (rest < token.text.size()) {
    OnToken({Token::Kind::kText, token.text.substr(rest)});
  }
}

void CompletionParser::SkipTag() {
  after_skip_ = state_;
  state_ = State::kSkipTag;
}

void CompletionParser::FinishTag() {
  if (state_ == State::kInvokeTag) {
    BeginCall();
  } else {
    BeginParameter();
  }
}

void CompletionParser::BeginCall() {
  constexpr std::string_view kAttribute = "name=\"";
  const size_t begin = tag_.find(kAttribute);
  std::string name;
  if (begin != std::string::npos) {
    name = tag_.substr(begin + kAttribute.size());
    // Without its closing quote the name ends where the tag should have.
    const size_t quote = name.find('"');
    name.resize(std::min(quote != name.npos ? quote : name.find_first_of(">\n"), name.size()));
  }
  if (name.empty()) {
    state_ = State::kCalls;  // a call of nothing
    return;
  }
  state_ = State::kInvoke;
  keys_.clear();
  body_.clear();
  arguments_tail_.clear();
  ++num_calls_;
  Emit(Kind::kCallStart, std::move(name));
}

void CompletionParser::BeginParameter() {
  constexpr std::string_view kName = "name=\"";
  constexpr std::string_view kType = "string=";
  std::string_view rest = tag_;
  const size_t type = rest.rfind(kType);
  const bool is_string = type != rest.npos && rest.substr(type).starts_with("string=\"true\"");
  rest = Trim(rest.substr(0, type));
  std::string_view key;
  if (const size_t begin = rest.find(kName); begin != rest.npos) {
    key = rest.substr(begin + kName.size());
    // With a type behind it the name ends at the last quote, whatever it holds.
    key = key.substr(0, type == rest.npos ? key.find('"') : key.rfind('"'));
  }
  state_ = State::kValue;
  value_.clear();
  const bool is_first = keys_.empty();
  if (!keys_.insert(std::string(key)).second) {
    value_type_ = ValueType::kRepeated;  // the first one has gone out already
    return;
  }
  value_type_ = is_string ? ValueType::kString : ValueType::kJson;
  std::string opening = is_first ? "{\"" : ", \"";
  AppendJsonEscaped(opening, key);
  opening += is_string ? "\": \"" : "\": ";
  EmitArguments(opening);
}

void CompletionParser::AddValue(std::string_view text) {
  if (value_type_ == ValueType::kJson) {
    value_ += text;
  } else if (value_type_ == ValueType::kString) {
    std::string escaped;
    AppendJsonEscaped(escaped, text);
    EmitArguments(escaped);
  }
}

void CompletionParser::EndValue() {
  if (value_type_ == ValueType::kString) {
    EmitArguments("\"");
  } else if (value_type_ == ValueType::kJson) {
    std::string json(1, '"');
    AppendJsonEscaped(json, value_);
    json += '"';
    EmitArguments(IsJson(value_) ? value_ : json);
  }
  state_ = State::kInvoke;
}

void CompletionParser::EndCall() {
  if (!keys_.empty()) {
    EmitArguments("}");
  } else if (const std::string_view body = Trim(body_); body.starts_with('{') && IsJson(body)) {
    EmitArguments(body);  // the model wrote its arguments as JSON
  } else {
    EmitArguments("{}");
  }
  Emit(Kind::kCallEnd, "");
  state_ = State::kCalls;
}

void CompletionParser::EmitProse(std::string_view text) {
  if (!has_prose_) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  if (text.empty()) {
    return;
  }
  has_prose_ = true;
  if (state_ == State::kReasoning) {
    Emit(Kind::kReasoning, WithoutMark(text, prose_tail_));
    return;
  }
  Emit(Kind::kContent, WithoutMark(stop_.Push(text), prose_tail_));
  if (stop_.has_stopped()) {
    state_ = State::kDone;
  }
}

void CompletionParser::EmitHeldProse() {
  Emit(Kind::kContent, WithoutMark(stop_.Flush(), prose_tail_));
}

void CompletionParser::EmitArguments(std::string_view text) {
  Emit(Kind::kCallArguments, WithoutMark(text, arguments_tail_));
}

void CompletionParser::Emit(CompletionEvent::Kind kind, std::string text) {
  if (text.empty() && kind != Kind::kCallEnd) {
    return;
  }
  const bool is_prose = kind == Kind::kReasoning || kind == Kind::kContent;
  AppendEvent(events_, {kind, is_prose ? 0 : num_calls_ - 1, std::move(text)});
}

std::string CompletionParser::TakePending(bool drop_newlines) {
  std::string taken = std::exchange(pending_, {});
  if (drop_newlines) {
    taken.resize(taken.find_last_not_of('\n') + 1);
  }
  return taken;
}

OrderedJson ParseCompletion(std::string_view text, ThinkingMode mode) {
  CompletionParser parser(mode);
  std::vector<CompletionEvent> events = parser.Push(text);
  for (CompletionEvent& event : parser.Finish(FinishReason::kEndOfSentence)) {
    AppendEvent(events, std::move(event));
  }
  std::string reasoning;
  std::string content;
  OrderedJson calls = OrderedJson::array();
  for (const CompletionEvent& event : events) {
    switch (event.kind) {
      case Kind::kReasoning:
        reasoning += event.text;
        break;
      case Kind::kContent:
        content += event.text;
        break;
      case Kind::kCallStart:
        calls.push_back(
            {{"type", "function"}, {"function", {{"name", event.text}, {"arguments", ""}}}});
        break;
      case Kind::kCallArguments:
        calls.back()["function"]["arguments"].get_ref<std::string&>() += event.text;
        break;
      case Kind::kCallEnd:
        break;
    }
  }
  OrderedJson message = OrderedJson::object();
  message["role"] = "assistant";
  message["reasoning_content"] = std::move(reasoning);
  message["content"] = std::move(content);
  message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace cachalot
