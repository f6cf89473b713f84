// The second phase of operators, and what else is done with executors.
#include <fmt/format.h>

#include "caller.h"
#include "entry.h"
#include "export.h"

namespace ascend_emulator {
namespace {

constexpr uint64_t kWorkspaceAlignment = 32;

// 0, or the code of a refusal. Adds what the operator does with its workspace.
aclnnStatus CheckWorkspace(const Executor& executor, void* workspace, uint64_t size,
                           std::vector<Access>& accesses) {
  if (executor.workspace == 0) return 0;
  if (workspace == nullptr) {
    return Refuse(kAclnnNull, "the workspace is null, {} bytes are needed", executor.workspace);
  }
  if (size < executor.workspace) {
    return Refuse(kAclnnInvalid, "the workspace has {} bytes, {} are needed", size,
                  executor.workspace);
  }
  const Memory& memory = runtime().memory;
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  const auto allocation = memory.Find(address);
  const int device = memory.DeviceOf(address);
  if (device != executor.device) {
    return Refuse(kAclnnInvalid, "the workspace {} is {}", workspace,
                  device == kHost ? "host memory" : fmt::format("memory of device {}", device));
  }
  if (allocation == nullptr || !allocation->live) {
    return Refuse(
        kAclnnInvalid, "the workspace {} is {}", workspace,
        allocation == nullptr ? "in no allocation" : "freed memory: " + Describe(*allocation));
  }
  if (address % kWorkspaceAlignment != 0) {
    return Refuse(kAclnnInvalid, "the workspace {} is not aligned to {} bytes", workspace,
                  kWorkspaceAlignment);
  }
  if (address + executor.workspace > allocation->base + allocation->size) {
    return Refuse(kAclnnInvalid, "the workspace reaches past the end of {}", Describe(*allocation));
  }
  Access access{"workspace", allocation, Span(address, executor.workspace), true};
  for (const Access& operand : executor.accesses) {
    if (!Overlap(operand.ranges, access.ranges)) continue;
    return Refuse(kAclnnInvalid, "the workspace overlaps {} in {}", operand.operand,
                  Describe(*allocation));
  }
  accesses.push_back(std::move(access));
  return 0;
}

aclnnStatus Launch(Lock& lock, const char* op, void* workspace, uint64_t size, Executor& executor,
                   aclrtStream handle) {
  std::shared_ptr<Stream> stream;
  if (executor.op != op) {
    return Refuse(kAclnnInvalid, "the executor was made by {}", Describe(executor.made));
  }
  if (NeedStream(handle, stream) != 0) return kAclnnRuntime;
  if (stream->device != executor.device) {
    return Refuse(kAclnnRuntime,
                  "the executor was made for device {} ({}), the stream is of device {}",
                  executor.device, Describe(executor.made), stream->device);
  }
  Task task;
  task.name = op;
  task.site = thread_state().site;
  task.accesses = executor.accesses;
  for (const Access& access : task.accesses) {
    if (access.allocation->live) continue;
    return Refuse(kAclnnInvalid, "{} was freed after the first phase: {}", access.operand,
                  Describe(*access.allocation));
  }
  if (const aclnnStatus code = CheckWorkspace(executor, workspace, size, task.accesses);
      code != 0) {
    return code;
  }
  if (executor.data_dependent && stream->capture != nullptr) {
    return Refuse(107027,
                  "the shape of its output depends on data: it waits for the stream, which is "
                  "being captured");
  }
  task.body = executor.body;
  if (executor.workspace > 0) {
    task.workspace = workspace;
    task.workspace_size = executor.workspace;
  }
  if (const aclError code = Enqueue(lock, *stream, std::move(task)); code != 0)
    return kAclnnRuntime;
  if (executor.data_dependent) {
    const Clock known = stream->clock;
    WaitFor(lock, *stream, stream->queued, -1);
    Waited(known);
  }
  return 0;
}

aclError SetRepeatable(aclOpExecutor* handle) {
  return Serve("aclSetAclOpExecutorRepeatable", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    const auto executor = rt.executors.Find(handle);
    if (executor == nullptr)
      return Refuse(kAclnnExecutor, "the executor {}", rt.executors.Explain(handle));
    if (executor->data_dependent)
      return Refuse(kAclnnExecutor, "{} cannot be repeated", executor->op);
    executor->repeatable = true;
    return 0;
  });
}

aclError DestroyExecutor(aclOpExecutor* handle) {
  return Serve("aclDestroyAclOpExecutor", EMULATOR_CALLER, "", [&](Lock&) -> aclError {
    Runtime& rt = runtime();
    if (handle == nullptr) return 0;
    if (rt.executors.Find(handle) == nullptr) {
      return Refuse(kAclnnExecutor, "the executor {}", rt.executors.Explain(handle));
    }
    rt.executors.Remove(handle, thread_state().site);
    return 0;
  });
}

}  // namespace

aclnnStatus Run(const char* op, void* workspace, uint64_t size, aclOpExecutor* handle,
                aclrtStream stream) {
  Runtime& rt = runtime();
  const void* caller = CallerOutside();
  Lock lock(rt.mutex);
  aclnnStatus code = Enter(op, caller, fmt::format("workspace {}, {} bytes", workspace, size));
  const auto executor = rt.executors.Find(handle);
  // Used up by the call, whatever becomes of it.
  if (executor != nullptr && !executor->repeatable)
    rt.executors.Remove(handle, thread_state().site);
  if (code == 0 && executor == nullptr) {
    code = Refuse(handle == nullptr ? kAclnnNull : kAclnnExecutor, "the executor {}",
                  rt.executors.Explain(handle));
  }
  if (code == 0) code = Launch(lock, op, workspace, size, *executor, stream);
  if (code != 0) SpoilCapture(stream);
  Leave(code);
  return code;
}

EMULATOR_EXPORT(aclSetAclOpExecutorRepeatable, nullptr, nullptr, SetRepeatable);
EMULATOR_EXPORT(aclDestroyAclOpExecutor, nullptr, nullptr, DestroyExecutor);

}  // namespace ascend_emulator
