// Who touched memory, and what happened before what. Streams and the program are the actors; the
// program is one actor however many threads it has, since their own order is not to be seen here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ranges.h"
#include "report.h"

namespace ascend_emulator {

struct Allocation;

// For every stream, up to which of its tasks all is known to be done.
class Clock {
 public:
  void Join(const Clock& other);
  void Reach(int stream, uint64_t task);
  bool Knows(int stream, uint64_t task) const;

 private:
  std::map<int, uint64_t> done_;
};

// What a task, or a call of the program, does with a piece of memory.
struct Access {
  std::string operand;
  std::shared_ptr<Allocation> allocation;
  Ranges ranges;
  bool write = false;
};

// The accesses to an allocation that may still meet others.
class History {
 public:
  struct Entry {
    Access access;  // without its allocation once it is kept
    int stream = 0;
    uint64_t task = 0;
    std::string task_name;
    Site site;  // that queued the task
  };

  // The first entry that the access meets although nothing orders the two; null where there is none.
  const Entry* Conflict(const Access& access, int stream, const Clock& clock) const;
  // Entries that the clock does not know.
  const Entry* Unknown(const Clock& clock) const;
  // Keeps the entry, and forgets those that it stands for.
  void Add(Entry entry, const Clock& clock);
  // Forgets what the program knows to be done: whatever it calls from now on comes after.
  void Forget(const Clock& program);

 private:
  std::vector<Entry> entries_;
};

// "aclnnAdd (aclnnAdd(...), call 12, from ...) writes out"
std::string Describe(const History::Entry& entry);

}  // namespace ascend_emulator
