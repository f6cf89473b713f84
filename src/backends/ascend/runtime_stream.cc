#include "backends/ascend/runtime_stream.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"

namespace cachalot::ascend {
namespace {

// What the runtime recorded, and the stream's own memory that it refers to.
class RuntimeGraph final : public Graph {
 public:
  RuntimeGraph(std::shared_ptr<RuntimeDevice> device, const RuntimeStream* stream, aclmdlRI graph,
               std::vector<std::shared_ptr<DeviceBlock>> memory)
      : device_(std::move(device)), stream_(stream), graph_(graph), memory_(std::move(memory)) {}
  ~RuntimeGraph() override {
    device_->Bind();
    device_->symbols().aclmdlRIDestroy(graph_);
  }

  const RuntimeStream* stream() const { return stream_; }
  aclmdlRI graph() const { return graph_; }

 private:
  std::shared_ptr<RuntimeDevice> device_;
  const RuntimeStream* stream_;
  aclmdlRI graph_;
  std::vector<std::shared_ptr<DeviceBlock>> memory_;
};

}  // namespace

RuntimeStream::RuntimeStream(std::shared_ptr<RuntimeDevice> device, const StreamOptions& options)
    : device_(std::move(device)),
      uploads_(device_, options.upload_slots, options.slot_bytes),
      downloads_(device_, options.download_bytes),
      scratch_(device_),
      workspace_(device_) {
  device_->Bind();
  const aclError code = symbols().aclrtCreateStreamWithConfig(&handle_, 0, 0);
  if (code != ACL_SUCCESS) {
    handle_ = nullptr;
    no_stream_ = device_->Explain("a stream", code);
    fault_ = no_stream_;
  }
}

RuntimeStream::~RuntimeStream() {
  if (handle_ == nullptr) {
    return;
  }
  device_->Bind();
  if (recording_) {
    aclmdlRI graph = nullptr;
    if (symbols().aclmdlRICaptureEnd(handle_, &graph) == ACL_SUCCESS && graph != nullptr) {
      symbols().aclmdlRIDestroy(graph);
    }
  }
  symbols().aclrtSynchronizeStream(handle_);
  symbols().aclrtDestroyStream(handle_);
}

bool RuntimeStream::Ok(const char* what, aclError code) {
  if (code != ACL_SUCCESS) {
    Fail(device_->Explain(what, code));
  }
  return code == ACL_SUCCESS;
}

void RuntimeStream::Fail(Error error) {
  if (!fault_) {
    fault_ = std::move(error);
  }
}

void RuntimeStream::Upload(const void* host, const Tensor& device) {
  CACHALOT_CHECK(!capturing_, "an upload in a capture");
  if (handle_ == nullptr) {
    return;
  }
  device_->Bind();
  const auto* src = static_cast<const std::byte*>(host);
  auto* dst = static_cast<std::byte*>(device.data);
  for (int64_t left = device.bytes(); left > 0;) {
    const auto piece = uploads_.Next(left, handle_);
    if (!piece) {
      return Fail(piece.error());
    }
    std::memcpy(piece->data(), src, piece->size());
    if (!Ok("a copy to the device",
            symbols().aclrtMemcpyAsync(dst, piece->size(), piece->data(), piece->size(),
                                       ACL_MEMCPY_HOST_TO_DEVICE, handle_))) {
      return;
    }
    ++counters_.uploads;
    src += piece->size();
    dst += piece->size();
    left -= static_cast<int64_t>(piece->size());
  }
}

void RuntimeStream::Download(const Tensor& device, void* host) {
  CACHALOT_CHECK(!capturing_, "a download in a capture");
  if (handle_ == nullptr) {
    return;
  }
  device_->Bind();
  const auto* src = static_cast<const std::byte*>(device.data);
  auto* dst = static_cast<std::byte*>(host);
  for (int64_t left = device.bytes(); left > 0;) {
    const auto piece = downloads_.Next(left, dst);
    if (!piece) {
      return Fail(piece.error());
    }
    if (piece->empty()) {
      ++counters_.early_waits;
      FinishDownloads();
      continue;
    }
    if (!Ok("a copy to the host",
            symbols().aclrtMemcpyAsync(piece->data(), piece->size(), src, piece->size(),
                                       ACL_MEMCPY_DEVICE_TO_HOST, handle_))) {
      return;
    }
    ++counters_.downloads;
    src += piece->size();
    dst += piece->size();
    left -= static_cast<int64_t>(piece->size());
  }
}

void RuntimeStream::FinishDownloads() {
  Ok("the stream", symbols().aclrtSynchronizeStream(handle_));
  // After a fault, what arrived is not what was asked for.
  if (fault_) {
    downloads_.Drop();
  } else {
    downloads_.Deliver();
  }
  uploads_.Release();
}

void RuntimeStream::Copy(const Tensor& src, const Tensor& dst) {
  CACHALOT_CHECK_EQ(src.bytes(), dst.bytes());
  if (src.bytes() == 0 || fault_) {
    return;
  }
  device_->Bind();
  const auto bytes = static_cast<size_t>(src.bytes());
  if (Ok("a copy on the device",
         symbols().aclrtMemcpyAsync(dst.data, bytes, src.data, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                    handle_))) {
    ++counters_.device_copies;
  }
}

Status RuntimeStream::Synchronize() {
  CACHALOT_CHECK(!capturing_, "a wait in a capture");
  if (handle_ != nullptr) {
    device_->Bind();
    ++counters_.waits;
    FinishDownloads();
    scratch_.Release();
    workspace_.Release();
  }
  std::optional<Error> fault = std::exchange(fault_, no_stream_);
  if (fault) {
    return tl::unexpected(*std::move(fault));
  }
  return {};
}

void RuntimeStream::BeginCapture() {
  CACHALOT_CHECK(!capturing_, "a capture in a capture");
  CACHALOT_CHECK(static_cast<bool>(symbols().aclmdlRICaptureBegin), "graphs were not asked for");
  capturing_ = true;
  if (!fault_) {
    device_->Bind();
    recording_ = Ok("beginning a capture",
                    symbols().aclmdlRICaptureBegin(handle_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  }
}

std::unique_ptr<Graph> RuntimeStream::EndCapture() {
  CACHALOT_CHECK(capturing_, "a capture that did not begin");
  capturing_ = false;
  if (!std::exchange(recording_, false)) {
    return nullptr;
  }
  aclmdlRI graph = nullptr;
  Ok("ending a capture", symbols().aclmdlRICaptureEnd(handle_, &graph));
  if (fault_) {
    if (graph != nullptr) {
      symbols().aclmdlRIDestroy(graph);
    }
    return nullptr;
  }
  // An arena does not grow in a capture, so these are all that the recorded calls took.
  return std::make_unique<RuntimeGraph>(device_, this, graph,
                                        std::vector{scratch_.block(), workspace_.block()});
}

void RuntimeStream::Replay(const Graph& graph) {
  CACHALOT_CHECK(!capturing_, "a replay in a capture");
  const auto& recorded = static_cast<const RuntimeGraph&>(graph);
  CACHALOT_CHECK(recorded.stream() == this, "a graph of another stream");
  if (fault_) {
    return;
  }
  device_->Bind();
  if (Ok("a replay", symbols().aclmdlRIExecuteAsync(recorded.graph(), handle_))) {
    ++counters_.replays;
  }
}

std::byte* RuntimeStream::TakeFrom(StreamArena& arena, const char* what, int64_t bytes) {
  if (fault_) {
    return nullptr;
  }
  const Result<std::byte*> data = arena.Take(bytes, !capturing_);
  if (!data) {
    Fail(data.error());
    return nullptr;
  }
  if (*data == nullptr) {
    Fail({StatusCode::kResourceExhausted,
          fmt::format("{} of {} bytes in a capture, more than the same calls took before it", what,
                      bytes)});
  }
  return *data;
}

Tensor RuntimeStream::Scratch(DType dtype, const Shape& shape) {
  const Tensor tensor{nullptr, dtype, shape};
  return {TakeFrom(scratch_, "scratch memory", tensor.bytes()), dtype, shape};
}

void* RuntimeStream::Workspace(int64_t bytes) {
  workspace_.Rewind();
  return TakeFrom(workspace_, "an operator's workspace", bytes);
}

}  // namespace cachalot::ascend
