#include "backends/ascend/ascend_stream.h"

#include <utility>

#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

// Tokens, or rows, that an operator is asked for: none is legal and does nothing.
template <typename Params>
int64_t RowsOf(const Params& params) {
  if constexpr (requires { params.x; }) {
    return params.x.shape[0];
  } else if constexpr (requires { params.q; }) {
    return params.q.shape[0];
  } else if constexpr (requires { params.ids; }) {
    return params.ids.shape[0];
  } else if constexpr (requires { params.rows; }) {
    return params.rows.shape[0];
  } else {
    return params.src.shape[0];
  }
}

class AscendStream final : public Stream {
 public:
  AscendStream(std::shared_ptr<RuntimeDevice> device, const AscendStreamOptions& options)
      : runtime_(device, options.runtime),
        step_(device, runtime_,
              {.cores = device->facts().cube_cores, .host_schedules = options.host_schedules}),
        constants_(device, runtime_),
        context_{runtime_, step_, constants_, options.ops},
        verify_steps_(options.verify_steps) {}
  // What was issued reads the memory of the members.
  ~AscendStream() override {
    if (!runtime_.capturing()) {
      static_cast<void>(runtime_.Synchronize());
    }
  }

  void BeginStep(const StepMetadata& step) override {
    CACHALOT_CHECK(!runtime_.capturing(), "a step that begins in a capture");
    step_.Begin(step);
    if (verify_steps_ && step.num_tokens() > 0) {
      if (Status verified = step_.Verify(); !verified) {
        runtime_.Fail(verified.error());
      }
    }
  }

  void Upload(const void* host, Tensor device) override { runtime_.Upload(host, device); }
  void Download(Tensor device, void* host) override { runtime_.Download(device, host); }
  void Copy(Tensor src, Tensor dst) override { runtime_.Copy(src, dst); }
  Status Synchronize() override { return runtime_.Synchronize(); }
  void BeginCapture() override { runtime_.BeginCapture(); }
  std::unique_ptr<Graph> EndCapture() override { return runtime_.EndCapture(); }
  void Replay(const Graph& graph) override { runtime_.Replay(graph); }

#define CACHALOT_OPERATOR(name)                      \
  void name(const name##Params& params) override {   \
    if (RowsOf(params) > 0 && !runtime_.faulted()) { \
      runtime_.BeginOperator();                      \
      Run##name(context_, params);                   \
    }                                                \
  }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

 private:
  RuntimeStream runtime_;
  StepBuffers step_;
  Constants constants_;
  OpContext context_;
  bool verify_steps_;
};

}  // namespace

std::unique_ptr<Stream> NewAscendStream(std::shared_ptr<RuntimeDevice> device,
                                        const AscendStreamOptions& options) {
  return std::make_unique<AscendStream>(std::move(device), options);
}

}  // namespace cachalot::ascend
