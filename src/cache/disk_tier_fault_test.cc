// What a killed process, a torn or damaged file and a full disk leave behind: at worst less than
// there was, never a wrong byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

#include "cache/disk_tier_pages.h"

namespace cachalot {
namespace {

namespace fs = std::filesystem;

// Runs `body` in a child process, which ends with what it returns. To be called while the process
// has no other thread.
pid_t Fork(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  return child;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void SetContent(const std::string& path, const std::string& content) {
  fs::remove(
      path);  // a file that is truncated and filled again, ext4 would send to the disk at once
  std::ofstream(path, std::ios::binary) << content;
}

class DiskTierFaultTest : public testing::Test {
 protected:
  // Some pages, some of them in the slabs of others that were evicted.
  void WriteSome() {
    auto tier = OpenTier(options_);
    for (const PageIdentity& page : pages_) {
      for (const PagePart part : kPageParts) {
        WriteTestPage(*tier, options_, page, part);
      }
    }
    tier->Flush();
    ASSERT_GT(tier->stats().evicted, 0);
    entries_ = static_cast<int>(tier->stats().entries);
  }

  std::string Path(const char* name) const { return FolderOf(options_) + "/" + name; }

  Outcomes ReopenAndReadAll() {
    auto tier = OpenTier(options_);
    return ReadAll(*tier, options_, pages_);
  }

  // The tier still takes pages and gives them back.
  void CheckThatItWorks() {
    const PageIdentity page = TestPage(options_.root, 77);
    {
      auto tier = OpenTier(options_);
      WriteTestPage(*tier, options_, page, PagePart::kWindow);
      tier->Flush();
      ASSERT_FALSE(tier->stats().disabled);
    }
    ASSERT_EQ(ReadNow(*OpenTier(options_), options_, page.key, PagePart::kWindow), Outcome::kRight);
  }

  TestFolder folder_;
  DiskTierOptions options_ = TestOptions(folder_.path(), 120 << 10);
  std::vector<PageIdentity> pages_ = TestPages(options_.root, 20);
  int entries_ = 0;
};

TEST_F(DiskTierFaultTest, LosesOnlyTheRecordThatIsTorn) {
  WriteSome();
  const std::string whole = ContentOf(Path("index"));
  for (size_t lost = 1; lost <= sizeof(PutRecord); ++lost) {
    SetContent(Path("index"), whole.substr(0, whole.size() - lost));
    auto tier = OpenTier(options_);
    const Outcomes outcomes = ReadAll(*tier, options_, pages_);
    ASSERT_EQ(outcomes.right, entries_ - 1) << lost;
    ASSERT_EQ(outcomes.missed + outcomes.wrong, 0) << lost;
    ASSERT_EQ(fs::file_size(Path("index")), whole.size() - sizeof(PutRecord)) << lost;
    WriteTestPage(*tier, options_, pages_.back(), PagePart::kWindow);  // the last one written
    tier.reset();
    ASSERT_EQ(ReopenAndReadAll().right, entries_) << lost;
  }
}

TEST_F(DiskTierFaultTest, LosesOnlyTheRecordThatIsDamaged) {
  WriteSome();
  const std::string whole = ContentOf(Path("index"));
  int less = 0;
  for (size_t at = kRecordsBegin; at < whole.size(); at += 37) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    SetContent(Path("index"), damaged);
    const Outcomes outcomes = ReopenAndReadAll();
    // A put is lost, or a delete, which the next put into its slab stands for.
    ASSERT_GE(outcomes.right, entries_ - 1) << at;
    ASSERT_EQ(outcomes.missed + outcomes.wrong, 0) << at;
    less += entries_ - outcomes.right;
  }
  EXPECT_GT(less, 0);
}

TEST_F(DiskTierFaultTest, NeverReadsAWrongByteFromDamagedFiles) {
  WriteSome();
  std::map<std::string, std::string> whole;
  for (const char* name : kTestFiles) {
    whole[name] = ContentOf(Path(name));
  }
  std::mt19937_64 random(5);
  int fewer = 0;
  for (int round = 0; round < 600; ++round) {
    for (const char* name : kTestFiles) {
      SetContent(Path(name), whole[name]);
    }
    const char* name = kTestFiles[static_cast<size_t>(round) % kTestFiles.size()];
    std::string damaged = whole[name];
    const size_t at = random() % damaged.size();
    switch (random() % 4) {
      case 0:
        damaged.resize(at);
        break;
      case 1:  // as after a power cut
        std::fill_n(damaged.begin() + static_cast<int64_t>(at),
                    std::min<size_t>(4096, damaged.size() - at), '\0');
        break;
      default:
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
    }
    SetContent(Path(name), damaged);
    const Outcomes outcomes = ReopenAndReadAll();
    ASSERT_EQ(outcomes.wrong, 0) << name << " round " << round;
    ASSERT_EQ(ReopenAndReadAll().missed, 0) << name << " round " << round;  // forgotten for good
    fewer += outcomes.right < entries_ ? 1 : 0;
    if (round % 20 < 3) {
      CheckThatItWorks();
    }
  }
  EXPECT_GT(fewer, 100);
}

// Two parts that changed places: each slab is whole, but not the one asked for.
TEST_F(DiskTierFaultTest, DoesNotTakeOnePageForAnother) {
  WriteSome();
  std::string slabs = ContentOf(Path("window.slabs"));
  const auto size = static_cast<size_t>(SlabBytes(options_.part_bytes[1]));
  std::swap_ranges(slabs.begin() + kSlabsBegin, slabs.begin() + kSlabsBegin + size,
                   slabs.begin() + kSlabsBegin + size);
  SetContent(Path("window.slabs"), slabs);
  const Outcomes outcomes = ReopenAndReadAll();
  EXPECT_EQ(outcomes.wrong, 0);
  EXPECT_EQ(outcomes.missed, 2);
  EXPECT_EQ(outcomes.right, entries_ - 2);
}

TEST_F(DiskTierFaultTest, KeepsAllThatIsListedWhenItsProcessIsKilled) {
  const auto write_until_killed = [&](uint64_t seed) {
    auto tier = OpenTier(options_);
    std::mt19937_64 random(seed);
    while (true) {
      const PageIdentity& page = pages_[random() % pages_.size()];
      WriteTestPage(*tier, options_, page, kPageParts[random() % 2]);
      tier->Touch(pages_[random() % pages_.size()].key);
      if (random() % 8 == 0) {
        tier->Flush();
      }
    }
    return 0;
  };
  std::mt19937_64 random(9);
  int right = 0;
  int other_than_before = 0;
  std::string before;
  for (uint64_t round = 0; round < 200; ++round) {
    const pid_t child = Fork([&] { return write_until_killed(round); });
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << round;
    ASSERT_LE(BytesOnDisk(options_), options_.max_bytes);
    const Outcomes outcomes = ReopenAndReadAll();
    ASSERT_EQ(outcomes.wrong, 0) << round;
    ASSERT_EQ(outcomes.missed, 0) << round;
    right += outcomes.right;
    const std::string after = ContentOf(Path("index"));
    other_than_before += before != after ? 1 : 0;
    before = after;
  }
  EXPECT_GT(right, 1000);
  EXPECT_GT(other_than_before, 50);
  CheckThatItWorks();
}

// What the child of the next test says of itself.
int FillDisk(const DiskTierOptions& options, const std::vector<PageIdentity>& pages) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {40000, 40000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::ostringstream log;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  auto tier = OpenTier(options);
  for (const PageIdentity& page : pages) {
    for (const PagePart part : kPageParts) {
      WriteTestPage(*tier, options, page, part);
      tier->Flush();
    }
  }
  const Outcomes outcomes = ReadAll(*tier, options, pages);
  const DiskTierStats stats = tier->stats();
  const std::string lines = log.str();
  const bool right =
      stats.disabled && stats.writes > 5 && stats.dropped > 5 && stats.read_failures == 0 &&
      outcomes.right == stats.writes && outcomes.missed + outcomes.wrong == 0 &&
      std::count(lines.begin(), lines.end(), '\n') == 1 &&
      lines.find("warn") != std::string::npos && lines.find("too large") != std::string::npos;
  if (!right) {
    std::fprintf(stderr, "%d right, %d missed, %d wrong, %d written, %d dropped; log: %s\n",
                 outcomes.right, outcomes.missed, outcomes.wrong, static_cast<int>(stats.writes),
                 static_cast<int>(stats.dropped), lines.c_str());
  }
  return right ? 0 : 1;
}

TEST_F(DiskTierFaultTest, KeepsReadingWhenTheDiskIsFull) {
  options_.max_bytes = 8 << 20;
  const pid_t child = Fork([&] { return FillDisk(options_, pages_); });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);

  const Outcomes outcomes = ReopenAndReadAll();
  EXPECT_GT(outcomes.right, 5);
  EXPECT_EQ(outcomes.missed + outcomes.wrong, 0);
  CheckThatItWorks();
}

}  // namespace
}  // namespace cachalot
