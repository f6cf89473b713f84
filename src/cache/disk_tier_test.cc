#include "cache/disk_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "cache/disk_tier_pages.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

constexpr int64_t kPlenty = 8 << 20;

class DiskTierTest : public testing::Test {
 protected:
  // max_bytes of exactly these numbers of window slabs and one of history or more.
  DiskTierOptions WithWindows(int64_t windows) const {
    DiskTierOptions options = TestOptions(folder_.path(), 1);
    while (!PlanSlabs(options) || (*PlanSlabs(options))[1] < windows) {
      options.max_bytes += 512;
    }
    return options;
  }

  TestFolder folder_;
  DiskTierOptions options_ = TestOptions(folder_.path(), kPlenty);
  std::vector<PageIdentity> pages_ = TestPages(options_.root, 40);
};

TEST_F(DiskTierTest, GivesBackWhatWasWritten) {
  auto tier = OpenTier(options_);
  EXPECT_TRUE(tier->Load().empty());
  WriteTestPage(*tier, options_, pages_[0], PagePart::kHistory);
  WriteTestPage(*tier, options_, pages_[1], PagePart::kWindow);
  tier->Flush();
  EXPECT_TRUE(tier->Has(pages_[0].key, PagePart::kHistory));
  EXPECT_FALSE(tier->Has(pages_[0].key, PagePart::kWindow));
  EXPECT_EQ(ReadNow(*tier, options_, pages_[0].key, PagePart::kHistory), Outcome::kRight);
  EXPECT_EQ(ReadNow(*tier, options_, pages_[1].key, PagePart::kWindow), Outcome::kRight);
  EXPECT_EQ(ReadNow(*tier, options_, pages_[0].key, PagePart::kWindow), Outcome::kMiss);
  const DiskTierStats stats = tier->stats();
  EXPECT_EQ(stats.entries, 2);
  EXPECT_EQ(stats.writes, 2);
  EXPECT_EQ(stats.read_failures, 1);
  EXPECT_EQ(stats.bytes, BytesOnDisk(options_));
  EXPECT_FALSE(stats.disabled || stats.read_only);
}

TEST_F(DiskTierTest, ListsParentsFirstAfterReopening) {
  {
    auto tier = OpenTier(options_);
    for (size_t i = pages_.size(); i-- > 0;) {  // children first
      WriteTestPage(*tier, options_, pages_[i], PagePart::kHistory);
      if (i % 3 == 0) {
        WriteTestPage(*tier, options_, pages_[i], PagePart::kWindow);
      }
    }
  }
  auto tier = OpenTier(options_);
  std::set<PageKey> seen = {options_.root};
  for (const DiskTier::Stored& stored : tier->Load()) {
    const auto i = static_cast<size_t>(stored.page.tokens[0]);
    EXPECT_EQ(stored.page, pages_[i]);
    EXPECT_TRUE(stored.history);
    EXPECT_EQ(stored.window, i % 3 == 0);
    EXPECT_TRUE(seen.contains(stored.page.parent)) << i;
    seen.insert(stored.page.key);
  }
  EXPECT_EQ(seen.size(), pages_.size() + 1);
  EXPECT_EQ(ReadAll(*tier, options_, pages_).right, 40 + 14);
}

TEST_F(DiskTierTest, ListsAPageWhoseParentIsNotThere) {
  auto tier = OpenTier(options_);
  WriteTestPage(*tier, options_, pages_[5], PagePart::kWindow);
  tier->Flush();
  ASSERT_EQ(tier->Load().size(), 1U);
  EXPECT_EQ(tier->Load()[0].page, pages_[5]);
}

TEST_F(DiskTierTest, EvictsWhatWasUsedLeastLatelyAndKeepsToItsBytes) {
  const DiskTierOptions options = WithWindows(4);
  ASSERT_EQ((*PlanSlabs(options))[1], 4);
  auto tier = OpenTier(options);
  for (int i = 0; i < 4; ++i) {
    WriteTestPage(*tier, options, pages_[static_cast<size_t>(i)], PagePart::kWindow);
  }
  tier->Flush();
  tier->Touch(pages_[0].key);
  for (int i = 4; i < 6; ++i) {
    WriteTestPage(*tier, options, pages_[static_cast<size_t>(i)], PagePart::kWindow);
  }
  tier->Flush();
  for (const auto& [i, there] :
       {std::pair(0, true), {1, false}, {2, false}, {3, true}, {5, true}}) {
    EXPECT_EQ(tier->Has(pages_[static_cast<size_t>(i)].key, PagePart::kWindow), there) << i;
  }
  EXPECT_EQ(tier->stats().evicted, 2);
  for (int round = 0; round < 5; ++round) {
    for (const PageIdentity& page : pages_) {
      for (const PagePart part : kPageParts) {
        WriteTestPage(*tier, options, page, part);
        tier->Flush();
        ASSERT_LE(BytesOnDisk(options), options.max_bytes);
        ASSERT_EQ(BytesOnDisk(options), tier->stats().bytes);
      }
    }
  }
  const auto plan = *PlanSlabs(options);
  EXPECT_EQ(ReadAll(*tier, options, pages_).right, plan[0] + plan[1]);
}

TEST_F(DiskTierTest, GrowsAndShrinksWithItsLimit) {
  const DiskTierOptions small = WithWindows(2);
  {
    auto tier = OpenTier(options_);
    for (const PageIdentity& page : pages_) {
      WriteTestPage(*tier, options_, page, PagePart::kWindow);
      WriteTestPage(*tier, options_, page, PagePart::kHistory);
    }
  }
  EXPECT_GT(BytesOnDisk(options_), small.max_bytes);
  {
    auto tier = OpenTier(small);
    EXPECT_LE(BytesOnDisk(small), small.max_bytes);
    const auto plan = *PlanSlabs(small);
    EXPECT_EQ(ReadAll(*tier, small, pages_).right, plan[0] + plan[1]);
    EXPECT_EQ(tier->stats().entries, plan[0] + plan[1]);
  }
  EXPECT_EQ(OpenTier(options_)->stats().entries, 2 + (*PlanSlabs(small))[0]);
}

TEST_F(DiskTierTest, KeepsModelsApart) {
  DiskTierOptions other = options_;
  other.root = RootKey("other model");
  other.part_bytes = {77, 99};
  {
    auto tier = OpenTier(options_);
    auto beside = OpenTier(other);
    WriteTestPage(*tier, options_, pages_[0], PagePart::kWindow);
    WriteTestPage(*beside, other, TestPage(other.root, 0), PagePart::kWindow);
    EXPECT_FALSE(beside->stats().read_only);
  }
  ASSERT_EQ(OpenTier(options_)->Load().size(), 1U);
  EXPECT_EQ(OpenTier(options_)->Load()[0].page, pages_[0]);
  ASSERT_EQ(OpenTier(other)->Load().size(), 1U);
  EXPECT_EQ(OpenTier(other)->Load()[0].page, TestPage(other.root, 0));
}

TEST_F(DiskTierTest, BeginsAnewWhereFilesHaveAnotherForm) {
  WriteTestPage(*OpenTier(options_), options_, pages_[0], PagePart::kWindow);
  DiskTierOptions other = options_;
  other.part_bytes[1] += 1;
  auto tier = OpenTier(other);
  EXPECT_TRUE(tier->Load().empty());
  WriteTestPage(*tier, other, pages_[0], PagePart::kWindow);
  tier->Flush();
  EXPECT_EQ(ReadNow(*tier, other, pages_[0].key, PagePart::kWindow), Outcome::kRight);
}

TEST_F(DiskTierTest, KeepsTheIndexWithinTwiceWhatIsAlive) {
  const DiskTierOptions options = WithWindows(6);
  auto tier = OpenTier(options);
  for (int i = 0; i < 500; ++i) {
    WriteTestPage(*tier, options, TestPage(options.root, i), PagePart::kWindow);
    tier->Flush();
    const auto alive = tier->stats().entries * static_cast<int64_t>(sizeof(PutRecord));
    ASSERT_LE(std::filesystem::file_size(FolderOf(options) + "/index"), kRecordsBegin + 2 * alive);
  }
  const auto last = TestPages(options.root, 500);
  EXPECT_EQ(ReadAll(*tier, options, last).right, 6);
  tier.reset();
  EXPECT_EQ(ReadAll(*OpenTier(options), options, last).right, 6);
}

TEST_F(DiskTierTest, ReadsWhatAnotherWrites) {
  auto writer = OpenTier(options_);
  for (size_t i = 0; i < 10; ++i) {
    WriteTestPage(*writer, options_, pages_[i], PagePart::kWindow);
  }
  writer->Flush();
  auto reader = OpenTier(options_);
  EXPECT_TRUE(reader->stats().read_only);
  EXPECT_FALSE(reader->stats().disabled);
  EXPECT_EQ(reader->Load().size(), 10U);
  EXPECT_EQ(ReadAll(*reader, options_, pages_).right, 10);
  WriteTestPage(*reader, options_, pages_[20], PagePart::kWindow);
  reader->Flush();
  EXPECT_EQ(reader->stats().dropped, 1);
  EXPECT_FALSE(reader->Has(pages_[20].key, PagePart::kWindow));
  writer.reset();
  EXPECT_EQ(ReadAll(*reader, options_, pages_).right, 10);
  EXPECT_FALSE(OpenTier(options_)->stats().read_only);
}

TEST_F(DiskTierTest, MissesInAReaderWhatTheWriterHasOverwritten) {
  const DiskTierOptions options = WithWindows(4);
  auto writer = OpenTier(options);
  for (size_t i = 0; i < 4; ++i) {
    WriteTestPage(*writer, options, pages_[i], PagePart::kWindow);
  }
  writer->Flush();
  auto reader = OpenTier(options);
  for (size_t i = 4; i < 7; ++i) {
    WriteTestPage(*writer, options, pages_[i], PagePart::kWindow);
  }
  writer->Flush();
  const Outcomes outcomes = ReadAll(*reader, options, pages_);
  EXPECT_EQ(outcomes.right, 1);
  EXPECT_EQ(outcomes.missed, 3);
  EXPECT_EQ(outcomes.wrong, 0);
  EXPECT_EQ(reader->stats().entries, 1);  // the others are forgotten
  EXPECT_EQ(ReadAll(*writer, options, pages_).right, 4);
}

TEST_F(DiskTierTest, ReaderThatCameBeforeTheFirstWriterIsEmpty) {
  std::filesystem::create_directories(FolderOf(options_));
  auto lock = DiskFile::Open(FolderOf(options_) + "/lock", FileAccess::kReadWrite);
  ASSERT_TRUE(lock && *lock->TryLock());
  auto reader = OpenTier(options_);
  EXPECT_TRUE(reader->stats().read_only);
  EXPECT_TRUE(reader->Load().empty());
  EXPECT_EQ(ReadNow(*reader, options_, pages_[0].key, PagePart::kWindow), Outcome::kMiss);
}

TEST_F(DiskTierTest, DropsWhatIsThereAlreadyAndWhatTheQueueCannotHold) {
  DiskTierOptions options = options_;
  options.max_queued_bytes = 3 * options.part_bytes[1] + 1;
  auto tier = OpenTier(options);
  std::promise<void> begun;
  std::promise<void> may_go_on;
  std::vector<std::byte> into(static_cast<size_t>(options.part_bytes[1]));
  tier->Read(pages_[0].key, PagePart::kWindow, into, [&](bool) {
    begun.set_value();
    may_go_on.get_future().wait();
  });
  begun.get_future().wait();
  for (size_t i = 0; i < 5; ++i) {
    WriteTestPage(*tier, options, pages_[i], PagePart::kWindow);
  }
  EXPECT_EQ(tier->stats().dropped, 2);
  may_go_on.set_value();
  tier->Flush();
  EXPECT_EQ(tier->stats().writes, 3);
  WriteTestPage(*tier, options, pages_[0], PagePart::kWindow);
  EXPECT_EQ(tier->stats().dropped, 3);
  WriteTestPage(*tier, options, pages_[4], PagePart::kWindow);  // there is room again
  tier->Flush();
  EXPECT_EQ(ReadAll(*tier, options, pages_).right, 4);
}

TEST_F(DiskTierTest, DropsAPartThatIsQueuedAlready) {
  auto tier = OpenTier(options_);
  std::promise<void> may_go_on;
  std::vector<std::byte> into(static_cast<size_t>(options_.part_bytes[1]));
  tier->Read(pages_[0].key, PagePart::kWindow, into, [&](bool) { may_go_on.get_future().wait(); });
  WriteTestPage(*tier, options_, pages_[0], PagePart::kWindow);
  WriteTestPage(*tier, options_, pages_[0], PagePart::kWindow);
  EXPECT_EQ(tier->stats().dropped, 1);
  may_go_on.set_value();
  tier->Flush();
  EXPECT_EQ(tier->stats().writes, 1);
}

TEST_F(DiskTierTest, DoesAllThatIsQueuedBeforeItEnds) {
  int answers = 0;
  std::vector<std::byte> into(static_cast<size_t>(options_.part_bytes[1]));
  {
    auto tier = OpenTier(options_);
    for (const PageIdentity& page : pages_) {
      WriteTestPage(*tier, options_, page, PagePart::kWindow);
      tier->Read(page.key, PagePart::kWindow, into, [&](bool) { ++answers; });
    }
  }
  EXPECT_EQ(answers, 40);
  EXPECT_EQ(OpenTier(options_)->stats().entries, 40);
}

TEST_F(DiskTierTest, ServesManyThreads) {
  const DiskTierOptions options = WithWindows(20);
  auto tier = OpenTier(options);
  std::vector<Outcomes> outcomes(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < outcomes.size(); ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 300; ++i) {
        const PageIdentity& page = pages_[random() % pages_.size()];
        WriteTestPage(*tier, options, page, kPageParts[random() % 2]);
        tier->Touch(page.key);
        if (i % 50 == 0) {
          tier->Load();
          outcomes[t].wrong += ReadAll(*tier, options, pages_).wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Outcomes& of_thread : outcomes) {
    EXPECT_EQ(of_thread.wrong, 0);
  }
  tier->Flush();
  EXPECT_EQ(ReadAll(*tier, options, pages_).right, tier->stats().entries);
  const DiskTierStats stats = tier->stats();
  EXPECT_EQ(stats.writes + stats.dropped, 4 * 300);
  EXPECT_EQ(stats.writes - stats.evicted, stats.entries);
}

TEST_F(DiskTierTest, NamesWhatIsWrongWithItsFolder) {
  const std::string file = folder_.path() + "/file";
  std::ofstream(file) << "no folder";
  const auto in_file = DiskTier::Open(TestOptions(file, kPlenty));
  ASSERT_FALSE(in_file);
  EXPECT_EQ(in_file.error().code, StatusCode::kIoError);
  EXPECT_THAT(in_file.error().message, HasSubstr(file));
  EXPECT_THAT(in_file.error().message, HasSubstr("Not a directory"));

  const auto no_rights = DiskTier::Open(TestOptions("/proc", kPlenty));
  ASSERT_FALSE(no_rights);
  EXPECT_THAT(no_rights.error().message, HasSubstr("/proc/"));
}

TEST_F(DiskTierTest, SharesItsBytesOutAndRefusesTooFew) {
  DiskTierOptions options = WithWindows(1);
  EXPECT_EQ(*PlanSlabs(options), (std::array<int64_t, 2>{1, 1}));
  options.max_bytes -= 512;
  const auto refused = DiskTier::Open(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("expected at least"));

  options.max_bytes = int64_t{1} << 40;
  options.part_bytes = {1 << 20, 7 << 20};
  const auto plan = *PlanSlabs(options);
  EXPECT_NEAR(static_cast<double>(plan[0] * SlabBytes(1 << 20)), 0x1p38, 0x1p32);
  EXPECT_NEAR(static_cast<double>(plan[1] * SlabBytes(7 << 20)), 0x3p38, 0x1p32);
}

}  // namespace
}  // namespace cachalot
