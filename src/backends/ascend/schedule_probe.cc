#include "backends/ascend/schedule_probe.h"

#include <algorithm>

#include "backends/ascend/op_call.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kHeadDim = 512;
constexpr int64_t kBand = 4;
constexpr int64_t kCausal = 3;
constexpr int64_t kUsedWords = 864;

// I32, in the stream's scratch.
Tensor OnDevice(RuntimeStream& stream, std::span<const int32_t> values) {
  const Tensor tensor = stream.Scratch(DType::kI32, {static_cast<int64_t>(values.size())});
  if (!stream.faulted()) {
    stream.Upload(values.data(), tensor);
  }
  return tensor;
}

}  // namespace

Result<Schedule> ScheduleOfDevice(RuntimeStream& stream, const ScheduleProblem& problem,
                                  std::span<const int32_t> query_starts,
                                  std::span<const int32_t> kv_lengths) {
  const auto requests = static_cast<int64_t>(kv_lengths.size());
  int64_t most_tokens = 0;
  for (int64_t b = 0; b < requests; ++b) {
    const auto i = static_cast<size_t>(b);
    most_tokens = std::max<int64_t>(most_tokens, query_starts[i + 1] - query_starts[i]);
  }
  const View none = View::Empty(ACL_INT32);
  Schedule schedule;
  stream.BeginOperator();
  const Tensor starts = OnDevice(stream, query_starts);
  const Tensor lengths = OnDevice(stream, kv_lengths);
  const Tensor table = stream.Scratch(DType::kI32, {kScheduleWords});
  if (!stream.faulted()) {
    Call(stream, stream.symbols().SparseAttnSharedkvMetadata, starts, none, none, none, lengths,
         problem.heads, 1, kHeadDim, requests, most_tokens, *std::ranges::max_element(kv_lengths),
         0, problem.top_k, std::max<int64_t>(problem.ratio, 1), kBand, kCausal, problem.window_left,
         problem.window_right, "TND", "PA_ND", problem.has_window, problem.ratio > 0, table);
    stream.Download(table, schedule.data());
  }
  CACHALOT_RETURN_IF_ERROR(stream.Synchronize());
  return schedule;
}

Status CompareSchedules(const Schedule& of_device, const Schedule& of_host) {
  const auto [device, host] =
      std::mismatch(of_device.begin(), of_device.begin() + kUsedWords, of_host.begin());
  if (device == of_device.begin() + kUsedWords) {
    return {};
  }
  return MakeError(
      StatusCode::kUnsupported,
      "ascend: the installed attention shares work out by another table (word {} is {}, "
      "expected {}): let the device make it (--npu-schedules device)",
      device - of_device.begin(), *device, *host);
}

Status CheckSchedules(RuntimeStream& stream) {
  // Drafts of three requests, over compressed entries too: cores end amid a request.
  constexpr int32_t kStarts[] = {0, 6, 12, 18};
  constexpr int32_t kLengths[] = {30, 500, 2000};
  const ScheduleProblem problem = {
      .heads = 64, .tile_rows = 64, .cores = stream.device().facts().cube_cores, .ratio = 128};
  CACHALOT_ASSIGN_OR_RETURN(const Schedule of_device,
                            ScheduleOfDevice(stream, problem, kStarts, kLengths));
  return CompareSchedules(of_device, BuildSchedule(problem, kStarts, kLengths));
}

}  // namespace cachalot::ascend
