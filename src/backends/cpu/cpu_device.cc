#include "backends/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "backends/cpu/context.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/ops/ops.h"
#include "base/check.h"
#include "device/call_recorder.h"

namespace cachalot::cpu {
namespace {

class CpuStream final : public Stream {
 public:
  CpuStream(int num_threads, Isa isa) : context_(num_threads, isa) {}

#define CACHALOT_OPERATOR(name)                                         \
  void name(const name##Params& params) override {                      \
    if (recorder_.recording()) {                                        \
      recorder_.Add([params](Stream& stream) { stream.name(params); }); \
      return;                                                           \
    }                                                                   \
    HoldCaller();                                                       \
    cpu::name(params, context_);                                        \
  }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void BeginStep(const StepMetadata&) override {
    CACHALOT_CHECK(!recorder_.recording(), "a step begins in a capture");
  }
  void Upload(const void* host, Tensor device) override {
    CACHALOT_CHECK(!recorder_.recording(), "an upload in a capture");
    if (device.bytes() > 0) {
      std::memcpy(device.data, host, static_cast<size_t>(device.bytes()));
    }
  }
  void Download(Tensor device, void* host) override {
    CACHALOT_CHECK(!recorder_.recording(), "a download in a capture");
    if (device.bytes() > 0) {
      std::memcpy(host, device.data, static_cast<size_t>(device.bytes()));
    }
  }
  void Copy(Tensor src, Tensor dst) override {
    CACHALOT_CHECK_EQ(src.bytes(), dst.bytes());
    if (recorder_.recording()) {
      recorder_.Add([=](Stream& stream) { stream.Copy(src, dst); });
      return;
    }
    if (src.bytes() > 0) {
      std::memcpy(dst.data, src.data, static_cast<size_t>(src.bytes()));
    }
  }
  Status Synchronize() override {
    CACHALOT_CHECK(!recorder_.recording(), "a wait in a capture");
    pin_.reset();
    return {};
  }

  void BeginCapture() override { recorder_.Begin(); }
  std::unique_ptr<Graph> EndCapture() override { return recorder_.End(); }
  void Replay(const Graph& graph) override { ReplayCalls(graph, *this); }

  void ShareRows(int64_t rows, const std::function<void(int64_t, int64_t)>& visit) override {
    context_.pool().ParallelFor(rows, visit);
  }

 private:
  // The caller is one of the team for as long as a step lasts, and its own again after it.
  void HoldCaller() {
    if (!pin_) {
      pin_.emplace(context_.pool());
    }
  }

  Context context_;
  CallRecorder recorder_;
  std::optional<CallerPin> pin_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int num_threads, Isa isa) : num_threads_(num_threads), isa_(isa) {}

  const char* name() const override { return NameOf(isa_); }

  // Mapped, so that memory costs nothing before it is touched: pools are sized for the longest
  // context.
  Result<Buffer> Allocate(int64_t bytes) override {
    if (bytes == 0) {
      return Buffer();
    }
    void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return MakeError(StatusCode::kResourceExhausted,
                       "cpu: no memory for a buffer of {} bytes: {}", bytes, std::strerror(errno));
    }
    return Buffer(this, data, bytes);
  }

  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<CpuStream>(num_threads_, isa_);
  }

  DType activation_dtype() const override { return DType::kF32; }

  // The reference keeps all that the model does not round; the others keep the published forms.
  RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const override {
    RowFormat format = RowFormat::kF32;
    if (isa_ != Isa::kRef) {
      format = rounding == RowRounding::kFp8 ? RowFormat::kFp8Bf16 : RowFormat::kBf16;
    }
    return {format, rounding, width, rope_dim};
  }

  RowLayout IndexRows(int64_t width, RowRounding rounding) const override {
    RowFormat format = RowFormat::kF32;
    if (isa_ != Isa::kRef) {
      format = rounding == RowRounding::kFp4 ? RowFormat::kFp4 : RowFormat::kInt8;
    }
    return {format, rounding, width, 0};
  }

 private:
  void Free(void* data, int64_t bytes) override { ::munmap(data, static_cast<size_t>(bytes)); }

  const int num_threads_;
  const Isa isa_;
};

}  // namespace

Result<std::unique_ptr<Device>> NewCpuDevice(const CpuOptions& options) {
  if (options.num_threads < 0 || options.num_threads > 1024) {
    return MakeError(StatusCode::kInvalidArgument, "{} threads, expected 0 to 1024",
                     options.num_threads);
  }
  CACHALOT_ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(options.isa));
  const int num_threads = options.num_threads > 0 ? options.num_threads : AvailableCores();
  return std::make_unique<CpuDevice>(num_threads, isa);
}

}  // namespace cachalot::cpu
