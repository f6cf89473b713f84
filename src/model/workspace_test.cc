#include "model/workspace.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cachalot {
namespace {

class HostMemory final : public Device {
 public:
  const char* name() const override { return "host"; }
  Result<Buffer> Allocate(int64_t bytes) override {
    return Buffer(this, std::malloc(static_cast<size_t>(bytes)), bytes);
  }
  std::unique_ptr<Stream> NewStream() override { return nullptr; }
  DType activation_dtype() const override { return DType::kF32; }
  RowLayout KvRows(int64_t, int64_t, RowRounding) const override { return {}; }
  RowLayout IndexRows(int64_t, RowRounding) const override { return {}; }

 private:
  void Free(void* data, int64_t) override { std::free(data); }
};

TEST(Workspace, GivesBackWhatAScopeTook) {
  HostMemory device;
  Workspace workspace = *Workspace::New(device, 4096);
  const Tensor outer = workspace.Take(DType::kF32, {8});
  void* first = nullptr;
  {
    const Workspace::Scope scope(workspace);
    first = workspace.Take(DType::kF32, {100}).data;
    EXPECT_NE(first, outer.data);
    EXPECT_NE(workspace.Take(DType::kI32, {1}).data, first);
  }
  EXPECT_EQ(workspace.Take(DType::kBf16, {3}).data, first);
}

TEST(Workspace, RefusesMoreThanItHas) {
  HostMemory device;
  Workspace workspace = *Workspace::New(device, 1024);
  workspace.Take(DType::kF32, {128});
  EXPECT_DEATH(workspace.Take(DType::kF32, {256}), "workspace of 1024 bytes: 512 used, 1024 more");
}

}  // namespace
}  // namespace cachalot
