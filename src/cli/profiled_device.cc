#include "cli/profiled_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "device/call_recorder.h"

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

class ProfiledStream final : public Stream {
 public:
  ProfiledStream(std::unique_ptr<Stream> inner, OperatorProfile* profile)
      : inner_(std::move(inner)), profile_(profile) {}

#define CACHALOT_OPERATOR(name)                                                            \
  void name(const name##Params& params) override {                                         \
    if (recorder_.recording()) {                                                           \
      recorder_.Add([params](Stream& stream) { stream.name(params); });                    \
      return;                                                                              \
    }                                                                                      \
    const auto begin = std::chrono::steady_clock::now();                                   \
    inner_->name(params);                                                                  \
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin; \
    profile_->Add(#name, DetailOf(params), passed.count(), CostOf(params));                \
  }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void Upload(const void* host, Tensor device) override { inner_->Upload(host, device); }
  void Download(Tensor device, void* host) override { inner_->Download(device, host); }
  void Copy(Tensor src, Tensor dst) override {
    if (recorder_.recording()) {
      recorder_.Add([=](Stream& stream) { stream.Copy(src, dst); });
      return;
    }
    inner_->Copy(src, dst);
  }
  Status Synchronize() override { return inner_->Synchronize(); }
  // Replayed operator by operator, so that each is timed as ever.
  void BeginCapture() override { recorder_.Begin(); }
  std::unique_ptr<Graph> EndCapture() override { return recorder_.End(); }
  void Replay(const Graph& graph) override { ReplayCalls(graph, *this); }
  void ShareRows(int64_t rows, const std::function<void(int64_t, int64_t)>& visit) override {
    inner_->ShareRows(rows, visit);
  }

 private:
  std::unique_ptr<Stream> inner_;
  OperatorProfile* profile_;
  CallRecorder recorder_;
};

class ProfilingDevice final : public Device {
 public:
  ProfilingDevice(std::unique_ptr<Device> inner, OperatorProfile* profile)
      : inner_(std::move(inner)), profile_(profile) {}

  const char* name() const override { return inner_->name(); }
  Result<Buffer> Allocate(int64_t bytes) override { return inner_->Allocate(bytes); }
  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<ProfiledStream>(inner_->NewStream(), profile_);
  }
  DType activation_dtype() const override { return inner_->activation_dtype(); }
  RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const override {
    return inner_->KvRows(width, rope_dim, rounding);
  }
  RowLayout IndexRows(int64_t width, RowRounding rounding) const override {
    return inner_->IndexRows(width, rounding);
  }

 private:
  void Free(void*, int64_t) override {}  // buffers belong to the inner device

  std::unique_ptr<Device> inner_;
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
