// Handles. The program's pointers to tensors, streams and so on are no pointers but numbers with the
// kind of the thing in them, never given twice: what was destroyed, or is of another kind, is known for
// what it is, and whoever looks inside one is stopped by the processor.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report.h"

namespace ascend_emulator {

enum class Kind : uint8_t {
  kNone = 0,
  kTensor,
  kTensorList,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kExecutor,
  kStream,
  kEvent,
  kGraph,
  kContext,
};

const char* NameOf(Kind kind);  // as the vendor's headers name it
Kind KindOf(const void* handle);
void* MakeHandle(Kind kind, uint64_t id);
uint64_t IdOf(const void* handle);

template <typename T>
class Registry {
 public:
  explicit Registry(Kind kind) : kind_(kind) {}

  void* Add(std::shared_ptr<T> thing) {
    const uint64_t id = next_++;
    live_[id] = std::move(thing);
    return MakeHandle(kind_, id);
  }

  std::shared_ptr<T> Find(const void* handle) const {
    if (KindOf(handle) != kind_) return nullptr;
    const auto at = live_.find(IdOf(handle));
    return at == live_.end() ? nullptr : at->second;
  }

  void Remove(const void* handle, const Site& site) {
    live_.erase(IdOf(handle));
    removed_[IdOf(handle)] = site;
    if (removed_.size() > kRemembered) removed_.erase(removed_.begin());
  }

  // Why Find has nothing: "is null", "was destroyed by aclDestroyTensor(), call 9, ...".
  std::string Explain(const void* handle) const {
    if (handle == nullptr) return "is null";
    const Kind kind = KindOf(handle);
    if (kind == kind_) {
      const auto at = removed_.find(IdOf(handle));
      if (at != removed_.end()) return "is gone already: " + Describe(at->second);
    }
    if (kind == Kind::kNone || kind == kind_)
      return fmt::format("({}) is no {}", handle, NameOf(kind_));
    return fmt::format("is no {} but an {}", NameOf(kind_), NameOf(kind));
  }

  const std::map<uint64_t, std::shared_ptr<T>>& live() const { return live_; }
  void* Handle(uint64_t id) const { return MakeHandle(kind_, id); }
  void Clear() {
    live_.clear();
    removed_.clear();
  }

 private:
  static constexpr size_t kRemembered = 1 << 16;

  Kind kind_;
  uint64_t next_ = 1;
  std::map<uint64_t, std::shared_ptr<T>> live_;
  std::map<uint64_t, Site> removed_;
};

}  // namespace ascend_emulator
