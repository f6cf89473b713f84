// TurnMemory: the tokens of answers with tool calls, as the model wrote them. A client sends calls back
// as JSON; written again from that they might not be the same tokens, and all that follows would
// miss the prefix cache. Of an answer that is still remembered the prompt gets the tokens themselves.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chat/message.h"

namespace cachalot {

// From any thread.
class TurnMemory {
 public:
  explicit TurnMemory(int64_t max_bytes) : max_bytes_(max_bytes) {}

  struct Turn {
    std::vector<ToolCall> calls;  // with their ids
    WrittenTurn written;
  };

  void Remember(Turn turn);
  // Of the message that sends exactly these calls back, arguments compared as JSON. The longest
  // unused are forgotten first.
  std::optional<WrittenTurn> Find(const Message& message);

 private:
  struct Kept {
    Turn turn;
    int64_t bytes = 0;
  };

  const int64_t max_bytes_;
  std::mutex mutex_;
  std::list<Kept> turns_;  // the latest used first
  std::unordered_map<std::string, std::list<Kept>::iterator>
      by_call_;  // by the id of its first call
  int64_t bytes_ = 0;
};

// Of call `call` of a choice: "call_…" in all dialects; equal arguments give equal ids.
std::string CallId(std::string_view answer_id, int64_t choice, int64_t call);

}  // namespace cachalot
