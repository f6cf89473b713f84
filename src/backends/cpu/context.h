// What a kernel's driver works with: the threads, the instruction set, and scratch memory that
// outlives the call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/isa.h"
#include "threads/thread_pool.h"

namespace cachalot::cpu {

// Memory that only grows, 64-byte aligned; its content is undefined at each Reserve.
class Scratch {
 public:
  template <typename T>
  T* Reserve(int64_t count) {
    return static_cast<T*>(ReserveBytes(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  struct FreeMemory {
    void operator()(void* data) const;
  };
  void* ReserveBytes(int64_t bytes);

  std::unique_ptr<void, FreeMemory> data_;
  int64_t bytes_ = 0;
};

// One per stream: operators of a stream run one after the other.
class Context {
 public:
  Context(int num_threads, Isa isa)
      : isa_(isa), pool_(num_threads), thread_scratch_(static_cast<size_t>(num_threads)) {}

  Isa isa() const { return isa_; }
  ThreadPool& pool() { return pool_; }
  // For the whole operator; for the packed inputs of its products; for one thread of it. An operator
  // reserves each once.
  Scratch& scratch() { return scratch_; }
  Scratch& packed_inputs() { return packed_inputs_; }
  Scratch& thread_scratch(int thread) { return thread_scratch_[static_cast<size_t>(thread)]; }

 private:
  Isa isa_;
  ThreadPool pool_;
  Scratch scratch_;
  Scratch packed_inputs_;
  std::vector<Scratch> thread_scratch_;
};

}  // namespace cachalot::cpu
