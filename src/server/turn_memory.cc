#include "server/turn_memory.h"

#include <algorithm>
#include <utility>

#include "chat/python_json.h"

namespace cachalot {
namespace {

bool SameJson(const std::string& a, const std::string& b) {
  if (a == b) {
    return true;
  }
  const auto left = ParsePythonJson(a, "arguments");
  const auto right = ParsePythonJson(b, "arguments");
  return left && right && *left == *right;
}

bool SameCalls(const std::vector<ToolCall>& a, const std::vector<ToolCall>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ToolCall& left, const ToolCall& right) {
                      return left.id == right.id && left.name == right.name &&
                             SameJson(left.arguments, right.arguments);
                    });
}

int64_t BytesOf(const TurnMemory::Turn& turn) {
  size_t bytes =
      256 + (turn.written.reasoning.size() + turn.written.answer.size()) * sizeof(int32_t);
  for (const ToolCall& call : turn.calls) {
    bytes += sizeof(call) + call.name.size() + call.arguments.size() + call.id.size();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

void TurnMemory::Remember(Turn turn) {
  const int64_t bytes = BytesOf(turn);
  if (turn.calls.empty() || bytes > max_bytes_) {
    return;
  }
  const std::lock_guard lock(mutex_);
  std::string id = turn.calls.front().id;
  if (by_call_.contains(id)) {
    return;
  }
  turns_.push_front({std::move(turn), bytes});
  by_call_.emplace(std::move(id), turns_.begin());
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    bytes_ -= turns_.back().bytes;
    by_call_.erase(turns_.back().turn.calls.front().id);
    turns_.pop_back();
  }
}

std::optional<WrittenTurn> TurnMemory::Find(const Message& message) {
  if (message.tool_calls.empty()) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const auto found = by_call_.find(message.tool_calls.front().id);
  if (found == by_call_.end() || !SameCalls(found->second->turn.calls, message.tool_calls)) {
    return std::nullopt;
  }
  turns_.splice(turns_.begin(), turns_, found->second);
  return found->second->turn.written;
}

std::string CallId(std::string_view answer_id, int64_t choice, int64_t call) {
  // Ids of answers are "chatcmpl-" and the like before what is random.
  const size_t prefix = answer_id.find_first_of("-_");
  const std::string_view random =
      prefix == answer_id.npos ? answer_id : answer_id.substr(prefix + 1);
  return fmt::format("call_{}{:02x}{:02x}", random, choice, call);
}

}  // namespace cachalot
