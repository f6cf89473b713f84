// When tasks run. Every stream has a worker, which runs the stream's first task when it is granted.
// Eager: granted as soon as what the task waits for is done. Lazy and random: granted one at a time,
// while the program is in a call, so that the same program and seed give the same order.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace ascend_emulator {
namespace {

// So many looks without a wait let lazy streams run: a program may wait by looking.
constexpr int kPatience = 3;

bool Runnable(const Stream& stream) {
  if (stream.queue.empty() || stream.granted) return false;
  const Task& task = *stream.queue.front();
  return task.wait == nullptr || Done(*task.wait);
}

void Grant(Stream& stream) {
  stream.granted = true;
  stream.wake.notify_one();
}

void GrantAll(Runtime& rt) {
  for (const auto& [id, stream] : rt.by_id) {
    if (Runnable(*stream)) Grant(*stream);
  }
}

std::vector<std::shared_ptr<Stream>> AllRunnable(const Runtime& rt) {
  std::vector<std::shared_ptr<Stream>> all;
  for (const auto& [id, stream] : rt.by_id) {
    if (Runnable(*stream)) all.push_back(stream);
  }
  return all;
}

// Runs the stream's first task to its end.
void RunOne(Lock& lock, Runtime& rt, const std::shared_ptr<Stream>& stream) {
  const uint64_t done = stream->done;
  Grant(*stream);
  rt.progress.wait(lock, [&] { return stream->done > done || stream->stop; });
}

// What has to run next for the stream to advance: its first task, or that of a stream it waits for.
std::shared_ptr<Stream> Needed(const Runtime& rt, Stream& stream) {
  std::shared_ptr<Stream> at = stream.shared_from_this();
  for (size_t hops = 0; hops <= rt.by_id.size(); ++hops) {
    if (at->queue.empty()) return nullptr;
    const Task& task = *at->queue.front();
    if (at->granted || task.wait == nullptr || Done(*task.wait)) return at;
    const auto next = rt.by_id.find(task.wait->stream);
    if (next == rt.by_id.end()) return nullptr;
    at = next->second;
  }
  return nullptr;
}

// FNV-1a over words, and the bytes that are left.
uint64_t Hash(const uint8_t* at, uint64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325U;
  uint64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at + i, 8);
    hash = (hash ^ word) * 0x100000001b3U;
    hash ^= hash >> 32;
  }
  for (; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3U;
  return hash;
}

bool Meet(const Ranges::Range& a, const Ranges::Range& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Whether a task that is queued, or runs, reads or writes there.
bool InUse(const Runtime& rt, const Allocation& allocation, const Ranges& ranges) {
  for (const auto& [id, stream] : rt.by_id) {
    for (const auto& task : stream->queue) {
      for (const Access& access : task->accesses) {
        if (access.allocation.get() == &allocation && Overlap(access.ranges, ranges)) return true;
      }
    }
  }
  return false;
}

// Remembers pinned memory that the task will read, and spoils what it will write: until the program has
// waited, there is nothing to be read there.
void Prepare(const Runtime& rt, Task& task) {
  for (const Access& access : task.accesses) {
    if (access.allocation->device != kHost) continue;
    if (access.write && InUse(rt, *access.allocation, access.ranges)) continue;
    for (const auto& range : access.ranges.list) {
      auto* at = reinterpret_cast<uint8_t*>(range.begin);
      const uint64_t bytes = range.end - range.begin;
      if (access.write) {
        Fill(at, bytes, kFreshPoison);
      } else {
        task.watches.push_back({access.allocation, range, Hash(at, bytes)});
      }
    }
  }
}

// A task has written there: what others remember of it is out of date.
void ForgetWatches(const Runtime& rt, const Access& written) {
  for (const auto& [id, stream] : rt.by_id) {
    for (const auto& task : stream->queue) {
      std::erase_if(task->watches, [&](const Watch& watch) {
        return std::any_of(written.ranges.list.begin(), written.ranges.list.end(),
                           [&](const auto& range) { return Meet(watch.range, range); });
      });
    }
  }
}

void ReportOf(Runtime& rt, const Task& task, const std::string& what) {
  rt.journal.Report(fmt::format("{}: {}; queued by {}", task.name, what, Describe(task.site)),
                    rt.settings.abort_on_report);
}

// Whether the program wrote into pinned memory while a task that reads it was queued.
void CheckWatches(Runtime& rt, const Task& task) {
  for (const Watch& watch : task.watches) {
    const auto* at = reinterpret_cast<const uint8_t*>(watch.range.begin);
    const bool same = Hash(at, watch.range.end - watch.range.begin) == watch.hash;
    if (same || !watch.allocation->live) continue;
    ReportOf(rt, task,
             "pinned memory was rewritten while the task that reads it was queued: " +
                 Describe(*watch.allocation));
  }
}

void Finish(Runtime& rt, Stream& stream, const Task& task, FaultOf fault) {
  for (const Access& access : task.accesses) {
    if (!access.write) continue;
    if (access.allocation->device == kHost) ForgetWatches(rt, access);
    if (!access.allocation->live) continue;
    const std::string damage = rt.memory.Damage(*access.allocation);
    if (!damage.empty()) ReportOf(rt, task, fmt::format("operand {}: {}", access.operand, damage));
  }
  if (task.body || task.replay) rt.journal.Count("tasks");
  if (task.record != nullptr) {
    task.record->done = true;
    task.record->at = std::chrono::steady_clock::now();
  }
  if (fault.code == 0) return;
  if (!fault.injected) ReportOf(rt, task, fmt::format("fault {}: {}", fault.code, fault.message));
  if (!stream.fault) stream.fault = std::move(fault);
}

void Work(std::shared_ptr<Stream> stream) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  for (;;) {
    stream->wake.wait(lock, [&] { return stream->granted || stream->stop; });
    if (!stream->granted) return;
    const std::shared_ptr<Task> task = stream->queue.front();
    FaultOf fault;
    if (task->body || task->replay) {
      CheckWatches(rt, *task);
      lock.unlock();
      fault = Execute(rt, *task);
      lock.lock();
    }
    Finish(rt, *stream, *task, std::move(fault));
    stream->queue.pop_front();
    ++stream->done;
    stream->granted = false;
    if (rt.settings.schedule == Schedule::kEager) GrantAll(rt);
    rt.progress.notify_all();
  }
}

void Touch(Runtime& rt, const Task& task, const Stream& stream, uint64_t number) {
  for (const Access& access : task.accesses) {
    History& history = access.allocation->history;
    history.Forget(rt.program);
    if (const auto* other = history.Conflict(access, stream.id, stream.clock); other != nullptr) {
      Report(fmt::format(
          "race: {} {} operand {} on one stream, {} on another, and no event orders them; {}",
          task.name, access.write ? "writes" : "reads", access.operand, Describe(*other),
          Describe(*access.allocation)));
    }
  }
  for (const Access& access : task.accesses) {
    access.allocation->history.Add({access, stream.id, number, task.name, task.site}, stream.clock);
  }
}

}  // namespace

std::shared_ptr<Stream> NewStream(int device, bool is_default) {
  Runtime& rt = runtime();
  auto stream = std::make_shared<Stream>();
  stream->id = rt.next_stream++;
  stream->device = device;
  stream->is_default = is_default;
  stream->made = thread_state().site;
  stream->worker = std::thread(Work, stream);
  rt.by_id[stream->id] = stream;
  return stream;
}

void EndStream(Lock& lock, const std::shared_ptr<Stream>& stream) {
  Runtime& rt = runtime();
  rt.by_id.erase(stream->id);
  // What runs now ends first; the rest never happens, and nobody waits for it.
  for (size_t i = stream->granted ? 1 : 0; i < stream->queue.size(); ++i) {
    const Task& task = *stream->queue[i];
    if (task.record != nullptr) task.record->done = true;
  }
  stream->queue.resize(stream->granted ? 1 : 0);
  stream->stop = true;
  stream->wake.notify_one();
  lock.unlock();
  stream->worker.join();
  lock.lock();
  rt.progress.notify_all();
}

bool Done(const Record& record) { return record.done; }

aclError Enqueue(Lock& lock, Stream& stream, Task task) {
  Runtime& rt = runtime();
  if (stream.capture != nullptr) return AddNode(*stream.capture, stream, std::move(task));
  const uint64_t number = stream.queued + 1;
  stream.clock.Join(rt.program);
  if (task.wait != nullptr) {
    stream.clock.Join(task.wait->clock);
    stream.clock.Reach(task.wait->stream, task.wait->task);
  }
  Touch(rt, task, stream, number);
  Prepare(rt, task);
  stream.clock.Reach(stream.id, number);
  if (task.record != nullptr) {
    task.record->stream = stream.id;
    task.record->task = number;
    task.record->clock = stream.clock;
  }
  if (task.body || task.replay) stream.work = number;
  stream.queued = number;
  stream.queue.push_back(std::make_shared<Task>(std::move(task)));
  Pump(lock);
  return 0;
}

void Pump(Lock& lock) {
  Runtime& rt = runtime();
  if (rt.settings.schedule == Schedule::kEager) {
    GrantAll(rt);
  } else if (rt.settings.schedule == Schedule::kRandom) {
    for (uint64_t count = rt.random() % 3; count > 0; --count) {
      const auto all = AllRunnable(rt);
      if (all.empty()) return;
      RunOne(lock, rt, all[rt.random() % all.size()]);
    }
  }
}

bool WaitFor(Lock& lock, Stream& stream, uint64_t task, int milliseconds) {
  Runtime& rt = runtime();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (stream.done < task && !stream.stop) {
    if (rt.settings.schedule == Schedule::kLazy) {
      if (const auto needed = Needed(rt, stream); needed != nullptr && Runnable(*needed)) {
        RunOne(lock, rt, needed);
        continue;
      }
    } else if (rt.settings.schedule == Schedule::kRandom) {
      if (const auto all = AllRunnable(rt); !all.empty()) {
        RunOne(lock, rt, all[rt.random() % all.size()]);
        continue;
      }
    } else {
      GrantAll(rt);
    }
    if (milliseconds < 0) {
      rt.progress.wait(lock);
    } else if (rt.progress.wait_until(lock, deadline) == std::cv_status::timeout) {
      return stream.done >= task;
    }
  }
  return true;
}

bool Poll(Lock& lock, Stream& stream, uint64_t task, int& polls) {
  if (runtime().settings.schedule != Schedule::kEager) {
    Pump(lock);
    if (stream.done < task && ++polls > kPatience) WaitFor(lock, stream, task, -1);
  }
  if (stream.done < task) return false;
  polls = 0;
  return true;
}

void Waited(const Clock& known) {
  Runtime& rt = runtime();
  rt.program.Join(known);
  for (const std::string& damage : rt.memory.Damage()) Report(damage);
}

aclError TakeFault(Stream& stream) {
  if (!stream.fault) return 0;
  const FaultOf fault = *stream.fault;
  stream.fault.reset();
  thread_state().message = fault.message;
  return fault.code;
}

void TouchByProgram(const Access& access) {
  Runtime& rt = runtime();
  History& history = access.allocation->history;
  history.Forget(rt.program);
  const auto* other = history.Conflict(access, kHost, rt.program);
  if (other == nullptr) return;
  Report(fmt::format("race: the program {} memory while {}, which it has not waited for; {}",
                     access.write ? "writes" : "reads", Describe(*other),
                     Describe(*access.allocation)));
}

}  // namespace ascend_emulator
