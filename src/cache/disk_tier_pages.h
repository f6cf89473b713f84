// For the tests of the disk tier: folders of their own, pages whose bytes follow from their keys,
// and reads that say whether those are what came back.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/disk_format.h"
#include "cache/disk_tier.h"

namespace cachalot {

class TestFolder {
 public:
  TestFolder() : path_(testing::TempDir() + "disk_tier_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      ADD_FAILURE() << "no folder " << path_;
    }
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Bytes that hold exactly these numbers of slabs: the plan gives a quarter to history.
inline DiskTierOptions TestOptions(const std::string& folder, int64_t max_bytes) {
  return {.folder = folder,
          .max_bytes = max_bytes,
          .part_bytes = {300, 5000},
          .root = RootKey("test model")};
}

inline std::string FolderOf(const DiskTierOptions& options) {
  return options.folder + "/" + HexOf(options.root).substr(0, 16);
}

// The files that count, by name.
inline constexpr std::array<const char*, 3> kTestFiles = {"history.slabs", "window.slabs", "index"};

inline int64_t BytesOnDisk(const DiskTierOptions& options) {
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(FolderOf(options))) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  return bytes;
}

// Page i of a tree in which page i's parent is page (i - 1) / 2, and page 0's is the root.
inline PageIdentity TestPage(const PageKey& root, int i) {
  PageIdentity page;
  page.parent = i == 0 ? root : TestPage(root, (i - 1) / 2).key;
  page.tokens.fill(i);
  page.key = ChildKey(page.parent, page.tokens);
  return page;
}

inline std::vector<PageIdentity> TestPages(const PageKey& root, int count) {
  std::vector<PageIdentity> pages;
  for (int i = 0; i < count; ++i) {
    pages.push_back(TestPage(root, i));
  }
  return pages;
}

inline DiskTier::Bytes TestBytes(const DiskTierOptions& options, const PageKey& key,
                                 PagePart part) {
  std::mt19937_64 random(std::hash<PageKey>()(key) + IndexOf(part));
  std::vector<std::byte> bytes(static_cast<size_t>(options.part_bytes[IndexOf(part)]));
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline void WriteTestPage(DiskTier& tier, const DiskTierOptions& options, const PageIdentity& page,
                          PagePart part) {
  tier.Write(page, part, TestBytes(options, page.key, part));
}

inline std::unique_ptr<DiskTier> OpenTier(const DiskTierOptions& options) {
  auto tier = DiskTier::Open(options);
  EXPECT_TRUE(tier) << tier.error().message;
  return *std::move(tier);
}

enum class Outcome { kMiss, kRight, kWrong };

inline Outcome ReadNow(DiskTier& tier, const DiskTierOptions& options, const PageKey& key,
                       PagePart part) {
  std::vector<std::byte> bytes(static_cast<size_t>(options.part_bytes[IndexOf(part)]));
  std::promise<bool> answer;
  tier.Read(key, part, bytes, [&](bool ok) { answer.set_value(ok); });
  if (!answer.get_future().get()) {
    return Outcome::kMiss;
  }
  return bytes == *TestBytes(options, key, part) ? Outcome::kRight : Outcome::kWrong;
}

struct Outcomes {
  int missed = 0;
  int right = 0;
  int wrong = 0;
};

// Reads all parts of these pages that the tier says it has.
inline Outcomes ReadAll(DiskTier& tier, const DiskTierOptions& options,
                        const std::vector<PageIdentity>& pages) {
  Outcomes outcomes;
  for (const PageIdentity& page : pages) {
    for (const PagePart part : kPageParts) {
      if (tier.Has(page.key, part)) {
        const Outcome outcome = ReadNow(tier, options, page.key, part);
        ++(outcome == Outcome::kRight   ? outcomes.right
           : outcome == Outcome::kWrong ? outcomes.wrong
                                        : outcomes.missed);
      }
    }
  }
  return outcomes;
}

}  // namespace cachalot
