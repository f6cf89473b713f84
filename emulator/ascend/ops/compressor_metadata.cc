// aclnnCompressorMetadata (custom): for the groups that a step closes, in request order, the rope
// rows of their first tokens and the cache rows that take them.
#include <algorithm>
#include <vector>

#include "export.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

struct Groups {
  Operand cos;  // [positions, rope width]
  Operand sin;
  Operand starts;
  Operand start_pos;
  Operand table;    // pages of the compressed cache, [B, n]
  Operand out_cos;  // [rows, rope width]
  Operand out_sin;
  Operand slots;  // [rows], or [rows, 2] of block and offset
  int64_t block_size = 0;
  int64_t ratio = 0;
  int64_t requests = 0;
};

void Find(Kernel& kernel, const Groups& call) {
  std::vector<int64_t> starts;
  std::vector<int64_t> positions;
  if (!ReadStarts(kernel, call.starts, INT32_MAX, starts) ||
      !ReadLengths(kernel, call.start_pos, positions)) {
    return;
  }
  const std::vector<int64_t> pages = kernel.LoadIntegers(call.table);
  const Rows cos(kernel, call.cos);
  const Rows sin(kernel, call.sin);
  Rows out_cos(kernel, call.out_cos);
  Rows out_sin(kernel, call.out_sin);
  int32_t* slots = kernel.Data<int32_t>(call.slots);
  const int64_t width = call.cos.dim(1);
  const int64_t rows = call.slots.dim(0);
  const bool pairs = call.slots.rank() == 2;
  std::vector<float> row(static_cast<size_t>(width));
  int64_t next = 0;
  for (int64_t request = 0; request < call.requests; ++request) {
    const int64_t start = positions[static_cast<size_t>(request)];
    const int64_t end =
        start + starts[static_cast<size_t>(request + 1)] - starts[static_cast<size_t>(request)];
    for (int64_t group = start / call.ratio; group < end / call.ratio; ++group, ++next) {
      const int64_t column = group / call.block_size;
      if (next >= rows || column >= call.table.dim(1) || group * call.ratio >= call.cos.dim(0)) {
        kernel.Fault(kAiCoreException,
                     "group {} of request {} is row {} of {}, page {} of {}, position {} of {}",
                     group, request, next, rows, column, call.table.dim(1), group * call.ratio,
                     call.cos.dim(0));
        return;
      }
      cos.Read(group * call.ratio * width, width, row.data());
      out_cos.Write(next * width, width, row.data());
      sin.Read(group * call.ratio * width, width, row.data());
      out_sin.Write(next * width, width, row.data());
      const int64_t page = pages[static_cast<size_t>(request * call.table.dim(1) + column)];
      const int64_t offset = group % call.block_size;
      if (pairs) {
        slots[2 * next] = static_cast<int32_t>(page);
        slots[2 * next + 1] = static_cast<int32_t>(offset);
      } else {
        slots[next] = static_cast<int32_t>(page * call.block_size + offset);
      }
    }
  }
  // The rest is padding: negative slots, which scatters of this package skip.
  std::fill(slots + next * (pairs ? 2 : 1), slots + rows * (pairs ? 2 : 1), -1);
  std::fill(row.begin(), row.end(), 0.0F);
  for (; next < rows; ++next) {
    out_cos.Write(next * width, width, row.data());
    out_sin.Write(next * width, width, row.data());
  }
}

aclnnStatus MetadataSize(const aclTensor* rope_cos, const aclTensor* rope_sin,
                         const aclTensor* cu_seqlens, const aclTensor* start_pos,
                         const aclTensor* kv_block_table, int64_t kv_block_size,
                         int64_t slot_mapping_format, int64_t cmp_ratio, int64_t actual_num_reqs,
                         aclTensor* compress_cos, aclTensor* compress_sin, aclTensor* slot_mapping,
                         uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnCompressorMetadata", size, executor);
  const Call::DTypes rope_types = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
  Groups a;
  a.cos = call.Input("ropeCos", rope_cos, rope_types);
  a.sin = call.Input("ropeSin", rope_sin, rope_types);
  a.starts = call.Input("cuSeqlens", cu_seqlens, {ACL_INT32});
  a.start_pos = call.Input("startPos", start_pos, {ACL_INT32});
  a.table = call.Input("kvBlockTable", kv_block_table, {ACL_INT32});
  a.out_cos = call.Output("compressCos", compress_cos, rope_types);
  a.out_sin = call.Output("compressSin", compress_sin, rope_types);
  a.slots = call.Output("slotMapping", slot_mapping, {ACL_INT32});
  call.Expect(kv_block_size > 0, kAclnnInvalid, "kvBlockSize {}", kv_block_size);
  call.Expect(slot_mapping_format == 1 || slot_mapping_format == 2, kAclnnInvalid,
              "slotMappingFormat {}, neither 1 nor 2", slot_mapping_format);
  call.Expect(cmp_ratio == 4 || cmp_ratio == 128, kAclnnInvalid, "cmpRatio {}, neither 4 nor 128",
              cmp_ratio);
  call.Rank(a.cos, {2});
  call.Rank(a.start_pos, {1});
  call.SameShape(a.cos, a.sin);
  if (call.ok()) {
    const int64_t requests = a.start_pos.dim(0);
    call.Shape(a.starts, {requests + 1});
    call.Shape(a.table, {requests, -1});
    call.Expect(actual_num_reqs >= 0 && actual_num_reqs <= requests, kAclnnInvalid,
                "actualNumReqs {}, startPos has {}", actual_num_reqs, requests);
    call.Shape(a.out_cos, {-1, a.cos.dim(1)});
    call.SameShape(a.out_cos, a.out_sin);
    for (const Operand* operand : {&a.sin, &a.out_cos, &a.out_sin}) {
      call.Expect(operand->dtype == a.cos.dtype, kAclnnInvalid, "{}: {}, but ropeCos is {}",
                  operand->name, NameOf(operand->dtype), NameOf(a.cos.dtype));
    }
  }
  if (call.ok()) {
    if (slot_mapping_format == 2) {
      call.Shape(a.slots, {a.out_cos.dim(0), 2});
    } else {
      call.Shape(a.slots, {a.out_cos.dim(0)});
    }
    for (const Operand* operand :
         {&a.cos, &a.sin, &a.starts, &a.start_pos, &a.table, &a.out_cos, &a.out_sin, &a.slots}) {
      call.Contiguous(*operand);
    }
  }
  a.block_size = kv_block_size;
  a.ratio = cmp_ratio;
  a.requests = actual_num_reqs;
  return call.Finish([a](Kernel& kernel) { Find(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnCompressorMetadata, ascend_emulator::MetadataSize);
