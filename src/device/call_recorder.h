// Graphs for streams that run operators as they are issued: a graph is the list of calls, and a
// replay makes them again.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"

namespace cachalot {

using StreamCall = std::function<void(Stream&)>;

class CallRecorder {
 public:
  bool recording() const { return recording_; }
  void Begin();
  void Add(StreamCall call) { calls_.push_back(std::move(call)); }
  std::unique_ptr<Graph> End();

 private:
  bool recording_ = false;
  std::vector<StreamCall> calls_;
};

// `graph` is a CallRecorder's.
void ReplayCalls(const Graph& graph, Stream& stream);

}  // namespace cachalot
