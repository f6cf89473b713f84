#include "history.h"

#include <fmt/format.h>

#include <algorithm>

namespace ascend_emulator {
namespace {

// More than this many accesses that nothing orders are no pattern worth following to the last.
constexpr size_t kMostEntries = 4096;

}  // namespace

void Clock::Join(const Clock& other) {
  for (const auto& [stream, task] : other.done_) Reach(stream, task);
}

void Clock::Reach(int stream, uint64_t task) {
  uint64_t& done = done_[stream];
  done = std::max(done, task);
}

bool Clock::Knows(int stream, uint64_t task) const {
  const auto at = done_.find(stream);
  return at != done_.end() && at->second >= task;
}

const History::Entry* History::Conflict(const Access& access, int stream,
                                        const Clock& clock) const {
  for (const Entry& entry : entries_) {
    if (entry.stream == stream || (!entry.access.write && !access.write)) continue;
    if (clock.Knows(entry.stream, entry.task)) continue;
    if (Overlap(entry.access.ranges, access.ranges)) return &entry;
  }
  return nullptr;
}

const History::Entry* History::Unknown(const Clock& clock) const {
  for (const Entry& entry : entries_) {
    if (!clock.Knows(entry.stream, entry.task)) return &entry;
  }
  return nullptr;
}

void History::Add(Entry entry, const Clock& clock) {
  entry.access.allocation = nullptr;  // whose history this may be: it would keep itself
  std::erase_if(entries_, [&](const Entry& old) {
    const bool before = old.stream == entry.stream || clock.Knows(old.stream, old.task);
    return before && (entry.access.write || !old.access.write) &&
           Covers(entry.access.ranges, old.access.ranges);
  });
  if (entries_.size() >= kMostEntries) entries_.erase(entries_.begin());
  entry.access.allocation.reset();  // it owns the history
  entries_.push_back(std::move(entry));
}

std::string Describe(const History::Entry& entry) {
  return fmt::format("{} ({}) {} {}", entry.task_name, Describe(entry.site),
                     entry.access.write ? "writes" : "reads", entry.access.operand);
}

void History::Forget(const Clock& program) {
  std::erase_if(entries_,
                [&](const Entry& entry) { return program.Knows(entry.stream, entry.task); });
}

}  // namespace ascend_emulator
