// Calls of the DeepSeek-V4 operators by symbol name, with operands that the tests hold as doubles, and
// the smallest valid argument list of each: a test changes what it is about.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "acl.h"
#include "ascend_emulator.h"
#include "half.h"

namespace ascend_emulator::dsv4 {

using Values = std::vector<double>;
using Shape = std::vector<int64_t>;

template <typename Result, typename... Args>
Result Api(const std::string& name, Args... args) {
  void* symbol = dlsym(RTLD_DEFAULT, name.c_str());
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s is not there\n", name.c_str());
    std::abort();
  }
  return reinterpret_cast<Result (*)(Args...)>(symbol)(args...);
}

inline int64_t Count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

inline size_t Bytes(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_BOOL:
      return 1;
    case ACL_BF16:
    case ACL_FLOAT16:
      return 2;
    case ACL_INT64:
      return 8;
    default:
      return 4;
  }
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
      Api<int>("aclrtMalloc", &memory_, static_cast<size_t>(storage_) * Bytes(dtype_), 0);
    }
    tensor_ = Api<aclTensor*>("aclCreateTensor", const_cast<const int64_t*>(shape_.data()),
                              static_cast<uint64_t>(shape_.size()), static_cast<int>(dtype_),
                              const_cast<const int64_t*>(strides_.data()), int64_t{0}, 2,
                              const_cast<const int64_t*>(&storage_), uint64_t{1}, memory_);
    if (!values.empty()) {
      Write(values);
    }
  }
  ~Device() {
    Api<int>("aclDestroyTensor", const_cast<const aclTensor*>(tensor_));
    if (memory_ != nullptr) {
      Api<int>("aclrtFree", memory_);
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
    Api<int>("aclrtMemcpy", memory_, bytes.size(), static_cast<const void*>(bytes.data()),
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
    return static_cast<size_t>(i / inner_ * strides_[0] + i % inner_) * Bytes(dtype_);
  }

  std::vector<uint8_t> Fetch() const {
    std::vector<uint8_t> bytes(static_cast<size_t>(storage_) * Bytes(dtype_));
    if (!bytes.empty()) {
      Api<int>("aclrtMemcpy", static_cast<void*>(bytes.data()), bytes.size(),
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

// Small models, one device, one stream; nothing may be left to report.
class Dsv4Test : public ::testing::Test {
 protected:
  void SetUp() override {
    ascend_emulator_set_defaults();
    Set("small_models", "1");
    Set("schedule", "eager");
    ascend_emulator_reset();
    ASSERT_EQ(Api<int>("aclInit", static_cast<const char*>(nullptr)), 0);
    ASSERT_EQ(Api<int>("aclrtSetDevice", 0), 0);
    ASSERT_EQ(Api<int>("aclrtCreateStreamWithConfig", &stream_, uint32_t{0}, uint32_t{0}), 0);
  }
  void TearDown() override {
    Api<int>("aclrtDestroyStream", stream_);
    for (size_t i = 0; i < ascend_emulator_report_count(); ++i) {
      ADD_FAILURE() << ascend_emulator_report(i);
    }
    ascend_emulator_reset();
    ascend_emulator_set_defaults();
  }
  static void Set(const char* name, const char* value) {
    const char* why = ascend_emulator_set(name, value);
    ASSERT_EQ(why, nullptr) << why;
  }
  static void UseFlavour(bool official) { Set("flavour", official ? "official" : "custom"); }

  aclrtStream stream_ = nullptr;
};

// What a call came to: the code of the first of phase 1, phase 2 and the wait that failed.
struct Outcome {
  int code = 0;
  std::string message;
};

template <typename... Args>
Outcome Launch(const std::string& op, aclrtStream stream, Args... args) {
  const auto outcome = [](int code) {
    return Outcome{code, code == 0 ? "" : Api<const char*>("aclGetRecentErrMsg")};
  };
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  int code = Api<int>(op + "GetWorkspaceSize", args..., &size, &executor);
  if (code != 0) {
    return outcome(code);
  }
  void* workspace = nullptr;
  if (size > 0) {
    Api<int>("aclrtMalloc", &workspace, static_cast<size_t>(size), 0);
  }
  code = Api<int>(op, workspace, size, executor, stream);
  if (code == 0) {
    code = Api<int>("aclrtSynchronizeStream", stream);
  }
  const Outcome result = outcome(code);
  if (workspace != nullptr) {
    Api<int>("aclrtFree", workspace);
  }
  return result;
}

inline char* Text(const std::string& text) { return const_cast<char*>(text.c_str()); }

inline Outcome LaunchWithIntegers(const std::string& op, aclrtStream stream,
                                  const std::vector<int64_t>& integers, auto... args) {
  auto* array = Api<aclIntArray*>("aclCreateIntArray", integers.data(),
                                  static_cast<uint64_t>(integers.size()));
  const Outcome outcome = Launch(op, stream, args..., const_cast<const aclIntArray*>(array));
  Api<int>("aclDestroyIntArray", const_cast<const aclIntArray*>(array));
  return outcome;
}

// Attention of a ragged batch, small: 4 heads of 32.
struct AttentionCall {
  std::vector<int64_t> queries = {1, 5, 0, 3};
  std::vector<int64_t> keys = {1, 20, 7, 300};
  int64_t heads = 4;
  int64_t width = 32;
  int64_t block = 16;
  int64_t ratio = 1;  // of the compressed rows; 1: there are none
  int64_t topk = 0;
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
    const auto in = [](const Tensor& tensor) -> const aclTensor* { return Raw(tensor); };
    if (official) {
      return Launch("aclnnSparseFlashMlaMetadata", stream, in(starts), none, none, none,
                    in(lengths), in(entry_lengths), in(residuals), none, none, heads, int64_t{1},
                    width, batch, int64_t{0}, int64_t{0}, int64_t{0}, int64_t{0}, topk,
                    compressed ? ratio : 0, int64_t{4}, int64_t{3}, left, right, Text(layout_q),
                    Text(kv), true, compressed, Raw(metadata));
    }
    return Launch("aclnnSparseAttnSharedkvMetadata", stream, in(starts), none, none, none,
                  in(lengths), heads, int64_t{1}, width, batch, int64_t{0}, int64_t{0}, int64_t{0},
                  topk, ratio, int64_t{4}, int64_t{3}, left, right, Text(layout_q), Text(kv), true,
                  compressed, Raw(metadata));
  }

  Outcome Attend(aclrtStream stream, bool official) const {
    const aclTensor* none = nullptr;
    const std::string kv = !layout_kv.empty() ? layout_kv : official ? "PA_BBND" : "PA_ND";
    const auto in = [](const Tensor& tensor) -> const aclTensor* { return Raw(tensor); };
    aclTensor* no_lse = nullptr;
    if (official) {
      return Launch("aclnnSparseFlashMla", stream, in(q), in(window), in(entries), in(ori_indices),
                    in(selected), in(window_table), in(entry_table), in(starts), none, none, none,
                    in(lengths), in(entry_lengths), in(residuals), none, none, in(sinks),
                    in(metadata), scale, call_ratio, ori_mask, cmp_mask, left, right,
                    Text(layout_q), Text(kv), int64_t{1}, lse, Raw(out), no_lse);
    }
    return Launch("aclnnSparseAttnSharedkv", stream, in(q), in(window), in(entries),
                  in(ori_indices), in(selected), in(window_table), in(entry_table), in(starts),
                  none, none, none, in(lengths), in(sinks), in(metadata), scale, call_ratio,
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
    const auto in = [](const Tensor& tensor) -> const aclTensor* { return Raw(tensor); };
    const std::string layout = "TND";
    const int64_t unbounded = std::numeric_limits<int64_t>::max();
    if (official) {
      return Launch("aclnnQuantLightningIndexerV2Metadata", stream, in(starts), none, none,
                    in(entry_lengths), in(residuals), heads, int64_t{1}, width, topk, int64_t{2},
                    requests(), int64_t{0}, int64_t{0}, Text(layout), Text(layout_key), int64_t{3},
                    int64_t{4}, Raw(metadata));
    }
    return Launch("aclnnVllmQuantLightningIndexerMetadata", stream, in(ends), in(lengths), heads,
                  int64_t{1}, width, int64_t{0}, int64_t{0}, requests(), int64_t{0}, int64_t{0},
                  Text(layout), Text(layout_key), topk, int64_t{3}, unbounded, unbounded,
                  int64_t{4}, Raw(metadata));
  }

  Outcome Pick(aclrtStream stream, bool official) const {
    const aclTensor* none = nullptr;
    aclTensor* no_values = nullptr;
    const auto in = [](const Tensor& tensor) -> const aclTensor* { return Raw(tensor); };
    const std::string layout = "TND";
    const int64_t unbounded = std::numeric_limits<int64_t>::max();
    if (official) {
      return Launch("aclnnQuantLightningIndexerV2", stream, in(query), in(key), in(weights),
                    in(query_scale), in(key_scale), in(starts), none, none, in(entry_lengths),
                    in(residuals), in(table), none, in(metadata), topk, int64_t{2}, int64_t{-1},
                    Text(layout), Text(layout_key), mask, ratio, int64_t{0}, Raw(indices),
                    no_values);
    }
    return Launch("aclnnVllmQuantLightningIndexer", stream, in(query), in(key), in(weights),
                  in(query_scale), in(key_scale), in(ends), in(lengths), in(table), in(metadata),
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
    const auto in = [](const Tensor& tensor) -> const aclTensor* { return Raw(tensor); };
    aclTensor* none = nullptr;
    if (official) {
      return Launch("aclnnCompressor", stream, in(x), in(wkv), in(wgate), Raw(state), in(ape),
                    in(table), in(starts), in(used), in(start_pos), ratio, overlap, mode,
                    state_stride, false, Raw(out), none, none);
    }
    return Launch("aclnnCompressor", stream, in(x), in(wkv), in(wgate), Raw(state), in(ape),
                  in(norm), in(sin), in(cos), in(table), in(starts), in(used), in(start_pos), rope,
                  ratio, overlap, eps, rotary, mode, state_stride, Raw(out));
  }
};

}  // namespace ascend_emulator::dsv4
