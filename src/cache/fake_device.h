// A device of plain memory for this room's tests: it runs no operator, counts what it gives, and
// fails when told to.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "device/device.h"

namespace cachalot {

class FakeStream final : public Stream {
 public:
#define CACHALOT_FAKE_OPERATOR(name) \
  void name(const name##Params&) override { CACHALOT_CHECK(false, "the cache runs no operator"); }
  CACHALOT_FAKE_OPERATOR(Embedding)
  CACHALOT_FAKE_OPERATOR(BroadcastStreams)
  CACHALOT_FAKE_OPERATOR(StreamMean)
  CACHALOT_FAKE_OPERATOR(CopyColumns)
  CACHALOT_FAKE_OPERATOR(GatherRows)
  CACHALOT_FAKE_OPERATOR(RmsNorm)
  CACHALOT_FAKE_OPERATOR(Rope)
  CACHALOT_FAKE_OPERATOR(Linear)
  CACHALOT_FAKE_OPERATOR(HcPre)
  CACHALOT_FAKE_OPERATOR(HcPost)
  CACHALOT_FAKE_OPERATOR(HcHead)
  CACHALOT_FAKE_OPERATOR(StoreRows)
  CACHALOT_FAKE_OPERATOR(Compressor)
  CACHALOT_FAKE_OPERATOR(Indexer)
  CACHALOT_FAKE_OPERATOR(Attention)
  CACHALOT_FAKE_OPERATOR(MoeGate)
  CACHALOT_FAKE_OPERATOR(Experts)
#undef CACHALOT_FAKE_OPERATOR

  void Upload(const void* host, Tensor device) override {
    std::memcpy(device.data, host, static_cast<size_t>(device.bytes()));
  }
  void Download(Tensor device, void* host) override {
    std::memcpy(host, device.data, static_cast<size_t>(device.bytes()));
  }
  void Copy(Tensor src, Tensor dst) override {
    CACHALOT_CHECK_EQ(src.bytes(), dst.bytes());
    std::memcpy(dst.data, src.data, static_cast<size_t>(src.bytes()));
  }
  Status Synchronize() override { return {}; }
  void BeginCapture() override { CACHALOT_CHECK(false, "the cache captures nothing"); }
  std::unique_ptr<Graph> EndCapture() override { return nullptr; }
  void Replay(const Graph&) override { CACHALOT_CHECK(false, "the cache replays nothing"); }
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(RowFormat kv_format) : kv_format_(kv_format) {}

  const char* name() const override { return "fake"; }
  Result<Buffer> Allocate(int64_t bytes) override {
    if (allocations_++ == fail_at) {
      return MakeError(StatusCode::kResourceExhausted, "fake: no memory");
    }
    bytes_held += bytes;
    return Buffer(this, std::calloc(static_cast<size_t>(bytes), 1), bytes);
  }
  std::unique_ptr<Stream> NewStream() override { return std::make_unique<FakeStream>(); }
  DType activation_dtype() const override { return DType::kF32; }
  RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const override {
    return {kv_format_, rounding, width, rope_dim};
  }
  RowLayout IndexRows(int64_t width, RowRounding rounding) const override {
    const RowFormat format = rounding == RowRounding::kFp4 ? RowFormat::kFp4 : RowFormat::kInt8;
    return {format, rounding, width, 0, planar_index};
  }

  bool planar_index = false;  // int8 keys in planes
  int64_t bytes_held = 0;
  int64_t fail_at = -1;  // number of the allocation that fails

 private:
  void Free(void* data, int64_t bytes) override {
    bytes_held -= bytes;
    std::free(data);
  }

  const RowFormat kv_format_;
  int64_t allocations_ = 0;
};

}  // namespace cachalot
