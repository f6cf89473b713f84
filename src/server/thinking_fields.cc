#include "server/thinking_fields.h"

#include <limits>

namespace cachalot {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Later spellings count where earlier ones said nothing.
class Reader {
 public:
  Status Switch(const JsonFields& fields, const char* name) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<bool> on, fields.Flag(name));
    enabled_ = enabled_ ? enabled_ : on;
    return {};
  }
  Status Effort(const JsonFields& fields, const char* name) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> effort, fields.Text(name));
    effort_ = effort_.empty() ? effort.value_or("") : effort_;
    return {};
  }
  Status Budget(const JsonFields& fields, const char* name) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<int64_t> budget, fields.Integer(name, 0, kMost));
    budget_ = budget_ ? budget_ : budget;
    return {};
  }
  // {type: enabled, disabled or adaptive, budget_tokens}
  Status Thinking(const JsonFields& fields) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<std::string> type, fields.Text("type"));
    if (type == "enabled" || type == "disabled") {
      enabled_ = type == "enabled";
    } else if (type && type != "adaptive" && type != "between_tools") {
      return fields.Wrong("type", OrderedJson(*type), "enabled, disabled or adaptive");
    }
    return Budget(fields, "budget_tokens");
  }

  ThinkingSetting setting() const {
    ThinkingSetting setting;
    setting.enabled = enabled_;
    const bool says_none = effort_ == "none" || budget_ == 0;
    if (!setting.enabled && (!effort_.empty() || budget_)) {
      setting.enabled = !says_none;
    }
    if (setting.enabled.value_or(false)) {
      setting.effort = effort_ == "none" ? "" : effort_;
      setting.budget = budget_ == 0 ? std::nullopt : budget_;
    }
    return setting;
  }

 private:
  std::optional<bool> enabled_;
  std::string effort_;
  std::optional<int64_t> budget_;
};

// The fields of an object member; nullopt where it is absent.
Result<std::optional<JsonFields>> Member(const JsonFields& fields, const char* name) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object(name));
  return object == nullptr ? std::nullopt : std::optional(fields.Within(name, *object));
}

}  // namespace

Result<ThinkingSetting> ReadThinking(const JsonFields& fields) {
  Reader reader;
  if (const OrderedJson* thinking = fields.Find("thinking"); thinking != nullptr) {
    if (thinking->is_object()) {
      CACHALOT_RETURN_IF_ERROR(reader.Thinking(fields.Within("thinking", *thinking)));
    } else if (thinking->is_boolean()) {
      CACHALOT_RETURN_IF_ERROR(reader.Switch(fields, "thinking"));
    } else {
      return fields.Wrong("thinking", *thinking, "true, false or an object");
    }
  }
  CACHALOT_ASSIGN_OR_RETURN(const auto output, Member(fields, "output_config"));
  if (output) {
    CACHALOT_RETURN_IF_ERROR(reader.Effort(*output, "effort"));
  }
  CACHALOT_RETURN_IF_ERROR(reader.Effort(fields, "reasoning_effort"));
  CACHALOT_ASSIGN_OR_RETURN(const auto reasoning, Member(fields, "reasoning"));
  if (reasoning) {
    CACHALOT_RETURN_IF_ERROR(reader.Switch(*reasoning, "enabled"));
    CACHALOT_RETURN_IF_ERROR(reader.Effort(*reasoning, "effort"));
    CACHALOT_RETURN_IF_ERROR(reader.Budget(*reasoning, "max_tokens"));
  }
  CACHALOT_RETURN_IF_ERROR(reader.Switch(fields, "enable_thinking"));
  CACHALOT_RETURN_IF_ERROR(reader.Budget(fields, "thinking_budget"));
  CACHALOT_ASSIGN_OR_RETURN(const auto chat, Member(fields, "chat_template_kwargs"));
  if (chat) {
    CACHALOT_RETURN_IF_ERROR(reader.Switch(*chat, "thinking"));
    CACHALOT_RETURN_IF_ERROR(reader.Switch(*chat, "enable_thinking"));
    CACHALOT_RETURN_IF_ERROR(reader.Effort(*chat, "reasoning_effort"));
  }
  return reader.setting();
}

}  // namespace cachalot
