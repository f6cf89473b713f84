// Streams that are captured, and the graphs that come of it.
#include <fmt/format.h>

#include <algorithm>

#include "entry.h"
#include "export.h"

namespace ascend_emulator {
namespace {

constexpr int kCaptured = 107027;
constexpr int kRunning = 107037;
constexpr int kInvalidated = 507903;

bool ModeOf(int value) { return value >= 0 && value <= 2; }

// Nothing of the capture remains but the graph.
void EndCapture(const std::shared_ptr<Graph>& graph) {
  Runtime& rt = runtime();
  graph->capturing = false;
  std::erase(rt.captures, graph);
  for (const auto& [id, last] : graph->last) {
    if (const auto at = rt.by_id.find(id); at != rt.by_id.end()) at->second->capture = nullptr;
  }
}

// The streams whose last node does not come before the origin's last.
std::vector<int> Unjoined(const Graph& graph) {
  std::vector<bool> before(graph.nodes.size(), false);
  std::vector<size_t> left;
  if (const auto origin = graph.last.at(graph.origin); origin) left.push_back(*origin);
  while (!left.empty()) {
    const size_t node = left.back();
    left.pop_back();
    if (before[node]) continue;
    before[node] = true;
    for (const size_t earlier : graph.nodes[node].after) left.push_back(earlier);
  }
  std::vector<int> unjoined;
  for (const auto& [stream, last] : graph.last) {
    if (stream != graph.origin && last && !before[*last]) unjoined.push_back(stream);
  }
  return unjoined;
}

void Collect(Graph& graph) {
  std::set<uint64_t> counted;
  for (const Node& node : graph.nodes) {
    for (const Access& access : node.task.accesses) {
      graph.accesses.push_back(access);
      graph.accesses.back().operand = fmt::format("{} of {}", access.operand, node.task.name);
      if (counted.insert(access.allocation->id).second) ++access.allocation->graphs;
    }
  }
}

void Uncollect(const Graph& graph) {
  std::set<uint64_t> counted;
  for (const Access& access : graph.accesses) {
    if (counted.insert(access.allocation->id).second) --access.allocation->graphs;
  }
}

// An order of the nodes in which each comes after those that it has to: as captured, the latest stream
// first, or drawn.
std::vector<size_t> OrderOf(const Graph& graph) {
  Runtime& rt = runtime();
  std::vector<size_t> missing(graph.nodes.size());
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    missing[i] = graph.nodes[i].after.size();
    for (const size_t earlier : graph.nodes[i].after) next[earlier].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t pick = 0;
    if (rt.settings.schedule == Schedule::kRandom) pick = rt.random() % ready.size();
    if (rt.settings.schedule == Schedule::kLazy) pick = ready.size() - 1;
    const size_t node = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    order.push_back(node);
    for (const size_t later : next[node]) {
      if (--missing[later] == 0) ready.push_back(later);
    }
    std::sort(ready.begin(), ready.end(), [&](size_t a, size_t b) {
      return std::pair(graph.nodes[a].stream, a) < std::pair(graph.nodes[b].stream, b);
    });
  }
  return order;
}

aclError CaptureBegin(aclrtStream handle, int mode) {
  return Serve("aclmdlRICaptureBegin", EMULATOR_CALLER, fmt::format("mode {}", mode),
               [&](Lock&) -> aclError {
                 Runtime& rt = runtime();
                 std::shared_ptr<Stream> stream;
                 if (const aclError code = NeedStream(handle, stream); code != 0) return code;
                 if (!ModeOf(mode)) return Refuse(kRtInvalidParam, "there is no mode {}", mode);
                 if (stream->is_default)
                   return Refuse(107031, "the default stream cannot be captured");
                 if (stream->capture != nullptr) return RefuseCaptured(*stream);
                 auto graph = std::make_shared<Graph>();
                 graph->device = stream->device;
                 graph->mode = static_cast<CaptureMode>(mode);
                 graph->thread = std::this_thread::get_id();
                 graph->made = thread_state().site;
                 graph->origin = stream->id;
                 graph->handle = rt.graphs.Add(graph);
                 rt.captures.push_back(graph);
                 JoinCapture(graph, *stream);
                 return 0;
               });
}

aclError CaptureEnd(aclrtStream handle, aclmdlRI* model) {
  return Serve("aclmdlRICaptureEnd", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    std::shared_ptr<Stream> stream;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (model == nullptr) return Refuse(kAclInvalidParam, "the model is null");
    *model = nullptr;
    const auto graph = stream->capture;
    if (graph == nullptr) return Refuse(107029, "the stream is not being captured");
    if (graph->origin != stream->id) {
      return Refuse(107036, "the capture was begun on another stream ({})", Describe(graph->made));
    }
    if (graph->mode != CaptureMode::kRelaxed && graph->thread != std::this_thread::get_id()) {
      return Refuse(107038, "the capture was begun by another thread ({})", Describe(graph->made));
    }
    const std::vector<int> unjoined = Unjoined(*graph);
    std::string streams;
    for (const int id : unjoined) {
      if (const auto at = rt.by_id.find(id); at != rt.by_id.end()) {
        streams += fmt::format("{}{}", streams.empty() ? "" : "; ", Describe(at->second->made));
      }
    }
    EndCapture(graph);
    if (!graph->invalid.empty() || !unjoined.empty())
      rt.graphs.Remove(graph->handle, thread_state().site);
    if (!graph->invalid.empty()) {
      return Refuse(kInvalidated, "the capture became invalid: {}", graph->invalid);
    }
    if (!unjoined.empty()) {
      return Refuse(107025,
                    "streams joined the capture and its own never waited for their last: {}",
                    streams);
    }
    graph->histories.clear();
    Collect(*graph);
    *model = graph->handle;
    return 0;
  });
}

// Status 0: not captured, 1: being captured, 2: the same but invalid.
aclError CaptureGetInfo(aclrtStream handle, int* status, aclmdlRI* model) {
  return Serve("aclmdlRICaptureGetInfo", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    std::shared_ptr<Stream> stream;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (status == nullptr && model == nullptr)
      return Refuse(kAclInvalidParam, "status and model are null");
    const auto& graph = stream->capture;
    if (status != nullptr) *status = graph == nullptr ? 0 : graph->invalid.empty() ? 1 : 2;
    if (model != nullptr) *model = graph == nullptr ? nullptr : graph->handle;
    return 0;
  });
}

aclError ThreadExchangeMode(int* mode) {
  return Serve("aclmdlRICaptureThreadExchangeMode", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    if (mode == nullptr) return Refuse(kAclInvalidParam, "the mode is null");
    if (!ModeOf(*mode)) return Refuse(kRtInvalidParam, "there is no mode {}", *mode);
    const auto previous = std::exchange(thread_state().mode, static_cast<CaptureMode>(*mode));
    *mode = static_cast<int>(previous);
    return 0;
  });
}

aclError FindGraph(aclmdlRI handle, std::shared_ptr<Graph>& graph) {
  const Runtime& rt = runtime();
  graph = rt.graphs.Find(handle);
  if (graph == nullptr) return Refuse(kRtInvalidParam, "the model {}", rt.graphs.Explain(handle));
  if (graph->capturing)
    return Refuse(107026, "the model is being captured ({})", Describe(graph->made));
  return 0;
}

aclError ExecuteAsync(aclmdlRI handle, aclrtStream stream_handle) {
  return Serve("aclmdlRIExecuteAsync", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    std::shared_ptr<Graph> graph;
    std::shared_ptr<Stream> stream;
    if (const aclError code = FindGraph(handle, graph); code != 0) return code;
    if (const aclError code = NeedStream(stream_handle, stream); code != 0) return code;
    if (stream->capture != nullptr) return RefuseCaptured(*stream);
    if (graph->device != stream->device) {
      return Refuse(107003, "the model is of device {}, the stream of device {}", graph->device,
                    stream->device);
    }
    for (const Access& access : graph->accesses) {
      if (access.allocation->live) continue;
      return Refuse(kRtInvalidParam, "the model uses freed memory as {}: {}", access.operand,
                    Describe(*access.allocation));
    }
    if (const auto& last = graph->replayed; last != nullptr) {
      Clock clock = stream->clock;
      clock.Join(rt.program);
      if (last->stream != stream->id && !clock.Knows(last->stream, last->task)) {
        return Refuse(kRunning,
                      "its previous run is on another stream, and nothing orders the two");
      }
    }
    for (const Node& node : graph->nodes) {
      if (node.task.copy.empty()) continue;
      rt.journal.Count(fmt::format("copies.{}.async", node.task.copy));
      rt.journal.Count(fmt::format("bytes.{}.async", node.task.copy), node.task.bytes);
    }
    rt.journal.Count("replays");
    Task task;
    task.name = "aclmdlRIExecuteAsync";
    task.site = thread_state().site;
    task.accesses = graph->accesses;
    task.replay = graph;
    task.order = OrderOf(*graph);
    task.record = std::make_shared<Record>();
    graph->replayed = task.record;
    return Enqueue(lock, *stream, std::move(task));
  });
}

aclError DestroyGraph(aclmdlRI handle) {
  return Serve("aclmdlRIDestroy", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    std::shared_ptr<Graph> graph;
    if (const aclError code = FindGraph(handle, graph); code != 0) return code;
    if (graph->replayed != nullptr &&
        !rt.program.Knows(graph->replayed->stream, graph->replayed->task)) {
      return Refuse(kRunning, "the program has not waited for its last run ({})",
                    Describe(graph->made));
    }
    Uncollect(*graph);
    rt.graphs.Remove(handle, thread_state().site);
    return 0;
  });
}

}  // namespace

void JoinCapture(const std::shared_ptr<Graph>& graph, Stream& stream) {
  if (stream.capture == graph) return;
  stream.capture = graph;
  graph->last[stream.id] = std::nullopt;
  graph->clocks[stream.id] = {};
}

aclError AddNode(Graph& graph, Stream& stream, Task task) {
  if (!graph.invalid.empty())
    return Refuse(kInvalidated, "the capture became invalid: {}", graph.invalid);
  const size_t index = graph.nodes.size();
  const uint64_t number = index + 1;
  Node node;
  node.stream = stream.id;
  std::optional<size_t>& last = graph.last[stream.id];
  Clock& clock = graph.clocks[stream.id];
  if (last) node.after.push_back(*last);
  if (task.wait != nullptr) {
    node.after.push_back(task.wait->task);
    clock.Join(task.wait->clock);
  }
  for (const Access& access : task.accesses) {
    History& history = graph.histories[access.allocation->id];
    if (const auto* other = history.Conflict(access, stream.id, clock); other != nullptr) {
      Report(fmt::format(
          "race in a capture: {} {} operand {} on one stream, {} on another, and no event "
          "orders them; {}",
          task.name, access.write ? "writes" : "reads", access.operand, Describe(*other),
          Describe(*access.allocation)));
    }
  }
  for (const Access& access : task.accesses) {
    graph.histories[access.allocation->id].Add({access, stream.id, number, task.name, task.site},
                                               clock);
  }
  clock.Reach(stream.id, number);
  if (task.record != nullptr) {
    task.record->stream = stream.id;
    task.record->task = index;
    task.record->clock = clock;
  }
  last = index;
  node.task = std::move(task);
  graph.nodes.push_back(std::move(node));
  return 0;
}

void Invalidate(Graph& graph, const std::string& why) {
  if (graph.invalid.empty()) graph.invalid = why;
}

void SpoilCapture(const void* handle) {
  const auto stream = runtime().streams.Find(handle);
  if (stream == nullptr || stream->capture == nullptr) return;
  Invalidate(*stream->capture, Describe(thread_state().site) + " failed");
}

aclError RefuseCaptured(Stream& stream) {
  Invalidate(*stream.capture, thread_state().site.call + " was called for a stream of the capture");
  return Refuse(kCaptured, "the stream is being captured ({})", Describe(stream.capture->made));
}

std::shared_ptr<Graph> Forbidding() {
  const CaptureMode mode = thread_state().mode;
  if (mode == CaptureMode::kRelaxed) return nullptr;
  for (const auto& graph : runtime().captures) {
    if (graph->mode == CaptureMode::kRelaxed) continue;
    const bool own = graph->thread == std::this_thread::get_id();
    if (own || (graph->mode == CaptureMode::kGlobal && mode == CaptureMode::kGlobal)) return graph;
  }
  return nullptr;
}

EMULATOR_EXPORT(aclmdlRICaptureBegin, nullptr, nullptr, CaptureBegin);
EMULATOR_EXPORT(aclmdlRICaptureEnd, nullptr, nullptr, CaptureEnd);
EMULATOR_EXPORT(aclmdlRICaptureGetInfo, nullptr, nullptr, CaptureGetInfo);
EMULATOR_EXPORT(aclmdlRICaptureThreadExchangeMode, nullptr, nullptr, ThreadExchangeMode);
EMULATOR_EXPORT(aclmdlRIExecuteAsync, nullptr, nullptr, ExecuteAsync);
EMULATOR_EXPORT(aclmdlRIDestroy, nullptr, nullptr, DestroyGraph);

}  // namespace ascend_emulator
