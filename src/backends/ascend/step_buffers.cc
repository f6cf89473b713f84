#include "backends/ascend/step_buffers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backends/ascend/op_call.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kBand = 4;       // mask of the window
constexpr int64_t kCausal = 3;     // mask of compressed entries
constexpr int64_t kInt8Heads = 2;  // quant mode: int8 with a scale for each token and head
constexpr int64_t kSmallestBlock = 1 << 16;

StepImageOptions ImageOptions(StepImageOptions options, Flavour flavour) {
  options.host_schedules = options.host_schedules && flavour == Flavour::kCustom;
  return options;
}

}  // namespace

StepBuffers::StepBuffers(std::shared_ptr<RuntimeDevice> device, RuntimeStream& stream,
                         const StepImageOptions& options)
    : device_(std::move(device)),
      stream_(stream),
      host_schedules_(ImageOptions(options, stream.flavour()).host_schedules),
      image_(ImageOptions(options, stream.flavour())) {}

Tensor StepBuffers::At(const StepField& field, DType dtype) const {
  CACHALOT_CHECK(begun(), "an operator before the step's metadata");
  return {data_ + field.offset, dtype, field.shape};
}

const RotaryFields* StepBuffers::RotaryOf(const RopeTable& table) const {
  for (const RotaryFields& fields : image_.fields().rotary) {
    if (fields.frequencies == table.frequencies.data()) {
      return &fields;
    }
  }
  return nullptr;
}

std::byte* StepBuffers::MemoryFor(int64_t bytes) {
  const auto size =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kSmallestBlock))));
  std::shared_ptr<DeviceBlock>& block = blocks_[size];
  if (block == nullptr) {
    Result<std::shared_ptr<DeviceBlock>> made = DeviceBlock::New(device_, size);
    if (!made) {
      stream_.Fail(made.error());
      return nullptr;
    }
    block = std::move(*made);
  }
  return block->data();
}

void StepBuffers::Begin(const StepMetadata& step) {
  if (step.num_tokens() == 0) {
    return;
  }
  image_.Build(step);
  const auto bytes = static_cast<int64_t>(image_.bytes().size());
  data_ = MemoryFor(bytes);
  if (data_ == nullptr) {
    return;
  }
  stream_.Upload(image_.bytes().data(), {data_, DType::kU8, {bytes}});
  if (!host_schedules_) {
    MakeSchedules();
  }
}

void StepBuffers::MakeSchedules() {
  if (stream_.flavour() == Flavour::kCustom) {
    MakeCustomSchedules();
  } else {
    MakeOfficialSchedules();
  }
}

void StepBuffers::MakeCustomSchedules() {
  const StepFields& f = fields();
  const StepShape& shape = f.shape;
  const SymbolTable& symbols = stream_.symbols();
  const View none = View::Empty(ACL_INT32);
  const auto attention = [&](const StepField& out, int64_t ratio, int64_t top_k) {
    Call(stream_, symbols.SparseAttnSharedkvMetadata, Ints(f.query_starts), none, none, none,
         Ints(f.kv_lengths), shape.heads, 1, shape.head_dim, f.requests, f.most_tokens, f.longest,
         0, top_k, std::max<int64_t>(ratio, 1), kBand, kCausal, f.window_left, 0, "TND", "PA_ND",
         true, ratio > 0, Ints(out));
  };
  attention(f.window_schedule, 0, 0);
  if (shape.has_c128) {
    attention(f.c128_schedule, 128, 0);
  }
  if (shape.has_c4) {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    attention(f.c4_schedule, 4, shape.top_k);
    Call(stream_, symbols.QuantLightningIndexerMetadata, Ints(f.query_ends), Ints(f.kv_lengths),
         shape.index_heads, 1, shape.index_head_dim, 0, 0, f.requests, f.most_tokens, f.longest,
         "TND", "PA_BSND", shape.top_k, kCausal, kAll, kAll, 4, Ints(f.index_schedule));
  }
}

void StepBuffers::MakeOfficialSchedules() {
  const StepFields& f = fields();
  const StepShape& shape = f.shape;
  const SymbolTable& symbols = stream_.symbols();
  const auto attention = [&](const StepField& out, const CompressionFields& c, int64_t top_k) {
    const bool compressed = c.ratio > 0;
    Call(stream_, symbols.SparseFlashMlaMetadata, Ints(f.query_starts), nullptr, nullptr, nullptr,
         Ints(f.kv_lengths), compressed ? Ints(c.lengths) : Tensor(),
         compressed ? Ints(c.residual) : Tensor(), nullptr, nullptr, shape.heads, 1, shape.head_dim,
         f.requests, f.most_tokens, f.longest, compressed ? f.longest / c.ratio : 0, 0, top_k,
         std::max<int64_t>(c.ratio, 1), kBand, kCausal, f.window_left, 0, "TND", "PA_BBND", true,
         compressed, Ints(out));
  };
  attention(f.window_schedule, {}, 0);
  if (shape.has_c128) {
    attention(f.c128_schedule, f.c128, 0);
  }
  if (shape.has_c4) {
    attention(f.c4_schedule, f.c4, shape.top_k);
    Call(stream_, symbols.QuantLightningIndexerV2Metadata, Ints(f.query_starts), nullptr, nullptr,
         Ints(f.c4.lengths), Ints(f.c4.residual), shape.index_heads, 1, shape.index_head_dim,
         shape.top_k, kInt8Heads, f.requests, f.most_tokens, f.longest / 4, "TND", "PA_BSND",
         kCausal, 4, Ints(f.index_schedule));
  }
}

Status StepBuffers::Verify() {
  const std::span<const std::byte> made = image_.bytes();
  std::vector<std::byte> there(made.size());
  stream_.Download({data_, DType::kU8, {static_cast<int64_t>(made.size())}}, there.data());
  CACHALOT_RETURN_IF_ERROR(stream_.Synchronize());
  if (!host_schedules_) {
    // The device's own: the four stand together.
    const auto begin = static_cast<size_t>(fields().window_schedule.offset);
    const auto end = static_cast<size_t>(fields().index_schedule.offset) + 4 * kScheduleWords;
    std::copy(made.begin() + static_cast<std::ptrdiff_t>(begin),
              made.begin() + static_cast<std::ptrdiff_t>(end),
              there.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  if (std::memcmp(there.data(), made.data(), made.size()) != 0) {
    return MakeError(StatusCode::kDeviceFault,
                     "ascend: a step's metadata is another on the device");
  }
  return {};
}

}  // namespace cachalot::ascend
