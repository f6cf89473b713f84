#include "server/choice_listener.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cachalot {
namespace {

using Kind = CompletionEvent::Kind;

std::optional<CompletionParser> ParserOf(const ChoiceSettings& settings) {
  if (!settings.chat) {
    return std::nullopt;
  }
  return CompletionParser(*settings.chat, {.stop = settings.stop});
}

std::vector<CompletionEvent> ContentOf(std::string text) {
  if (text.empty()) {
    return {};
  }
  return {{Kind::kContent, 0, std::move(text)}};
}

}  // namespace

ChoiceListener::ChoiceListener(ChoiceSettings settings, ChoiceEvents events, RequestClock clock)
    : settings_(std::move(settings)),
      events_(std::move(events)),
      clock_(clock),
      decoder_(*settings_.tokenizer),
      parser_(ParserOf(settings_)),
      stops_(settings_.chat ? std::vector<std::string>() : settings_.stop) {
  if (!settings_.echo.empty()) {
    if (settings_.echo_logprobs) {
      // Nothing comes before the first.
      logprobs_.push_back(Named(TokenLogprobs{{settings_.echo.front(), std::nanf("")}, {}}));
    }
    std::string text;
    for (const int32_t id : settings_.echo) {
      text += settings_.tokenizer->TokenBytes(id).value_or("");  // some ids have no token
    }
    Tell(ContentOf(ReplaceInvalidUtf8(text)));
  }
}

void ChoiceListener::OnPrompt(int64_t done, int64_t /*total*/, int64_t cached) {
  clock_.first_step = clock_.first_step.value_or(RequestClock::Clock::now());
  events_.on_prompt(done, cached);
}

void ChoiceListener::OnPromptToken(int64_t /*index*/, const TokenLogprobs& logprobs) {
  logprobs_.push_back(Named(logprobs));
}

bool ChoiceListener::OnToken(const GeneratedToken& token) {
  const auto gap = clock_.Tick();
  if (gap) {
    settings_.metrics->OnNextTokens(1, *gap);
  } else {
    settings_.metrics->OnFirstToken(Seconds(*clock_.first_token - clock_.arrived));
  }
  ++new_tokens_;
  if (token.id == settings_.think_close && !thinking_end_) {
    thinking_end_ = tokens_.size();
  }
  tokens_.push_back(token.id);
  if (token.logprobs) {
    logprobs_.push_back(Named(*token.logprobs));
  }
  // The engine samples no id without a token.
  std::vector<CompletionEvent> events = EventsOf(decoder_.Push(token.id).value_or(""));
  was_cut_ = CutSecondCall(events);
  Tell(std::move(events));
  return !was_cut_ && !stops_.has_stopped() && !(parser_ && parser_->has_stopped());
}

void ChoiceListener::OnEnd(EndReason reason, const RequestUsage& usage) {
  is_over_ = true;
  std::vector<CompletionEvent> events;
  if (!was_cut_) {
    events = LastEvents(reason);
    was_cut_ = CutSecondCall(events);
  }
  Tell(std::move(events));
  const AnswerEnd end = EndOf(reason);
  if (end.finish == AnswerFinish::kToolCalls && !was_cut_) {
    RememberTurn();
  }
  const bool thinks = settings_.chat == ThinkingMode::kThinking;
  const size_t thoughts = thinks ? thinking_end_.value_or(tokens_.size()) : 0;
  events_.on_end(end,
                 {.prompt_tokens = usage.prompt_tokens,
                  .cached_tokens = usage.cached_tokens,
                  .completion_tokens = usage.completion_tokens,
                  .reasoning_tokens = static_cast<int64_t>(thoughts)},
                 clock_);
}

std::vector<CompletionEvent> ChoiceListener::EventsOf(const std::string& text) {
  return parser_ ? parser_->Push(text) : ContentOf(stops_.Push(text));
}

std::vector<CompletionEvent> ChoiceListener::LastEvents(EndReason reason) {
  const std::string rest = decoder_.Finish();
  if (!parser_) {
    return stops_.has_stopped() ? std::vector<CompletionEvent>()
                                : ContentOf(stops_.Push(rest) + stops_.Flush());
  }
  std::vector<CompletionEvent> events = parser_->Push(rest);
  const bool by_itself = reason == EndReason::kStopped && !parser_->has_stopped();
  for (CompletionEvent& event : parser_->Finish(
           by_itself ? FinishReason::kEndOfSentence
                     : (parser_->has_stopped() ? FinishReason::kStop : FinishReason::kLength))) {
    AppendEvent(events, std::move(event));
  }
  return events;
}

// Leaves out the second call and what follows, where one is all that there may be.
bool ChoiceListener::CutSecondCall(std::vector<CompletionEvent>& events) {
  if (settings_.parallel_calls) {
    return false;
  }
  const auto second = std::ranges::find_if(
      events, [](const CompletionEvent& e) { return e.kind == Kind::kCallStart && e.call > 0; });
  const bool cut = second != events.end();
  events.erase(second, events.end());
  return cut;
}

void ChoiceListener::Tell(std::vector<CompletionEvent> events) {
  if (events.empty() && !(is_over_ && (new_tokens_ > 0 || !logprobs_.empty()))) {
    return;
  }
  for (const CompletionEvent& event : events) {
    Keep(event);
  }
  events_.on_piece({.choice = settings_.choice,
                    .events = std::move(events),
                    .logprobs = std::exchange(logprobs_, {}),
                    .tokens = std::exchange(new_tokens_, 0)});
}

void ChoiceListener::Keep(const CompletionEvent& event) {
  if (event.kind == Kind::kCallStart) {
    calls_.push_back({.id = CallId(settings_.answer_id, settings_.choice, event.call),
                      .name = event.text,
                      .arguments = {}});
  } else if (event.kind == Kind::kCallArguments) {
    calls_.back().arguments += event.text;
  }
}

AnswerEnd ChoiceListener::EndOf(EndReason reason) const {
  AnswerEnd end;
  switch (reason) {
    case EndReason::kStopped:
      end.stop = parser_ ? parser_->stopped_by() : stops_.stopped_by();
      if (!end.stop.empty()) {
        end.finish = AnswerFinish::kStopString;
      } else if (!calls_.empty()) {
        end.finish = AnswerFinish::kToolCalls;
      }
      break;
    case EndReason::kLength:
      end.finish = AnswerFinish::kLength;
      break;
    case EndReason::kCancelled:
      end.finish = AnswerFinish::kCancelled;
      break;
    case EndReason::kDeadline:
      end.finish = AnswerFinish::kDeadline;
      break;
    case EndReason::kFailed:
      end.finish = AnswerFinish::kFailed;
  }
  return end;
}

void ChoiceListener::RememberTurn() const {
  TurnMemory::Turn turn;
  turn.calls = calls_;
  if (settings_.chat == ThinkingMode::kThinking) {
    if (!thinking_end_) {
      return;  // where it stopped thinking is not to be told
    }
    const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(*thinking_end_);
    turn.written.reasoning.assign(tokens_.begin(), end);
    turn.written.answer.assign(end + 1, tokens_.end());
  } else {
    turn.written.answer = tokens_;
  }
  settings_.turns->Remember(std::move(turn));
}

LogprobEntry ChoiceListener::Named(const TokenLogprobs& logprobs) const {
  LogprobEntry entry{.chosen = Named(logprobs.chosen), .top = {}};
  for (const TokenLogprob& top : logprobs.top) {
    entry.top.push_back(Named(top));
  }
  return entry;
}

NamedLogprob ChoiceListener::Named(const TokenLogprob& logprob) const {
  return {.id = logprob.id,
          .logprob = logprob.logprob,
          .token = std::string(settings_.tokenizer->TokenBytes(logprob.id).value_or(""))};
}

}  // namespace cachalot
