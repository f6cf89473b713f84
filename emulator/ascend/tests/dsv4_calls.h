// Calls of the DeepSeek-V4 operators by symbol name, with operands that the tests hold as doubles, and
// the smallest valid argument list of each: a test changes what it is about.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulator_fixture.h"

namespace ascend_emulator::dsv4 {

using Values = std::vector<double>;
using Shape = std::vector<int64_t>;

inline int64_t Count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

// A tensor in device memory. Rows of the first axis lie `row` elements apart where that is given.
class Device {
 public:
  Device(aclDataType dtype, Shape shape, const Values& values, int64_t row = 0)
      : dtype_(dtype), shape_(std::move(shape)), strides_(shape_.size(), 1) {
    for (size_t axis = shape_.size(); axis-- > 1;) {
      strides_[axis - 1] = strides_[axis] * shape_[axis];
    }
    if (row > 0) {
      strides_[0] = row;
    }
    inner_ = shape_.empty() ? 1 : Count(shape_) / std::max<int64_t>(shape_[0], 1);
    storage_ = shape_.empty() || shape_[0] == 0 ? 0 : strides_[0] * shape_[0];
    if (storage_ > 0) {
      Acl<int>("aclrtMalloc", &memory_, static_cast<size_t>(storage_) * BytesPerElement(dtype_), 0);
    }
    tensor_ = Acl<aclTensor*>("aclCreateTensor", const_cast<const int64_t*>(shape_.data()),
                              static_cast<uint64_t>(shape_.size()), static_cast<int>(dtype_),
                              const_cast<const int64_t*>(strides_.data()), int64_t{0}, 2,
                              const_cast<const int64_t*>(&storage_), uint64_t{1}, memory_);
    if (!values.empty()) {
      Write(values);
    }
  }
  ~Device() {
    Acl<int>("aclDestroyTensor", const_cast<const aclTensor*>(tensor_));
    if (memory_ != nullptr) {
      Acl<int>("aclrtFree", memory_);
    }
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  aclTensor* tensor() const { return tensor_; }
  const Shape& shape() const { return shape_; }
  int64_t stride() const { return strides_[0]; }

  void Write(const Values& values) {
    std::vector<uint8_t> bytes = Fetch();
    for (size_t i = 0; i < values.size(); ++i) {
      Encode(values[i], bytes.data() + Place(i));
    }
    Acl<int>("aclrtMemcpy", memory_, bytes.size(), static_cast<const void*>(bytes.data()),
             bytes.size(), static_cast<int>(ACL_MEMCPY_HOST_TO_DEVICE));
  }

  Values Read() const {
    const std::vector<uint8_t> bytes = Fetch();
    Values values(static_cast<size_t>(Count(shape_)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = Decode(bytes.data() + Place(i));
    }
    return values;
  }

 private:
  size_t Place(size_t index) const {
    const auto i = static_cast<int64_t>(index);
    return static_cast<size_t>(i / inner_ * strides_[0] + i % inner_) * BytesPerElement(dtype_);
  }

  std::vector<uint8_t> Fetch() const {
    std::vector<uint8_t> bytes(static_cast<size_t>(storage_) * BytesPerElement(dtype_));
    if (!bytes.empty()) {
      Acl<int>("aclrtMemcpy", static_cast<void*>(bytes.data()), bytes.size(),
               static_cast<const void*>(memory_), bytes.size(),
               static_cast<int>(ACL_MEMCPY_DEVICE_TO_HOST));
    }
    return bytes;
  }

  template <typename T>
  static void Put(uint8_t* to, T value) {
    std::memcpy(to, &value, sizeof(T));
  }
  template <typename T>
  static T Get(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  void Encode(double value, uint8_t* to) const {
    switch (dtype_) {
      case ACL_BF16:
        Put(to, ToBf16(static_cast<float>(value)));
        break;
      case ACL_FLOAT16:
        Put(to, ToFp16(static_cast<float>(value)));
        break;
      case ACL_FLOAT:
        Put(to, static_cast<float>(value));
        break;
      case ACL_INT8:
        Put(to, static_cast<int8_t>(value));
        break;
      case ACL_INT64:
        Put(to, static_cast<int64_t>(value));
        break;
      default:
        Put(to, static_cast<int32_t>(value));
        break;
    }
  }
  double Decode(const uint8_t* from) const {
    switch (dtype_) {
      case ACL_BF16:
        return FromBf16(Get<uint16_t>(from));
      case ACL_FLOAT16:
        return FromFp16(Get<uint16_t>(from));
      case ACL_FLOAT:
        return Get<float>(from);
      case ACL_INT8:
        return Get<int8_t>(from);
      case ACL_INT64:
        return static_cast<double>(Get<int64_t>(from));
      default:
        return Get<int32_t>(from);
    }
  }

  aclDataType dtype_;
  Shape shape_;
  Shape strides_;
  int64_t inner_ = 1;
  int64_t storage_ = 0;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

// Null stands for an operand that is not given.
using Tensor = std::shared_ptr<Device>;

inline Tensor Make(aclDataType dtype, Shape shape, const Values& values = {}, int64_t row = 0) {
  return std::make_shared<Device>(dtype, std::move(shape), values, row);
}
inline Tensor Ints(const std::vector<int64_t>& values, Shape shape = {}) {
  if (shape.empty()) {
    shape = {static_cast<int64_t>(values.size())};
  }
  return Make(ACL_INT32, std::move(shape), Values(values.begin(), values.end()));
}
inline aclTensor* Raw(const Tensor& tensor) {
  return tensor == nullptr ? nullptr : tensor->tensor();
}

inline Values Random(int64_t count, uint32_t seed, double scale = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> values(-scale, scale);
  Values out(static_cast<size_t>(count));
  for (double& value : out) {
    value = values(generator);
  }
  return out;
}
inline Values RandomIntegers(int64_t count, uint32_t seed, int limit) {
  Values out = Random(count, seed, limit);
  for (double& value : out) {
    value = std::round(value);
  }
  return out;
}

// Limits of model sizes are lifted, and tasks run at once.
class Dsv4Test : public Emulator {
 protected:
  void SetUp() override {
    Emulator::SetUp();
    Configure({{"small_models", "1"}, {"schedule", "eager"}});
  }
  static void Set(const char* name, const char* value) {
    const char* why = ascend_emulator_set(name, value);
    ASSERT_EQ(why, nullptr) << why;
  }
  static void UseFlavour(bool official) { Set("flavour", official ? "official" : "custom"); }
};

// What a call came to: the code of the first of phase 1, phase 2 and the wait that failed.
struct Outcome {
  int code = 0;
  std::string message;
};

template <typename... Args>
Outcome Perform(const std::string& op, aclrtStream stream, Args... args) {
  const auto outcome = [](int code) {
    return Outcome{code, code == 0 ? "" : Acl<const char*>("aclGetRecentErrMsg")};
  };
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  int code = Acl<int>((op + "GetWorkspaceSize").c_str(), args..., &size, &executor);
  if (code != 0) {
    return outcome(code);
  }
  void* workspace = nullptr;
  if (size > 0) {
    Acl<int>("aclrtMalloc", &workspace, static_cast<size_t>(size), 0);
  }
  code = Acl<int>(op.c_str(), workspace, size, executor, stream);
  if (code == 0) {
    code = Acl<int>("aclrtSynchronizeStream", stream);
  }
  const Outcome result = outcome(code);
  if (workspace != nullptr) {
    Acl<int>("aclrtFree", workspace);
  }
  return result;
}

inline char* Text(const std::string& text) { return const_cast<char*>(text.c_str()); }

inline Outcome PerformWithIntegers(const std::string& op, aclrtStream stream,
                                   const std::vector<int64_t>& integers, auto... args) {
  auto* array = Acl<aclIntArray*>("aclCreateIntArray", integers.data(),
                                  static_cast<uint64_t>(integers.size()));
  const Outcome outcome = Perform(op, stream, args..., const_cast<const aclIntArray*>(array));
  Acl<int>("aclDestroyIntArray", const_cast<const aclIntArray*>(array));
  return outcome;
}

inline void ExpectSucceeds(const Outcome& outcome) {
  ASSERT_EQ(outcome.code, 0) << outcome.message;
}

// Within the rounding of a BF16 output.
inline void ExpectNear(const Values& got, const Values& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 0.002 + std::abs(want[i]) / 128) << what << ", element " << i;
  }
}

inline Values Slice(const Values& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

inline const aclTensor* In(const Tensor& tensor) { return Raw(tensor); }

// Attention of a ragged batch, small: 4 heads of 32.
struct AttentionCall {
  std::vector<int64_t> queries = {1, 5, 0, 3};
  std::vector<int64_t> keys = {1, 20, 7, 300};
  int64_t heads = 4;
  int64_t width = 32;
  int64_t block = 16;
  int64_t ratio = 1;  // of the compressed rows; 1: there are none
  int64_t topk = 0;
  int64_t max_queries = 0;  // for BSND
  double scale = 0.2;

  Tensor q, window, entries, selected, window_table, entry_table, starts, lengths, sinks, metadata,
      out, entry_lengths, residuals, ori_indices;
  int64_t window_stride = 0;
  int64_t entry_stride = 0;
  int64_t call_ratio = 1;
  int64_t left = 127;
  int64_t right = 0;
  int64_t ori_mask = 4;
  int64_t cmp_mask = 3;
  std::string layout_q = "TND";
  std::string layout_kv;
  bool lse = false;

  int64_t tokens() const { return std::accumulate(queries.begin(), queries.end(), int64_t{0}); }
  int64_t requests() const { return static_cast<int64_t>(queries.size()); }

  // Fills the operands that are not there yet.
  void Fill(uint32_t seed = 1) {
    int64_t longest = 1;
    for (const int64_t length : keys) {
      longest = std::max(longest, length);
    }
    std::vector<int64_t> sums = {0};
    for (const int64_t count : queries) {
      sums.push_back(sums.back() + count);
    }
    const auto pages = [&](int64_t rows) { return (rows + block - 1) / block; };
    const auto table = [&](int64_t columns, int64_t seed_of) {
      std::vector<int64_t> ids(static_cast<size_t>(requests() * columns));
      std::iota(ids.begin(), ids.end(), 1);
      std::shuffle(ids.begin(), ids.end(), std::mt19937(static_cast<uint32_t>(seed_of)));
      return Ints(ids, {requests(), columns});
    };
    const auto pool = [&](int64_t columns, uint32_t seed_of, int64_t& stride) {
      const int64_t blocks = requests() * columns + 1;
      stride = block * width + 64;
      return Make(ACL_BF16, {blocks, block, 1, width}, Random(blocks * block * width, seed_of),
                  stride);
    };
    q = Make(ACL_BF16, {tokens(), heads, width}, Random(tokens() * heads * width, seed));
    window_table = table(pages(longest), seed);
    window = pool(pages(longest), seed + 1, window_stride);
    starts = Ints(sums);
    lengths = Ints(keys);
    sinks = Make(ACL_FLOAT, {heads}, Random(heads, seed + 2));
    metadata = Make(ACL_INT32, {1024});
    out = Make(ACL_BF16, {tokens(), heads, width});
    call_ratio = ratio;
    if (ratio == 1) {
      return;
    }
    const int64_t columns = std::max<int64_t>(1, pages(longest / ratio));
    entry_table = table(columns, seed + 3);
    entries = pool(columns, seed + 4, entry_stride);
    std::vector<int64_t> complete;
    std::vector<int64_t> rest;
    for (const int64_t length : keys) {
      complete.push_back(length / ratio);
      rest.push_back(length % ratio);
    }
    entry_lengths = Ints(complete);
    residuals = Ints(rest);
    if (topk == 0) {
      return;
    }
    std::vector<int64_t> picked;
    std::mt19937 generator(seed);
    for (size_t request = 0; request < queries.size(); ++request) {
      for (int64_t i = 0; i < queries[request]; ++i) {
        const int64_t limit = (keys[request] - queries[request] + i + 1) / ratio;
        std::vector<int64_t> row(static_cast<size_t>(limit));
        std::iota(row.begin(), row.end(), 0);
        std::shuffle(row.begin(), row.end(), generator);
        row.resize(static_cast<size_t>(topk), -1);
        picked.insert(picked.end(), row.begin(), row.end());
      }
    }
    selected = Ints(picked, {tokens(), 1, topk});
  }

  Outcome Deal(aclrtStream stream, bool official) const {
    const int64_t batch = requests();
    const aclTensor* none = nullptr;
    const bool compressed = ratio != 1;
    const std::string kv = official ? "PA_BBND" : "PA_ND";
    if (official) {
      return Perform("aclnnSparseFlashMlaMetadata", stream, In(starts), none, none, none,
                     In(lengths), In(entry_lengths), In(residuals), none, none, heads, int64_t{1},
                     width, batch, max_queries, int64_t{0}, int64_t{0}, int64_t{0}, topk,
                     compressed ? ratio : 0, int64_t{4}, int64_t{3}, left, right, Text(layout_q),
                     Text(kv), true, compressed, Raw(metadata));
    }
    return Perform("aclnnSparseAttnSharedkvMetadata", stream, In(starts), none, none, none,
                   In(lengths), heads, int64_t{1}, width, batch, max_queries, int64_t{0},
                   int64_t{0}, topk, ratio, int64_t{4}, int64_t{3}, left, right, Text(layout_q),
                   Text(kv), true, compressed, Raw(metadata));
  }

  Outcome Attend(aclrtStream stream, bool official) const {
    const aclTensor* none = nullptr;
    const std::string kv = !layout_kv.empty() ? layout_kv : official ? "PA_BBND" : "PA_ND";
    aclTensor* no_lse = nullptr;
    if (official) {
      return Perform("aclnnSparseFlashMla", stream, In(q), In(window), In(entries), In(ori_indices),
                     In(selected), In(window_table), In(entry_table), In(starts), none, none, none,
                     In(lengths), In(entry_lengths), In(residuals), none, none, In(sinks),
                     In(metadata), scale, call_ratio, ori_mask, cmp_mask, left, right,
                     Text(layout_q), Text(kv), int64_t{1}, lse, Raw(out), no_lse);
    }
    return Perform("aclnnSparseAttnSharedkv", stream, In(q), In(window), In(entries),
                   In(ori_indices), In(selected), In(window_table), In(entry_table), In(starts),
                   none, none, none, In(lengths), In(sinks), In(metadata), scale, call_ratio,
                   ori_mask, cmp_mask, window_stride, entry_stride, left, right, Text(layout_q),
                   Text(kv), lse, Raw(out), no_lse);
  }
};

// The indexer on a ragged batch: 4 heads of 16, 8 of up to 75 entries.
struct IndexerCall {
  std::vector<int64_t> queries = {1, 5, 3};
  std::vector<int64_t> keys = {2, 21, 300};
  int64_t heads = 4;
  int64_t width = 16;
  int64_t block = 16;
  int64_t topk = 8;

  Tensor query, key, weights, query_scale, key_scale, ends, starts, lengths, entry_lengths,
      residuals, table, metadata, indices;
  int64_t key_stride = 0;
  int64_t scale_stride = 0;
  int64_t mask = 3;
  int64_t ratio = 4;
  std::string layout_key = "PA_BSND";

  int64_t tokens() const { return std::accumulate(queries.begin(), queries.end(), int64_t{0}); }
  int64_t requests() const { return static_cast<int64_t>(queries.size()); }

  void Fill(uint32_t seed = 1) {
    const int64_t columns = 5;
    const int64_t blocks = requests() * columns + 1;
    key_stride = block * width + 32;
    scale_stride = block + 16;
    query = Make(ACL_INT8, {tokens(), heads, width},
                 RandomIntegers(tokens() * heads * width, seed, 127));
    key = Make(ACL_INT8, {blocks, block, 1, width},
               RandomIntegers(blocks * block * width, seed + 1, 127), key_stride);
    weights = Make(ACL_FLOAT16, {tokens(), heads}, Random(tokens() * heads, seed + 2));
    Values scales = Random(tokens() * heads, seed + 3, 0.01);
    for (double& scale : scales) {
      scale = std::abs(scale) + 0.001;
    }
    query_scale = Make(ACL_FLOAT16, {tokens(), heads}, scales);
    scales = Random(blocks * block, seed + 4, 0.01);
    for (double& scale : scales) {
      scale = std::abs(scale) + 0.001;
    }
    key_scale = Make(ACL_FLOAT16, {blocks, block, 1}, scales, scale_stride);
    std::vector<int64_t> sums = {0};
    std::vector<int64_t> complete;
    std::vector<int64_t> rest;
    for (size_t request = 0; request < queries.size(); ++request) {
      sums.push_back(sums.back() + queries[request]);
      complete.push_back(keys[request] / 4);
      rest.push_back(keys[request] % 4);
    }
    starts = Ints(sums);
    ends = Ints({sums.begin() + 1, sums.end()});
    lengths = Ints(keys);
    entry_lengths = Ints(complete);
    residuals = Ints(rest);
    std::vector<int64_t> ids(static_cast<size_t>(requests() * columns));
    std::iota(ids.begin(), ids.end(), 1);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    table = Ints(ids, {requests(), columns});
    metadata = Make(ACL_INT32, {1024});
    indices = Make(ACL_INT32, {tokens(), 1, topk});
  }

  Outcome Deal(aclrtStream stream, bool official) const {
    const aclTensor* none = nullptr;
    const std::string layout = "TND";
    const int64_t unbounded = std::numeric_limits<int64_t>::max();
    if (official) {
      return Perform("aclnnQuantLightningIndexerV2Metadata", stream, In(starts), none, none,
                     In(entry_lengths), In(residuals), heads, int64_t{1}, width, topk, int64_t{2},
                     requests(), int64_t{0}, int64_t{0}, Text(layout), Text(layout_key), int64_t{3},
                     int64_t{4}, Raw(metadata));
    }
    return Perform("aclnnVllmQuantLightningIndexerMetadata", stream, In(ends), In(lengths), heads,
                   int64_t{1}, width, int64_t{0}, int64_t{0}, requests(), int64_t{0}, int64_t{0},
                   Text(layout), Text(layout_key), topk, int64_t{3}, unbounded, unbounded,
                   int64_t{4}, Raw(metadata));
  }

  Outcome Pick(aclrtStream stream, bool official) const {
    const aclTensor* none = nullptr;
    aclTensor* no_values = nullptr;
    const std::string layout = "TND";
    const int64_t unbounded = std::numeric_limits<int64_t>::max();
    if (official) {
      return Perform("aclnnQuantLightningIndexerV2", stream, In(query), In(key), In(weights),
                     In(query_scale), In(key_scale), In(starts), none, none, In(entry_lengths),
                     In(residuals), In(table), none, In(metadata), topk, int64_t{2}, int64_t{-1},
                     Text(layout), Text(layout_key), mask, ratio, int64_t{0}, Raw(indices),
                     no_values);
    }
    return Perform("aclnnVllmQuantLightningIndexer", stream, In(query), In(key), In(weights),
                   In(query_scale), In(key_scale), In(ends), In(lengths), In(table), In(metadata),
                   int64_t{0}, int64_t{0}, Text(layout), Text(layout_key), topk, mask, unbounded,
                   unbounded, ratio, false, key_stride, scale_stride, Raw(indices), no_values);
  }
};

// One step of the compressor: new tokens of each request from a position on.
struct CompressorCall {
  int64_t ratio = 4;
  int64_t overlap = 2;
  int64_t hidden = 48;
  int64_t width = 32;
  int64_t rope = 16;
  int64_t mode = 1;
  int64_t rotary = 2;
  double eps = 1e-6;
  Tensor x, wkv, wgate, state, ape, norm, sin, cos, table, starts, used, start_pos, out;
  int64_t state_stride = 0;

  // `official`: norm and rope are not among the arguments.
  Outcome Compress(aclrtStream stream, bool official) const {
    aclTensor* none = nullptr;
    if (official) {
      return Perform("aclnnCompressor", stream, In(x), In(wkv), In(wgate), Raw(state), In(ape),
                     In(table), In(starts), In(used), In(start_pos), ratio, overlap, mode,
                     state_stride, false, Raw(out), none, none);
    }
    return Perform("aclnnCompressor", stream, In(x), In(wkv), In(wgate), Raw(state), In(ape),
                   In(norm), In(sin), In(cos), In(table), In(starts), In(used), In(start_pos), rope,
                   ratio, overlap, eps, rotary, mode, state_stride, Raw(out));
  }
};

}  // namespace ascend_emulator::dsv4
