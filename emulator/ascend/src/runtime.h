// The state of the emulated runtime. One mutex guards all of it; bodies of tasks alone run outside.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "history.h"
#include "memory.h"
#include "meta.h"
#include "registry.h"
#include "report.h"
#include "settings.h"

namespace ascend_emulator {

using Lock = std::unique_lock<std::mutex>;
struct Graph;

struct FaultOf {
  int code = 0;
  std::string message;
  bool injected = false;
};

// A record of an event: done when the stream has got there.
struct Record {
  int stream = 0;
  uint64_t task = 0;
  Clock clock;
  bool done = false;
  std::chrono::steady_clock::time_point at;
  std::weak_ptr<Graph> graph;  // recorded inside a capture: then `task` is a node
  bool captured = false;
};

// Pinned memory that a queued task reads, as it was when the task was queued.
struct Watch {
  std::shared_ptr<Allocation> allocation;
  Ranges::Range range;
  uint64_t hash = 0;
};

struct Task {
  std::string name;  // of the call that queued it
  Site site;
  std::vector<Access> accesses;
  std::function<void(Kernel&)> body;  // none: a record or a wait
  void* workspace = nullptr;
  uint64_t workspace_size = 0;
  std::shared_ptr<Record> record;
  std::shared_ptr<Record> wait;
  std::shared_ptr<Graph> replay;
  std::vector<size_t> order;  // of the graph's nodes
  std::vector<Watch> watches;
  std::string copy;  // the counter of a copy, "h2d" say
  uint64_t bytes = 0;
};

struct Stream : std::enable_shared_from_this<Stream> {
  int id = 0;
  int device = 0;
  bool is_default = false;
  Site made;
  std::deque<std::shared_ptr<Task>> queue;
  uint64_t queued = 0;
  uint64_t done = 0;
  uint64_t work = 0;     // the last task that is more than a record or a wait
  Clock clock;           // what a task queued now comes after
  bool granted = false;  // the first task may run, or does
  bool stop = false;
  std::condition_variable wake;
  std::thread worker;
  std::optional<FaultOf> fault;
  std::shared_ptr<Graph> capture;
  int polls = 0;
};

struct Event {
  uint32_t flags = 0;
  int device = 0;
  Site made;
  std::shared_ptr<Record> last;
  std::vector<std::weak_ptr<Graph>> graphs;  // captured in these
  int polls = 0;
};

struct Node {
  Task task;
  int stream = 0;
  std::vector<size_t> after;
};

enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Graph {
  int device = 0;
  int origin = 0;  // stream
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;
  Site made;
  void* handle = nullptr;
  bool capturing = true;
  std::string invalid;  // why the capture cannot be ended well
  std::vector<Node> nodes;
  std::map<int, std::optional<size_t>> last;  // of every stream that takes part
  std::map<int, Clock> clocks;
  std::map<uint64_t, History> histories;  // by allocation, inside the graph
  std::vector<Access> accesses;           // of the whole
  std::shared_ptr<Record> replayed;       // the latest replay
};

struct Executor {
  std::string op;
  int device = 0;
  uint64_t workspace = 0;
  std::vector<Access> accesses;
  std::function<void(Kernel&)> body;
  bool data_dependent = false;
  bool repeatable = false;
  Site made;
};

// What a thread of the program has of its own.
struct ThreadState {
  uint64_t generation = 0;  // of the runtime
  int device = -1;
  CaptureMode mode = CaptureMode::kGlobal;
  Site site;  // of the call that is being served
  std::string message;
  std::string returned;
};

struct Runtime {
  std::mutex mutex;
  std::condition_variable progress;  // a task is done
  Settings settings;
  Journal journal;
  Memory memory;
  Meta meta;
  Registry<Stream> streams{Kind::kStream};
  Registry<Event> events{Kind::kEvent};
  Registry<Graph> graphs{Kind::kGraph};
  Registry<Executor> executors{Kind::kExecutor};
  std::map<int, std::shared_ptr<Stream>> defaults;  // of the devices' default contexts
  std::map<int, std::shared_ptr<Stream>> by_id;
  Clock program;
  std::mt19937_64 random;
  std::vector<std::shared_ptr<Graph>> captures;  // going on
  std::vector<int> device_uses;                  // aclrtSetDevice less aclrtResetDevice
  std::set<std::string> lifted;                  // limits
  bool initialised = false;
  uint64_t generation = 1;
  uint64_t calls = 0;
  int next_stream = 1;
};

Runtime& runtime();
ThreadState& thread_state();

// Forgets everything that the program made, and reads nothing anew: the settings stay. Tasks that wait
// in queues are dropped; one that runs is waited for.
void Reset(Lock& lock);

// Reports, naming the call that is being served.
void Report(const std::string& text);

// The call was wrong: reports, and leaves the message for aclGetRecentErrMsg.
aclError Refuse(aclError code, const std::string& text);
template <typename... Args>
aclError Refuse(aclError code, fmt::format_string<Args...> format, Args&&... args) {
  return Refuse(code, std::string(fmt::format(format, std::forward<Args>(args)...)));
}

// --- scheduler.cc ---

std::shared_ptr<Stream> NewStream(int device, bool is_default);
void EndStream(Lock& lock, const std::shared_ptr<Stream>& stream);  // what is queued is dropped

// Queues the task, or adds it to the capture that the stream takes part in; 507903 where that is invalid.
// Accesses that nothing orders are reported.
aclError Enqueue(Lock& lock, Stream& stream, Task task);
bool Done(const Record& record);
// Until the stream has done that many tasks. False where `milliseconds` (negative: no limit) are over.
bool WaitFor(Lock& lock, Stream& stream, uint64_t task, int milliseconds);
// A look at whether it has; a look often repeated is as good as a wait.
bool Poll(Lock& lock, Stream& stream, uint64_t task, int& polls);
// What follows from having waited: the program knows what the clock knows, and damage is looked for.
void Waited(const Clock& known);
// The code of the stream's fault, which is told once; 0 where there is none.
aclError TakeFault(Stream& stream);
// Chance to run for what is queued. In every call of the program.
void Pump(Lock& lock);
// Reports where the access meets another that nothing orders before the program's call.
void TouchByProgram(const Access& access);

// --- kernel.cc ---

// Runs the body and all that goes with it, outside the lock.
FaultOf Execute(Runtime& rt, const Task& task);

// --- capture.cc ---

// The stream takes part from now on, if it does not already.
void JoinCapture(const std::shared_ptr<Graph>& graph, Stream& stream);
aclError AddNode(Graph& graph, Stream& stream, Task task);
void Invalidate(Graph& graph, const std::string& why);
// A submission to the stream failed: if it is being captured, the capture is of no use any more.
void SpoilCapture(const void* stream);
// Refuses what may not be done to a stream that is being captured.
aclError RefuseCaptured(Stream& stream);
// The capture that forbids synchronous calls to the calling thread; null where there is none.
std::shared_ptr<Graph> Forbidding();

}  // namespace ascend_emulator
