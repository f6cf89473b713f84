#include "../ops/core_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ascend_emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using End = std::pair<int64_t, int64_t>;

AttentionWork Work(std::vector<int64_t> queries, std::vector<int64_t> keys, int64_t cores,
                   int64_t ratio = 0, int64_t topk = 0) {
  AttentionWork work;
  work.queries = std::move(queries);
  work.keys = std::move(keys);
  work.heads = 64;
  work.cores = cores;
  work.ratio = ratio;
  work.topk = topk;
  return work;
}

std::vector<End> Ends(const AttentionWork& work) {
  std::vector<End> ends;
  End reached{0, 0};
  for (const CoreRange& range : DealRows(work)) {
    EXPECT_EQ((End{range.begin_request, range.begin_row}), reached);
    reached = {range.end_request, range.end_row};
    ends.push_back(reached);
  }
  return ends;
}

const std::vector<int64_t> kDecodeKeys = {128, 256, 512, 1024, 2048, 4096, 8192, 12345};
const std::vector<int64_t> kOneEach(8, 1);

TEST(CoreSchedule, DealsDecodingRequestsAsThePublishedSchedulerDoes) {
  const std::vector<End> one_each = {{1, 0}, {2, 0}, {3, 0}, {4, 0},
                                     {5, 0}, {6, 0}, {7, 0}, {8, 0}};
  EXPECT_THAT(Ends(Work(kOneEach, kDecodeKeys, 24)), ElementsAreArray(one_each));
  EXPECT_THAT(
      Ends(Work(kOneEach, kDecodeKeys, 24, 4, 512)),
      ElementsAre(End{2, 0}, End{3, 0}, End{4, 0}, End{5, 0}, End{6, 0}, End{7, 0}, End{8, 0}));
  EXPECT_THAT(Ends(Work(kOneEach, kDecodeKeys, 24, 128)), ElementsAreArray(one_each));
  EXPECT_THAT(Ends(Work(kOneEach, kDecodeKeys, 4, 128)),
              ElementsAre(End{2, 0}, End{4, 0}, End{6, 0}, End{8, 0}));
}

TEST(CoreSchedule, DealsPromptsAsThePublishedSchedulerDoes) {
  EXPECT_THAT(Ends(Work({100, 300}, {100, 300}, 24)),
              ElementsAreArray(std::vector<End>{
                  {0, 20},  {0, 40},  {0, 60},  {0, 76},  {0, 91},  {1, 8},   {1, 28},  {1, 48},
                  {1, 67},  {1, 83},  {1, 99},  {1, 114}, {1, 130}, {1, 145}, {1, 161}, {1, 176},
                  {1, 192}, {1, 207}, {1, 223}, {1, 238}, {1, 254}, {1, 269}, {1, 285}, {2, 0}}));
  EXPECT_THAT(Ends(Work({1000}, {1000}, 4)),
              ElementsAre(End{0, 261}, End{0, 507}, End{0, 754}, End{1, 0}));
  EXPECT_THAT(Ends(Work({1000}, {1000}, 4, 4, 512)),
              ElementsAre(End{0, 298}, End{0, 554}, End{0, 787}, End{1, 0}));
  EXPECT_THAT(Ends(Work({1000}, {1000}, 4, 128)),
              ElementsAre(End{0, 297}, End{0, 531}, End{0, 765}, End{1, 0}));
}

TEST(CoreSchedule, DealsEmptyAndVerifiedRequestsAsThePublishedSchedulerDoes) {
  EXPECT_THAT(Ends(Work({1, 1}, {0, 0}, 24)), ElementsAre(End{2, 0}));
  EXPECT_THAT(Ends(Work({1, 1, 1}, {100, 0, 100}, 4)), ElementsAre(End{2, 0}, End{3, 0}));
  EXPECT_THAT(Ends(Work({6, 6, 6}, {30, 500, 2000}, 4, 128)),
              ElementsAre(End{1, 1}, End{1, 4}, End{2, 2}, End{3, 0}));
}

TEST(CoreSchedule, DealsTilesOfTheNextGenerationAsThePublishedSchedulerDoes) {
  AttentionWork work = Work({100}, {100}, 4);
  work.row_tile = 64;
  work.key_tile = 128;
  EXPECT_THAT(Ends(work), ElementsAre(End{0, 28}, End{0, 56}, End{0, 79}, End{1, 0}));
}

TEST(CoreSchedule, CoversEveryRowOnceWhateverTheLengths) {
  std::mt19937 random(7);
  const auto below = [&](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    AttentionWork work = Work({}, {}, below(24) + 1);
    for (int64_t request = below(6); request >= 0; --request) {
      work.queries.push_back(below(40));
      work.keys.push_back(below(3) == 0 ? below(20) : below(3000));
    }
    work.ratio = below(2) == 0 ? 0 : 4;
    work.window = work.ratio == 0 || below(2) == 0;
    work.topk = work.ratio > 0 && work.window ? 512 : 0;
    work.left = below(3) == 0 ? -1 : below(200);
    work.right = below(3) == 0 ? -1 : below(20);
    const std::vector<End> ends = Ends(work);
    ASSERT_EQ(ends.back(), (End{static_cast<int64_t>(work.keys.size()), 0})) << "round " << round;
    ASSERT_LE(static_cast<int64_t>(ends.size()), work.cores);
  }
}

// A kernel that has no memory: it keeps the fault.
class FaultKeeper final : public Kernel {
 public:
  using Kernel::Fault;
  uint8_t* workspace() override { return nullptr; }
  int cube_cores() override { return 24; }
  int vector_cores() override { return 48; }
  void Fault(aclError code, std::string message) override {
    EXPECT_EQ(code, kAiCoreException);
    message_ = std::move(message);
  }
  bool faulted() const override { return !message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  void* Map(const Operand& /*operand*/) override { return nullptr; }
  std::string message_;
};

std::string Complaint(const Table& table, TableKind kind, const AttentionWork& work) {
  FaultKeeper kernel;
  const bool taken = CheckTable(kernel, table.data(), kind, work);
  EXPECT_EQ(taken, !kernel.faulted());
  return kernel.message();
}

// As a host would make it: without the fingerprint.
Table HostTable(TableKind kind, const AttentionWork& work) {
  Table table = EncodeTable(kind, work);
  std::fill(table.begin() + 900, table.end(), 0);
  return table;
}

TEST(CoreTable, IsTakenFromTheDeviceAndFromTheHost) {
  for (const TableKind kind : {TableKind::kSparseAttnSharedkv, TableKind::kSparseFlashMla}) {
    const AttentionWork work = Work({100, 300}, {100, 300}, 24, 128);
    EXPECT_EQ(Complaint(EncodeTable(kind, work), kind, work), "");
    EXPECT_EQ(Complaint(HostTable(kind, work), kind, work), "");
  }
}

TEST(CoreTable, SaysWhatItWasMadeForWhereThatDiffers) {
  const TableKind kind = TableKind::kSparseAttnSharedkv;
  const AttentionWork work = Work({1, 1}, {700, 900}, 24, 4, 512);
  const Table table = EncodeTable(kind, work);
  AttentionWork other = work;
  other.ratio = 128;
  EXPECT_EQ(Complaint(table, kind, other), "metadata was made for ratio 4, the call has 128");
  other = work;
  other.heads = 16;
  EXPECT_EQ(Complaint(table, kind, other), "metadata was made for heads 64, the call has 16");
  other = work;
  other.cores = 20;
  EXPECT_EQ(Complaint(table, kind, other), "metadata was made for cores 24, the call has 20");
  EXPECT_EQ(Complaint(table, TableKind::kVllmQuantLightningIndexer, work),
            "metadata was made for kind 1, the call has 3");
  other = work;
  other.keys[1] = 901;
  EXPECT_THAT(Complaint(table, kind, other), HasSubstr("stale: it was made for other key lengths"));
  other = work;
  other.queries[1] = 2;
  EXPECT_THAT(Complaint(table, kind, other), HasSubstr("other query lengths"));
}

TEST(CoreTable, OfTheHostMustHoldTheRangesThatTheLengthsAskFor) {
  const TableKind kind = TableKind::kSparseAttnSharedkv;
  const AttentionWork work = Work({100, 300}, {100, 300}, 24);
  Table table = HostTable(kind, work);
  ++table[5];   // the end of core 0 and
  ++table[10];  // the start of core 1: whole still, but not the device's dealing
  EXPECT_EQ(Complaint(table, kind, work),
            "metadata: core 0 has 21 in word 5, the lengths ask for 20");
  AttentionWork indexer = work;
  indexer.window = false;
  indexer.ratio = 4;
  Table loose = HostTable(TableKind::kVllmQuantLightningIndexer, indexer);
  const int64_t second = loose[5];
  loose[5] = static_cast<int32_t>(second - 1);
  loose[10] = static_cast<int32_t>(second - 1);
  EXPECT_EQ(Complaint(loose, TableKind::kVllmQuantLightningIndexer, indexer), "");
}

TEST(CoreTable, WithHolesOrGarbageIsRefused) {
  const TableKind kind = TableKind::kSparseAttnSharedkv;
  const AttentionWork work = Work({100, 300}, {100, 300}, 24);
  const Table whole = HostTable(kind, work);
  Table table = whole;
  table.fill(-1);
  EXPECT_THAT(Complaint(table, kind, work), HasSubstr("enable word -1, neither 0 nor 1"));
  table = whole;
  ++table[5];
  EXPECT_THAT(Complaint(table, kind, work), HasSubstr("core 1 takes rows from (0, 20)"));
  table = whole;
  table[8] = 0;
  EXPECT_THAT(Complaint(table, kind, work), HasSubstr("core 2 is enabled after 1 others"));
  table = whole;
  table[23 * 8] = 0;
  EXPECT_THAT(Complaint(table, kind, work), HasSubstr("covered up to (1, 285) of 2 requests"));
  table = whole;
  table[288] = 1;
  EXPECT_THAT(Complaint(table, kind, work), HasSubstr("word 0 of the reduction records is 1"));
  AttentionWork fewer = work;
  fewer.cores = 20;
  EXPECT_THAT(Complaint(whole, kind, fewer), HasSubstr("the device has 20 cores"));
}

}  // namespace
}  // namespace ascend_emulator
