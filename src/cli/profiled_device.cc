#include "cli/profiled_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "device/call_recorder.h"
#include "device/forwarding_device.h"

namespace cachalot {
namespace {

template <typename Params>
std::string DetailOf(const Params&) {
  return {};
}

std::string DetailOf(const LinearParams& params) {
  return fmt::format("{} [{}, {}]", NameOf(params.w.format), params.w.rows, params.w.cols);
}

std::string DetailOf(const AttentionParams& params) {
  return params.ratio == 0 ? "window" : fmt::format("window, 1 entry for {}", params.ratio);
}

std::string DetailOf(const CompressorParams& params) {
  return fmt::format("1 for {}, width {}", params.ratio, params.pool.layout.width);
}

class ProfiledStream final : public ForwardingStream {
 public:
  ProfiledStream(std::unique_ptr<Stream> inner, OperatorProfile* profile)
      : ForwardingStream(std::move(inner)), profile_(profile) {}

#define CACHALOT_OPERATOR(name)                                                            \
  void name(const name##Params& params) override {                                         \
    if (recorder_.recording()) {                                                           \
      recorder_.Add([params](Stream& stream) { stream.name(params); });                    \
      return;                                                                              \
    }                                                                                      \
    const auto begin = std::chrono::steady_clock::now();                                   \
    inner().name(params);                                                                  \
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin; \
    profile_->Add(#name, DetailOf(params), passed.count(), CostOf(params));                \
  }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void Copy(Tensor src, Tensor dst) override {
    if (recorder_.recording()) {
      recorder_.Add([=](Stream& stream) { stream.Copy(src, dst); });
      return;
    }
    inner().Copy(src, dst);
  }
  // Replayed operator by operator, so that each is timed as ever.
  void BeginCapture() override { recorder_.Begin(); }
  std::unique_ptr<Graph> EndCapture() override { return recorder_.End(); }
  void Replay(const Graph& graph) override { ReplayCalls(graph, *this); }

 private:
  OperatorProfile* profile_;
  CallRecorder recorder_;
};

class ProfilingDevice final : public ForwardingDevice {
 public:
  ProfilingDevice(std::unique_ptr<Device> inner, OperatorProfile* profile)
      : ForwardingDevice(std::move(inner)), profile_(profile) {}

  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<ProfiledStream>(ForwardingDevice::NewStream(), profile_);
  }

 private:
  OperatorProfile* profile_;
};

}  // namespace

void OperatorProfile::Add(const char* op, std::string detail, double seconds,
                          const OperatorCost& cost) {
  OperatorTime& time = times_[{op, detail}];
  time.op = op;
  time.detail = std::move(detail);
  ++time.calls;
  time.seconds += seconds;
  time.cost += cost;
}

std::vector<OperatorTime> OperatorProfile::times() const {
  std::vector<OperatorTime> times;
  for (const auto& [key, time] : times_) {
    times.push_back(time);
  }
  std::stable_sort(times.begin(), times.end(), [](const OperatorTime& a, const OperatorTime& b) {
    return a.seconds > b.seconds;
  });
  return times;
}

std::unique_ptr<Device> ProfiledDevice(std::unique_ptr<Device> inner, OperatorProfile* profile) {
  return std::make_unique<ProfilingDevice>(std::move(inner), profile);
}

}  // namespace cachalot
