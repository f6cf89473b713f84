#include "engine/teacher_forcing.h"

#include <algorithm>

namespace cachalot {
namespace {

// Rows handed to the sink at once: a long step times a wide vocabulary would dwarf the model.
constexpr int64_t kSinkRows = 32;

template <typename GetRows>
Status SinkRows(int64_t rows, const GetRows& get, const LogitsSink& sink) {
  std::vector<float> logits;
  for (int64_t begin = 0; begin < rows; begin += kSinkRows) {
    CACHALOT_RETURN_IF_ERROR(get(begin, std::min(begin + kSinkRows, rows), &logits));
    CACHALOT_RETURN_IF_ERROR(sink(logits));
  }
  return {};
}

Status RunStep(ModelRunner& runner, RequestSlot slot, std::span<const int32_t> ids,
               std::span<const int32_t> next_ids, LogitsHead head, const LogitsSink& sink) {
  const RequestTokens step = {slot, ids};
  CACHALOT_RETURN_IF_ERROR(runner.Forward({&step, 1}));
  if (head == LogitsHead::kMain) {
    return SinkRows(
        static_cast<int64_t>(ids.size()),
        [&](int64_t begin, int64_t end, std::vector<float>* logits) {
          return runner.Logits(begin, end, logits);
        },
        sink);
  }
  if (next_ids.empty()) {
    return {};
  }
  CACHALOT_RETURN_IF_ERROR(runner.ForwardMtp(slot, next_ids));
  return SinkRows(
      static_cast<int64_t>(next_ids.size()),
      [&](int64_t begin, int64_t end, std::vector<float>* logits) {
        return runner.MtpLogits(begin, end, logits);
      },
      sink);
}

}  // namespace

Status ForceTokens(ModelRunner& runner, std::span<const int32_t> ids,
                   const TeacherForcingOptions& options, const LogitsSink& sink) {
  CACHALOT_ASSIGN_OR_RETURN(const RequestSlot slot, runner.Open());
  const auto total = static_cast<int64_t>(ids.size());
  int64_t count = 0;
  Status status;
  for (int64_t begin = 0; begin < total && status; begin += count) {
    count = begin < options.prefill ? std::min(options.chunk, options.prefill - begin) : 1;
    const auto next = std::min(count, total - begin - 1);
    status = RunStep(
        runner, slot, ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
        ids.subspan(static_cast<size_t>(begin + 1), static_cast<size_t>(next)), options.head, sink);
  }
  runner.Close(slot);
  return status;
}

}  // namespace cachalot
