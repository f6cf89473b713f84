#include "scheduler/trace.h"

#include <deque>
#include <limits>
#include <optional>
#include <set>

#include "io/json.h"

namespace cachalot {
namespace {

using Kind = SchedulerEvent::Kind;

// What a trace may ask for. Slots of the largest pool, pages * rows of a page, are fewer than 2^31.
constexpr int64_t kMostPages = int64_t{1} << 20;
constexpr int64_t kMostEntries = int64_t{1} << 10;
constexpr int64_t kMostRequests = int64_t{1} << 16;
constexpr int64_t kMostTokens = int64_t{1} << 30;

// Where the numbers of SchedulerOptions stand in a header, each with its bounds.
struct OptionField {
  const char* name;
  int64_t* value;
  int64_t least;
  int64_t most;
};

std::vector<OptionField> FieldsOf(SchedulerOptions& options) {
  CacheGeometry& geometry = options.geometry;
  return {{"max_requests", &geometry.max_requests, 1, kMostRequests},
          {"full_pages", &geometry.full_pages, 1, kMostPages},
          {"swa_pages", &geometry.swa_pages, 1, kMostPages},
          {"c128_pages", &geometry.c128_pages, 0, kMostPages},
          {"c128_page_entries", &geometry.c128_page_entries, 1, kMostEntries},
          {"c4_state_pages", &geometry.c4_state_pages, 0, kMostPages},
          {"c128_state_pages", &geometry.c128_state_pages, 0, kMostPages},
          {"window", &geometry.window, 1, kMostTokens},
          {"host_pages", &options.prefix.host_slots[0], 0, kMostPages},
          {"host_windows", &options.prefix.host_slots[1], 0, kMostPages},
          {"disk_pages", &options.prefix.disk_slots[0], 0, kMostPages},
          {"disk_windows", &options.prefix.disk_slots[1], 0, kMostPages},
          {"chunk_tokens", &options.chunk_tokens, kPageTokens, kMostTokens},
          {"max_context", &options.max_context, 1, kMostTokens},
          {"max_waiting", &options.max_waiting, 0, kMostTokens}};
}

// What was decided, but for the tokens themselves.
OrderedJson DecisionOf(const StepPlan& plan) {
  OrderedJson moves = OrderedJson::array();
  for (const CacheMove& move : plan.moves) {
    moves.push_back(TextOf(move));
  }
  OrderedJson requests = OrderedJson::array();
  for (const PlannedRequest& entry : plan.requests) {
    requests.push_back(
        {entry.id.value, entry.slot.value, entry.start.value, entry.ids.size(), entry.samples});
  }
  OrderedJson fetches = OrderedJson::array();
  for (const DiskFetch& fetch : plan.fetches) {
    fetches.push_back({fetch.id, NameOf(fetch.part), fetch.to.value});
  }
  OrderedJson ended = OrderedJson::array();
  for (const EndedRequest& end : plan.ended) {
    ended.push_back({end.id.value, NameOf(end.reason)});
  }
  return {{"step", plan.number},
          {"moves", moves},
          {"run", requests},
          {"fetch", fetches},
          {"ended", ended}};
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kSubmit:
      return "submit";
    case Kind::kCancel:
      return "cancel";
    case Kind::kPlan:
      return "plan";
    case Kind::kComplete:
      return "complete";
    case Kind::kFail:
      return "fail";
    case Kind::kRetract:
      return "retract";
    case Kind::kFetched:
      return "fetched";
  }
  return "?";
}

// nullopt for anything but an integer in [least, most].
std::optional<int64_t> IntegerIn(const Json& value, int64_t least, int64_t most) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  // nlohmann would wrap what is above 2^63.
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > kMax)) {
    return std::nullopt;
  }
  const auto integer = value.get<int64_t>();
  return integer < least || integer > most ? std::nullopt : std::optional(integer);
}

// Applies the lines of a trace, having checked that they can be applied.
class Replay {
 public:
  explicit Replay(std::string source) : source_(std::move(source)) {}

  Status ApplyLine(std::string_view text);
  const ReplayResult& result() const { return result_; }
  bool started() const { return scheduler_ != nullptr; }

 private:
  Status ApplyEvent(const Json& line);
  Status Start(const Json& header);
  Status Submit(const Json& line);
  Status Plan(const Json& line);
  Status Complete(const Json& line);

  // kDataLoss unless `object` has an integer of that name in [least, most].
  Result<int64_t> Integer(const Json& object, const char* name, int64_t least, int64_t most) const;
  tl::unexpected<Error> Bad(const std::string& what) const {
    return MakeError(StatusCode::kDataLoss, "{}: line {}: {}", source_, line_, what);
  }

  const std::string source_;
  int64_t line_ = 0;
  std::unique_ptr<Scheduler> scheduler_;
  std::set<int64_t> ids_;
  std::set<int64_t> fetches_;              // under way
  std::deque<std::set<int64_t>> samples_;  // of plans that are not complete
  ReplayResult result_;
};

Result<int64_t> Replay::Integer(const Json& object, const char* name, int64_t least,
                                int64_t most) const {
  const auto found = object.find(name);
  const auto integer = found == object.end() ? std::nullopt : IntegerIn(*found, least, most);
  if (!integer) {
    return Bad(fmt::format("expected {} to be an integer from {} to {}", name, least, most));
  }
  return *integer;
}

Status Replay::Start(const Json& header) {
  const auto found = header.find("scheduler");
  if (found == header.end() || !found->is_object()) {
    return Bad("expected the scheduler's options");
  }
  SchedulerOptions options;
  for (const OptionField& field : FieldsOf(options)) {
    CACHALOT_ASSIGN_OR_RETURN(*field.value, Integer(*found, field.name, field.least, field.most));
  }
  CACHALOT_ASSIGN_OR_RETURN(const int64_t has_c4, Integer(*found, "has_c4", 0, 1));
  CACHALOT_ASSIGN_OR_RETURN(const int64_t prefix_cache, Integer(*found, "prefix_cache", 0, 1));
  options.geometry.has_c4 = has_c4 == 1;
  options.prefix.enabled = prefix_cache == 1;
  if (const Status good = CheckSchedulerOptions(options); !good) {
    return Bad(good.error().message);
  }
  scheduler_ = std::make_unique<Scheduler>(options);
  return {};
}

Status Replay::Submit(const Json& line) {
  RequestSpec spec;
  CACHALOT_ASSIGN_OR_RETURN(spec.id.value, Integer(line, "id", 0, kNever));
  CACHALOT_ASSIGN_OR_RETURN(spec.max_new_tokens, Integer(line, "max_new_tokens", 1, kNever));
  CACHALOT_ASSIGN_OR_RETURN(const int64_t priority,
                            Integer(line, "priority", INT32_MIN, INT32_MAX));
  CACHALOT_ASSIGN_OR_RETURN(spec.deadline, Integer(line, "deadline", INT64_MIN, kNever));
  CACHALOT_ASSIGN_OR_RETURN(const int64_t whole, Integer(line, "run_whole_prompt", 0, 1));
  spec.priority = static_cast<int32_t>(priority);
  spec.run_whole_prompt = whole == 1;
  const auto prompt = line.find("prompt");
  if (prompt == line.end() || !prompt->is_array()) {
    return Bad("expected prompt to be a list");
  }
  for (const Json& item : *prompt) {
    const auto token = IntegerIn(item, INT32_MIN, INT32_MAX);
    if (!token) {
      return Bad("expected prompt to be a list of integers of 32 bits");
    }
    spec.prompt.push_back(static_cast<int32_t>(*token));
  }
  if (!ids_.insert(spec.id.value).second) {
    return Bad(fmt::format("request {} for the second time", spec.id.value));
  }
  if (const Status accepted = scheduler_->Submit(std::move(spec)); !accepted) {
    return Bad(accepted.error().message);
  }
  return {};
}

Status Replay::Plan(const Json& line) {
  CACHALOT_ASSIGN_OR_RETURN(const Ticks now, Integer(line, "now", INT64_MIN, kNever));
  if (samples_.size() > 1) {
    return Bad("a third plan without the first one's result");
  }
  const StepPlan plan = scheduler_->Plan(now);
  ++result_.plans;
  const std::string found = DumpJson(DecisionOf(plan));
  const auto recorded = line.find("decision");
  if (recorded == line.end() || *recorded != Json::parse(found)) {
    return Bad(fmt::format("the plan differs: recorded {}, replayed {}",
                           recorded == line.end() ? "none" : DumpJson(*recorded), found));
  }
  for (const DiskFetch& fetch : plan.fetches) {
    fetches_.insert(fetch.id);
  }
  if (!plan.requests.empty()) {
    std::set<int64_t>& samples = samples_.emplace_back();
    for (const PlannedRequest& entry : plan.requests) {
      if (entry.samples) {
        samples.insert(entry.id.value);
      }
    }
  }
  return {};
}

Status Replay::Complete(const Json& line) {
  const auto sampled = line.find("sampled");
  if (samples_.empty() || sampled == line.end() || !sampled->is_array()) {
    return Bad("a result without its plan");
  }
  std::vector<SampledToken> tokens;
  for (const Json& item : *sampled) {
    if (!item.is_object()) {
      return Bad("expected sampled to be a list of objects");
    }
    SampledToken token;
    CACHALOT_ASSIGN_OR_RETURN(token.id.value, Integer(item, "id", 0, kNever));
    CACHALOT_ASSIGN_OR_RETURN(const int64_t id, Integer(item, "token", 0, INT32_MAX));
    CACHALOT_ASSIGN_OR_RETURN(const int64_t stop, Integer(item, "stop", 0, 1));
    token.token = static_cast<int32_t>(id);
    token.stop = stop == 1;
    if (samples_.front().erase(token.id.value) == 0) {
      return Bad(fmt::format("a token for request {}, which the plan did not sample", token.id));
    }
    tokens.push_back(token);
  }
  samples_.pop_front();
  scheduler_->Complete(tokens);
  return {};
}

Status Replay::ApplyLine(std::string_view text) {
  ++line_;
  const auto line = ParseJson(text, "this line");
  if (!line) {
    return Bad(line.error().message);
  }
  if (!line->is_object()) {
    return Bad("expected an object");
  }
  if (!started()) {
    return Start(*line);
  }
  ++result_.events;
  return ApplyEvent(*line);
}

Status Replay::ApplyEvent(const Json& line) {
  const auto event = line.find("event");
  const std::string name =
      event != line.end() && event->is_string() ? event->get<std::string>() : "";
  if (name == NameOf(Kind::kSubmit)) {
    return Submit(line);
  }
  if (name == NameOf(Kind::kPlan)) {
    return Plan(line);
  }
  if (name == NameOf(Kind::kComplete)) {
    return Complete(line);
  }
  if (name == NameOf(Kind::kFail)) {
    samples_.clear();
    scheduler_->Fail();
    return {};
  }
  if (name == NameOf(Kind::kCancel) || name == NameOf(Kind::kRetract)) {
    CACHALOT_ASSIGN_OR_RETURN(const int64_t id, Integer(line, "id", 0, kNever));
    if (name == NameOf(Kind::kCancel)) {
      scheduler_->Cancel(RequestId(id));
    } else {
      scheduler_->Retract(RequestId(id));
    }
    return {};
  }
  if (name == NameOf(Kind::kFetched)) {
    CACHALOT_ASSIGN_OR_RETURN(const int64_t fetch, Integer(line, "fetch", 0, kNever));
    CACHALOT_ASSIGN_OR_RETURN(const int64_t ok, Integer(line, "ok", 0, 1));
    if (fetches_.erase(fetch) == 0) {
      return Bad(fmt::format("fetch {} is not under way", fetch));
    }
    scheduler_->Fetched(fetch, ok == 1);
    return {};
  }
  return Bad("expected an event");
}

}  // namespace

std::string TraceHeader(const SchedulerOptions& options) {
  SchedulerOptions copy = options;
  OrderedJson json = {{"has_c4", int{options.geometry.has_c4}},
                      {"prefix_cache", int{options.prefix.enabled}}};
  for (const OptionField& field : FieldsOf(copy)) {
    json[field.name] = *field.value;
  }
  return DumpJson(OrderedJson{{"scheduler", json}});
}

std::string TraceLine(const SchedulerEvent& event) {
  OrderedJson json = {{"event", NameOf(event.kind)}};
  switch (event.kind) {
    case Kind::kSubmit:
      json["id"] = event.spec->id.value;
      json["max_new_tokens"] = event.spec->max_new_tokens;
      json["priority"] = event.spec->priority;
      json["deadline"] = event.spec->deadline;
      json["run_whole_prompt"] = int{event.spec->run_whole_prompt};
      json["prompt"] = event.spec->prompt;
      break;
    case Kind::kCancel:
    case Kind::kRetract:
      json["id"] = event.id.value;
      break;
    case Kind::kPlan:
      json["now"] = event.now;
      json["decision"] = DecisionOf(*event.plan);
      break;
    case Kind::kComplete:
      json["sampled"] = OrderedJson::array();
      for (const SampledToken& token : event.sampled) {
        json["sampled"].push_back(
            {{"id", token.id.value}, {"token", token.token}, {"stop", int{token.stop}}});
      }
      break;
    case Kind::kFetched:
      json["fetch"] = event.fetch;
      json["ok"] = int{event.ok};
      break;
    case Kind::kFail:
      break;
  }
  return DumpJson(json);
}

Result<ReplayResult> ReplayTrace(std::string_view text, const std::string& source) {
  Replay replay(source);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    CACHALOT_RETURN_IF_ERROR(replay.ApplyLine(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!replay.started()) {
    return MakeError(StatusCode::kDataLoss, "{}: empty, expected a scheduler's trace", source);
  }
  return replay.result();
}

}  // namespace cachalot
