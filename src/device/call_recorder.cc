#include "device/call_recorder.h"

#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

struct CallGraph final : Graph {
  explicit CallGraph(std::vector<StreamCall> recorded) : calls(std::move(recorded)) {}

  const std::vector<StreamCall> calls;
};

}  // namespace

void CallRecorder::Begin() {
  CACHALOT_CHECK(!recording_, "a capture in a capture");
  recording_ = true;
}

std::unique_ptr<Graph> CallRecorder::End() {
  CACHALOT_CHECK(recording_, "the end of a capture that did not begin");
  recording_ = false;
  return std::make_unique<CallGraph>(std::exchange(calls_, {}));
}

void ReplayCalls(const Graph& graph, Stream& stream) {
  const auto* calls = dynamic_cast<const CallGraph*>(&graph);
  CACHALOT_CHECK(calls != nullptr, "a graph of another kind of device");
  for (const StreamCall& call : calls->calls) {
    call(stream);
  }
}

}  // namespace cachalot
