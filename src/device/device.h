// What a device is: memory, streams of operators, and the row formats that its kernels read.
// Backends implement it; nothing above this room names one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "device/buffer.h"
#include "device/ops.h"
#include "device/step.h"
#include "device/weight_placer.h"

namespace cachalot {

// Operators and copies that a stream recorded.
class Graph {
 public:
  virtual ~Graph() = default;
};

// A queue of operators and copies, run in the order they were issued. Used by one thread at a time.
class Stream : public Operators {
 public:
  // Called before the operators of every step and before every Replay, outside of captures. A
  // device that works parts of a step out on the host does it here, and leaves them in buffers that
  // stay where they are, so that a replay finds them. Everything that is viewed is read before this
  // returns.
  virtual void BeginStep(const StepMetadata& step) { static_cast<void>(step); }

  // Host memory must stay as it is until Synchronize.
  virtual void Upload(const void* host, Tensor device) = 0;
  virtual void Download(Tensor device, void* host) = 0;
  // From one place on the device to another, which have as many bytes and do not overlap.
  virtual void Copy(Tensor src, Tensor dst) = 0;
  // Waits for all that was issued; the first fault of the device since the last call surfaces here.
  virtual Status Synchronize() = 0;

  // Between these two, operators and Copy are recorded and not run. Nothing else may be issued:
  // what comes from the host or goes there is not part of a graph.
  virtual void BeginCapture() = 0;
  // Null where the device could not record: Synchronize says why.
  virtual std::unique_ptr<Graph> EndCapture() = 0;
  // Issues what this stream recorded, over the same memory: tensors, weights and tables stand where
  // they stood, with the values that they have now. The graph must stay until Synchronize.
  virtual void Replay(const Graph& graph) = 0;

  // For loading: calls visit for [0, rows) of a weight in parts, on the CPU each on the thread that
  // will read them, so that memory that it touches first is near.
  virtual void ShareRows(int64_t rows,
                         const std::function<void(int64_t begin, int64_t end)>& visit) {
    visit(0, rows);
  }
};

class Device : public BufferOwner {
 public:
  virtual const char* name() const = 0;
  // Zeroed memory, aligned for every kernel. kResourceExhausted where there is not enough.
  virtual Result<Buffer> Allocate(int64_t bytes) = 0;
  virtual std::unique_ptr<Stream> NewStream() = 0;
  // Bytes that are free in memory of the device's own; none where it shares the machine's.
  virtual std::optional<int64_t> free_bytes() const { return {}; }
  virtual DType activation_dtype() const = 0;
  // How this device keeps key/value rows and index keys of these widths under the model's rounding.
  virtual RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const = 0;
  virtual RowLayout IndexRows(int64_t width, RowRounding rounding) const = 0;

  virtual WeightRecipe weight_recipe() const { return WeightRecipe::kStored; }
  // Null where kernels read the weights as the checkpoint stores them, in its own memory.
  virtual std::unique_ptr<WeightPlacer> NewWeightPlacer() { return nullptr; }
};

}  // namespace cachalot
