// Events as aclrtCreateEventExWithFlag makes them; those of the older calls are not there.
#include <fmt/format.h>

#include "entry.h"
#include "export.h"

namespace ascend_emulator {
namespace {

constexpr uint32_t kSync = 0x1;
constexpr uint32_t kTimeLine = 0x8;
constexpr uint32_t kFlags = 0x1 | 0x2 | 0x8 | 0x10 | 0x20 | 0x40;

aclError CreateEvent(aclrtEvent* made, uint32_t flags) {
  return Serve("aclrtCreateEventExWithFlag", EMULATOR_CALLER, fmt::format("flag {:#x}", flags),
               [&](Lock&) -> aclError {
                 int device = 0;
                 if (const aclError code = NeedDevice(device); code != 0) return code;
                 if (made == nullptr) return Refuse(kAclInvalidParam, "the event is null");
                 if (flags == 0 || (flags & ~kFlags) != 0) {
                   return Refuse(kRtInvalidParam, "there are no event flags {:#x}", flags);
                 }
                 auto event = std::make_shared<Event>();
                 event->flags = flags;
                 event->device = device;
                 event->made = thread_state().site;
                 *made = runtime().events.Add(std::move(event));
                 return 0;
               });
}

aclError FindEvent(aclrtEvent handle, std::shared_ptr<Event>& event) {
  const Runtime& rt = runtime();
  event = rt.events.Find(handle);
  if (event == nullptr) return Refuse(kRtInvalidParam, "the event {}", rt.events.Explain(handle));
  return 0;
}

// Looking at an event that was recorded in a capture is refused, and spoils the capture.
aclError RefuseRecordedInCapture(const Event& event) {
  if (event.last == nullptr || !event.last->captured) return 0;
  if (const auto graph = event.last->graph.lock(); graph != nullptr && graph->capturing) {
    Invalidate(*graph,
               thread_state().site.call + " was called for an event recorded in the capture");
  }
  return Refuse(107028, "the event was recorded in a capture ({})", Describe(event.made));
}

aclError DestroyEvent(aclrtEvent handle) {
  return Serve("aclrtDestroyEvent", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    std::shared_ptr<Event> event;
    if (const aclError code = FindEvent(handle, event); code != 0) return code;
    for (const auto& weak : event->graphs) {
      const auto graph = weak.lock();
      if (graph == nullptr) continue;
      Report(fmt::format("an event ({}) is destroyed before the graph that it was captured in ({})",
                         Describe(event->made), Describe(graph->made)));
      break;
    }
    runtime().events.Remove(handle, thread_state().site);
    return 0;
  });
}

aclError RecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  return Serve(
      "aclrtRecordEvent", EMULATOR_CALLER, "",
      [&](Lock& lock) -> aclError {
        std::shared_ptr<Event> event;
        std::shared_ptr<Stream> stream;
        if (const aclError code = FindEvent(handle, event); code != 0) return code;
        if (const aclError code = NeedStream(stream_handle, stream); code != 0) return code;
        if (event->device != stream->device) {
          return Refuse(107003, "the event is of device {}, the stream of device {}", event->device,
                        stream->device);
        }
        Task task;
        task.name = "aclrtRecordEvent";
        task.site = thread_state().site;
        task.record = std::make_shared<Record>();
        const auto record = task.record;
        if (stream->capture != nullptr) {
          record->captured = true;
          record->graph = stream->capture;
          event->graphs.push_back(stream->capture);
        }
        if (const aclError code = Enqueue(lock, *stream, std::move(task)); code != 0) return code;
        event->last = record;
        event->polls = 0;
        return 0;
      },
      stream_handle);
}

aclError StreamWaitEvent(aclrtStream stream_handle, aclrtEvent handle) {
  return Serve(
      "aclrtStreamWaitEvent", EMULATOR_CALLER, "",
      [&](Lock& lock) -> aclError {
        std::shared_ptr<Event> event;
        std::shared_ptr<Stream> stream;
        if (const aclError code = FindEvent(handle, event); code != 0) return code;
        if (const aclError code = NeedStream(stream_handle, stream); code != 0) return code;
        if ((event->flags & kSync) == 0) {
          return Refuse(kRtInvalidParam, "the event has not the flag SYNC ({})",
                        Describe(event->made));
        }
        if (event->last == nullptr) return 0;  // never recorded: complete
        const Record& last = *event->last;
        const auto graph = last.graph.lock();
        if (last.captured) {
          if (graph == nullptr || !graph->capturing) {
            return Refuse(107028, "the event was recorded in a capture that has ended ({})",
                          Describe(event->made));
          }
          if (stream->capture != nullptr && stream->capture != graph) {
            Invalidate(*graph, "another capture waited for its event");
            return Refuse(107032, "the event was recorded in another capture");
          }
          if (stream->is_default) {
            Invalidate(*graph, "the default stream waited for its event");
            return Refuse(107031, "the default stream cannot take part in a capture");
          }
          JoinCapture(graph, *stream);
          event->graphs.push_back(graph);
        } else if (stream->capture != nullptr) {
          return Refuse(107024,
                        "the stream is being captured, and the event was recorded outside ({})",
                        Describe(event->made));
        }
        Task task;
        task.name = "aclrtStreamWaitEvent";
        task.site = thread_state().site;
        task.wait = event->last;
        return Enqueue(lock, *stream, std::move(task));
      },
      stream_handle);
}

// 1: complete, 0: not ready; the other way round than the older query.
aclError QueryEventStatus(aclrtEvent handle, int* status) {
  return Serve("aclrtQueryEventStatus", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    std::shared_ptr<Event> event;
    if (const aclError code = FindEvent(handle, event); code != 0) return code;
    if (status == nullptr) return Refuse(kAclInvalidParam, "the status is null");
    if (const aclError code = RefuseRecordedInCapture(*event); code != 0) return code;
    *status = 1;
    const auto record = event->last;
    if (record == nullptr) return 0;
    const auto stream = rt.by_id.find(record->stream);
    if (!record->done && stream != rt.by_id.end()) {
      const auto keep = stream->second;
      *status = Poll(lock, *keep, record->task, event->polls) ? 1 : 0;
    }
    if (*status == 1) rt.program.Join(record->clock);
    return 0;
  });
}

aclError SynchronizeEvent(aclrtEvent handle) {
  return Serve("aclrtSynchronizeEvent", EMULATOR_CALLER, "", [&](Lock& lock) -> aclError {
    Runtime& rt = runtime();
    std::shared_ptr<Event> event;
    if (const aclError code = FindEvent(handle, event); code != 0) return code;
    if (const aclError code = RefuseRecordedInCapture(*event); code != 0) return code;
    rt.journal.Count("event_syncs");
    const auto record = event->last;
    if (record == nullptr) return 0;
    const auto at = rt.by_id.find(record->stream);
    if (at == rt.by_id.end()) {
      rt.program.Join(record->clock);
      return 0;
    }
    const auto stream = at->second;
    WaitFor(lock, *stream, record->task, -1);
    Waited(record->clock);
    return TakeFault(*stream);
  });
}

aclError EventElapsedTime(float* milliseconds, aclrtEvent start_handle, aclrtEvent end_handle) {
  return Serve("aclrtEventElapsedTime", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    std::shared_ptr<Event> start;
    std::shared_ptr<Event> end;
    if (const aclError code = FindEvent(start_handle, start); code != 0) return code;
    if (const aclError code = FindEvent(end_handle, end); code != 0) return code;
    if (milliseconds == nullptr) return Refuse(kAclInvalidParam, "the time is null");
    for (const Event* event : {start.get(), end.get()}) {
      if (const aclError code = RefuseRecordedInCapture(*event); code != 0) return code;
      if ((event->flags & kTimeLine) == 0) {
        return Refuse(107006, "the event has not the flag TIME_LINE ({})", Describe(event->made));
      }
      if (event->last == nullptr || !event->last->done) {
        return Refuse(107006, "the event is not complete ({})", Describe(event->made));
      }
    }
    if (end->last->at < start->last->at) return Refuse(107007, "the end came before the start");
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->last->at - start->last->at).count();
    return 0;
  });
}

}  // namespace

EMULATOR_EXPORT(aclrtCreateEventExWithFlag, nullptr, nullptr, CreateEvent);
EMULATOR_EXPORT(aclrtDestroyEvent, nullptr, nullptr, DestroyEvent);
EMULATOR_EXPORT(aclrtRecordEvent, nullptr, nullptr, RecordEvent);
EMULATOR_EXPORT(aclrtStreamWaitEvent, nullptr, nullptr, StreamWaitEvent);
EMULATOR_EXPORT(aclrtQueryEventStatus, nullptr, nullptr, QueryEventStatus);
EMULATOR_EXPORT(aclrtSynchronizeEvent, nullptr, nullptr, SynchronizeEvent);
EMULATOR_EXPORT(aclrtEventElapsedTime, nullptr, nullptr, EventElapsedTime);

}  // namespace ascend_emulator
