#include <fmt/format.h>

#include <cstring>

#include "entry.h"
#include "export.h"

namespace ascend_emulator {
namespace {

constexpr int kOutOfMemory = 207001;

// aclrtPtrAttributes and aclrtMemLocationType of the vendor's headers.
struct PointerAttributes {
  uint32_t id;
  int location;
  uint32_t page;
  uint32_t reserved[4];
};
constexpr int kLocationHost = 0;
constexpr int kLocationDevice = 1;
constexpr int kLocationUnregistered = 2;

aclError Malloc(void** made, size_t size, int policy) {
  return Serve(
      "aclrtMalloc", EMULATOR_CALLER, fmt::format("{} bytes", size), [&](Lock&) -> aclError {
        Runtime& rt = runtime();
        int device = 0;
        if (const aclError code = NeedDevice(device); code != 0) return code;
        if (made == nullptr) return Refuse(kAclInvalidParam, "the pointer is null");
        *made = nullptr;
        if (size == 0) return Refuse(kAclInvalidParam, "no bytes are asked for");
        if ((policy & ~0x1107) != 0) return Refuse(107018, "there is no policy {:#x}", policy);
        const auto allocation = rt.memory.Allocate(device, size, thread_state().site);
        if (allocation == nullptr) {
          thread_state().message = fmt::format("aclrtMalloc: {} bytes, {} of {} are left", size,
                                               rt.memory.available(device), rt.memory.total());
          return kOutOfMemory;
        }
        *made = reinterpret_cast<void*>(allocation->base);
        return 0;
      });
}

// Reports what makes it wrong to free the allocation now.
void CheckUnused(Allocation& allocation) {
  Runtime& rt = runtime();
  if (const auto* entry = allocation.history.Unknown(rt.program); entry != nullptr) {
    Report(fmt::format("freed although {}, which the program has not waited for; {}",
                       Describe(*entry), Describe(allocation)));
  }
  if (allocation.graphs > 0 && !rt.settings.graph_free_at_replay) {
    for (const auto& [id, graph] : rt.graphs.live()) {
      for (const Access& access : graph->accesses) {
        if (access.allocation.get() != &allocation) continue;
        Report(fmt::format(
            "freed before the graph that uses it as {} is destroyed (captured by {}); {}",
            access.operand, Describe(graph->made), Describe(allocation)));
        return;
      }
    }
  }
}

aclError FreeMemory(const char* call, const void* caller, void* pointer, bool pinned) {
  return Serve(call, caller, fmt::format("{}", pointer), [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    if (pointer == nullptr) return Refuse(kAclInvalidParam, "the pointer is null");
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto allocation = rt.memory.Find(address);
    if (allocation == nullptr || (allocation->device == kHost) != pinned) {
      return Refuse(kRtInvalidParam, "{} is {}", pointer,
                    allocation == nullptr ? "no allocation"
                    : pinned              ? "device memory"
                                          : "pinned host memory");
    }
    if (!allocation->live) return Refuse(kRtInvalidParam, "freed twice: {}", Describe(*allocation));
    if (allocation->base != address) {
      return Refuse(kRtInvalidParam, "{} is byte {} of {}", pointer, address - allocation->base,
                    Describe(*allocation));
    }
    CheckUnused(*allocation);
    const std::string damage = rt.memory.Damage(*allocation);
    if (!damage.empty()) Report(damage);
    rt.memory.Free(allocation, thread_state().site);
    return 0;
  });
}

aclError Free(void* pointer) { return FreeMemory("aclrtFree", EMULATOR_CALLER, pointer, false); }

aclError FreeHost(void* pointer) {
  return FreeMemory("aclrtFreeHost", EMULATOR_CALLER, pointer, true);
}

aclError MallocHost(void** made, size_t size) {
  return Serve("aclrtMallocHost", EMULATOR_CALLER, fmt::format("{} bytes", size),
               [&](Lock&) -> aclError {
                 int device = 0;
                 if (const aclError code = NeedDevice(device); code != 0) return code;
                 if (made == nullptr) return Refuse(kAclInvalidParam, "the pointer is null");
                 *made = nullptr;
                 if (size == 0) return Refuse(kAclInvalidParam, "no bytes are asked for");
                 const auto allocation = runtime().memory.AllocatePinned(size, thread_state().site);
                 if (allocation == nullptr) {
                   thread_state().message = fmt::format("aclrtMallocHost: no {} bytes", size);
                   return kOutOfMemory;
                 }
                 *made = reinterpret_cast<void*>(allocation->base);
                 return 0;
               });
}

aclError PointerGetAttributes(const void* pointer, PointerAttributes* attributes) {
  return Serve("aclrtPointerGetAttributes", EMULATOR_CALLER, fmt::format("{}", pointer),
               [&](Lock&) -> aclError {
                 const Memory& memory = runtime().memory;
                 if (attributes == nullptr)
                   return Refuse(kAclInvalidParam, "the attributes are null");
                 const auto address = reinterpret_cast<uintptr_t>(pointer);
                 const int device = memory.DeviceOf(address);
                 const auto allocation = memory.Find(address);
                 *attributes = {};
                 attributes->page = 4096;
                 if (device != kHost) {
                   attributes->id = static_cast<uint32_t>(device);
                   attributes->location = kLocationDevice;
                 } else {
                   attributes->location =
                       allocation != nullptr ? kLocationHost : kLocationUnregistered;
                 }
                 return 0;
               });
}

enum class Place { kPageable, kPinned, kDevice };

struct End {
  const char* name = "";
  Place place = Place::kPageable;
  uintptr_t address = 0;
  std::shared_ptr<Allocation> allocation;
};

// One end of a copy: its bytes must lie in one allocation, of the given device where it is device memory.
aclError FindEnd(const char* name, const void* pointer, uint64_t bytes, int device, End& end) {
  const Memory& memory = runtime().memory;
  end.name = name;
  end.address = reinterpret_cast<uintptr_t>(pointer);
  end.allocation = memory.Find(end.address);
  const int owner = memory.DeviceOf(end.address);
  if (owner == kHost) {
    end.place = end.allocation != nullptr ? Place::kPinned : Place::kPageable;
  } else {
    end.place = Place::kDevice;
    if (owner != device) {
      return Refuse(kRtInvalidParam, "{} is memory of device {}, the call is for device {}", name,
                    owner, device);
    }
    if (end.allocation == nullptr)
      return Refuse(kRtInvalidParam, "{} {} is in no allocation", name, pointer);
    if (!end.allocation->live) {
      return Refuse(kRtInvalidParam, "{} is freed memory: {}", name, Describe(*end.allocation));
    }
  }
  if (end.allocation != nullptr &&
      end.address + bytes > end.allocation->base + end.allocation->size) {
    return Refuse(kRtInvalidParam, "{}: {} bytes reach {} past the end of {}", name, bytes,
                  end.address + bytes - end.allocation->base - end.allocation->size,
                  Describe(*end.allocation));
  }
  return 0;
}

struct Copy {
  End to;
  End from;
  uint64_t bytes = 0;
  std::string direction;  // "h2d"
};

// A copy as reports and traces name it.
std::string DescribeCopy(const void* to, const void* from, size_t count, int kind) {
  const char* const directions[] = {"h2h", "h2d", "d2h", "d2d"};
  return fmt::format("{} <- {}, {} bytes, {}", to, from, count,
                     kind >= 0 && kind <= 3 ? directions[kind] : fmt::format("kind {}", kind));
}

// Checks both ends and what the program says of them.
aclError Understand(void* to, size_t room, const void* from, size_t count, int kind, int device,
                    Copy& copy) {
  if (to == nullptr || from == nullptr) return Refuse(kAclInvalidParam, "a pointer is null");
  if (count > room) return Refuse(kRtInvalidParam, "{} bytes into {}", count, room);
  if (const aclError code = FindEnd("the destination", to, count, device, copy.to); code != 0)
    return code;
  if (const aclError code = FindEnd("the source", from, count, device, copy.from); code != 0)
    return code;
  copy.bytes = count;
  const bool to_device = copy.to.place == Place::kDevice;
  const bool from_device = copy.from.place == Place::kDevice;
  copy.direction = fmt::format("{}2{}", from_device ? 'd' : 'h', to_device ? 'd' : 'h');
  const int actual = (from_device ? 2 : 0) + (to_device ? 1 : 0);
  if (kind != actual && kind != ACL_MEMCPY_DEFAULT) {
    return Refuse(kRtInvalidParam,
                  "the kind is {}, but the copy goes from {} to {} memory (kind {})", kind,
                  from_device ? "device" : "host", to_device ? "device" : "host", actual);
  }
  return 0;
}

std::vector<Access> AccessesOf(const Copy& copy) {
  std::vector<Access> accesses;
  for (const End* end : {&copy.from, &copy.to}) {
    if (end->allocation == nullptr) continue;
    accesses.push_back(
        {end->name, end->allocation, Span(end->address, copy.bytes), end == &copy.to});
  }
  return accesses;
}

void CountCopy(const Copy& copy, const char* way) {
  Journal& journal = runtime().journal;
  journal.Count(fmt::format("copies.{}.{}", copy.direction, way));
  journal.Count(fmt::format("bytes.{}.{}", copy.direction, way), copy.bytes);
}

void Move(uintptr_t to, uintptr_t from, uint64_t bytes) {
  const Memory& memory = runtime().memory;
  std::memmove(memory.Worker(to), memory.Worker(from), bytes);
}

// A call that works at once while something is captured that forbids it; spoils the capture.
aclError RefuseInCapture() {
  const auto graph = Forbidding();
  if (graph == nullptr) return 0;
  Invalidate(*graph, thread_state().site.call + " was called");
  return Refuse(107030, "not while a stream is captured ({})", Describe(graph->made));
}

// Waits for nothing: what is queued may not have happened yet.
aclError Memcpy(void* to, size_t room, const void* from, size_t count, int kind) {
  return Serve("aclrtMemcpy", EMULATOR_CALLER, DescribeCopy(to, from, count, kind),
               [&](Lock& lock) -> aclError {
                 int device = 0;
                 Copy copy;
                 if (const aclError code = NeedDevice(device); code != 0) return code;
                 if (count == 0) return 0;
                 if (const aclError code = Understand(to, room, from, count, kind, device, copy);
                     code != 0) {
                   return code;
                 }
                 if (const aclError code = RefuseInCapture(); code != 0) return code;
                 CountCopy(copy, "sync");
                 for (const Access& access : AccessesOf(copy)) TouchByProgram(access);
                 Pump(lock);
                 if (to != from) Move(copy.to.address, copy.from.address, count);
                 return 0;
               });
}

// What becomes of pageable memory in an asynchronous copy. `now`: copy at once.
aclError CheckPageable(Lock& lock, Stream& stream, const Copy& copy, bool& now) {
  Runtime& rt = runtime();
  const char* name = copy.to.place == Place::kPageable ? copy.to.name : copy.from.name;
  rt.journal.Count("pageable_copies");
  if (stream.capture != nullptr) {
    return Refuse(kRtInvalidParam, "{} is pageable host memory, which is not copied in a capture",
                  name);
  }
  if (const auto graph = Forbidding(); graph != nullptr) {
    Invalidate(*graph, thread_state().site.call + " was called with pageable memory");
    return Refuse(107041, "{} is pageable host memory while another stream is captured ({})", name,
                  Describe(graph->made));
  }
  if (rt.settings.pageable == Pageable::kError) {
    return Refuse(
        kRtInvalidParam,
        "{} is pageable host memory: the copy waits for the stream, or is no safe copy at all",
        name);
  }
  if (rt.settings.pageable == Pageable::kDrain) {
    const Clock known = stream.clock;
    WaitFor(lock, stream, stream.queued, -1);
    Waited(known);
    now = true;
  }
  return 0;
}

aclError MemcpyAsync(void* to, size_t room, const void* from, size_t count, int kind,
                     aclrtStream handle) {
  const auto serve = [&](Lock& lock) -> aclError {
    std::shared_ptr<Stream> stream;
    Copy copy;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (count == 0) return 0;
    if (const aclError code = Understand(to, room, from, count, kind, stream->device, copy);
        code != 0) {
      return code;
    }
    if (copy.direction == "h2h") return Refuse(207000, "from host to host memory");
    const bool pageable = copy.to.place == Place::kPageable || copy.from.place == Place::kPageable;
    bool now = false;
    if (pageable) {
      if (const aclError code = CheckPageable(lock, *stream, copy, now); code != 0) return code;
    }
    if (stream->capture == nullptr) CountCopy(copy, now ? "sync" : "async");
    if (now) {
      for (const Access& access : AccessesOf(copy)) TouchByProgram(access);
      Move(copy.to.address, copy.from.address, count);
      return 0;
    }
    if (copy.to.place == Place::kPageable) {
      Fill(reinterpret_cast<uint8_t*>(copy.to.address), count, kFreshPoison);
    }
    Task task;
    task.name = "aclrtMemcpyAsync";
    task.site = thread_state().site;
    task.accesses = AccessesOf(copy);
    task.copy = copy.direction;
    task.bytes = copy.bytes;
    task.body = [to = copy.to.address, from = copy.from.address, count](Kernel&) {
      Move(to, from, count);
    };
    return Enqueue(lock, *stream, std::move(task));
  };
  return Serve("aclrtMemcpyAsync", EMULATOR_CALLER, DescribeCopy(to, from, count, kind), serve,
               handle);
}

aclError MemsetAsync(void* to, size_t room, int32_t value, size_t count, aclrtStream handle) {
  const auto serve = [&](Lock& lock) -> aclError {
    std::shared_ptr<Stream> stream;
    End end;
    if (const aclError code = NeedStream(handle, stream); code != 0) return code;
    if (to == nullptr) return Refuse(kAclInvalidParam, "the pointer is null");
    if (count > room) return Refuse(kRtInvalidParam, "{} bytes into {}", count, room);
    if (const aclError code = FindEnd("the memory", to, count, stream->device, end); code != 0)
      return code;
    if (end.place != Place::kDevice) return Refuse(kRtInvalidParam, "{} is host memory", to);
    if (count == 0) return 0;
    Task task;
    task.name = "aclrtMemsetAsync";
    task.site = thread_state().site;
    task.accesses = {{end.name, end.allocation, Span(end.address, count), true}};
    task.body = [address = end.address, value, count](Kernel&) {
      std::memset(runtime().memory.Worker(address), value, count);
    };
    return Enqueue(lock, *stream, std::move(task));
  };
  return Serve("aclrtMemsetAsync", EMULATOR_CALLER, fmt::format("{}, {} bytes", to, count), serve,
               handle);
}

}  // namespace

EMULATOR_EXPORT(aclrtMalloc, nullptr, nullptr, Malloc);
EMULATOR_EXPORT(aclrtFree, nullptr, nullptr, Free);
EMULATOR_EXPORT(aclrtMallocHost, nullptr, nullptr, MallocHost);
EMULATOR_EXPORT(aclrtFreeHost, nullptr, nullptr, FreeHost);
EMULATOR_EXPORT(aclrtPointerGetAttributes, nullptr, nullptr, PointerGetAttributes);
EMULATOR_EXPORT(aclrtMemcpy, nullptr, nullptr, Memcpy);
EMULATOR_EXPORT(aclrtMemcpyAsync, nullptr, nullptr, MemcpyAsync);
EMULATOR_EXPORT(aclrtMemsetAsync, nullptr, nullptr, MemsetAsync);

}  // namespace ascend_emulator
