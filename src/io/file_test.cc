#include "io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace cachalot {
namespace {

std::string WriteBytes(const std::string& name, size_t size) {
  const std::string path = testing::TempDir() + name;
  std::ofstream out(path, std::ios::binary);
  for (size_t i = 0; i < size; ++i) {
    out.put(static_cast<char>(i * 2654435761U >> 11));
  }
  return path;
}

std::string TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, StaysInPlaceWhenItBecomesACopy) {
  for (const size_t size : {0, 1, 4096, 5000, (3 << 20) + 17}) {
    const std::string path = WriteBytes("mapped_file", size);
    auto file = MappedFile::Open(path);
    ASSERT_TRUE(file);
    const std::string wanted = TextOf(*file);
    EXPECT_EQ(wanted.size(), size);
    const std::byte* data = file->bytes().data();
    auto copy = file->NewCopy();
    ASSERT_TRUE(copy);
    const auto half = static_cast<int64_t>(size / 2);
    ASSERT_TRUE(copy->Read(half, static_cast<int64_t>(size)));
    ASSERT_TRUE(copy->Read(0, half));
    ASSERT_TRUE(file->Adopt(*std::move(copy)));
    std::filesystem::resize_file(path, 0);  // the copy is on its own
    EXPECT_EQ(file->bytes().data(), data);
    EXPECT_TRUE(TextOf(*file) == wanted) << size;
  }
}

TEST(MappedFile, SaysWhereAFileEndsTooSoon) {
  const std::string path = WriteBytes("short_file", 10000);
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file);
  auto copy = file->NewCopy();
  ASSERT_TRUE(copy);
  std::filesystem::resize_file(path, 6000);
  const auto status = copy->Read(0, 10000);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, testing::HasSubstr("ends at byte 6000, expected 10000"));
}

TEST(MappedFile, NamesWhatCannotBeOpened) {
  const auto missing = MappedFile::Open("/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("/no/such/file: cannot open"));
  const auto folder = MappedFile::Open("/tmp");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, testing::HasSubstr("not a regular file"));
}

Status Write(OutputFile& file, std::string_view text) {
  return file.Write(std::as_bytes(std::span(text)));
}

TEST(OutputFile, GoesOnWhereItWasTold) {
  const std::string path = testing::TempDir() + "continued_file";
  auto fresh = OutputFile::Create(path);
  ASSERT_TRUE(fresh && Write(*fresh, "whole\ntorn") && fresh->Close());
  auto further = OutputFile::Continue(path, 6);
  ASSERT_TRUE(further && Write(*further, "new\n") && further->Close());
  EXPECT_EQ(*ReadFile(path, 100), "whole\nnew\n");

  EXPECT_THAT(OutputFile::Continue(path, 11).error().message,
              testing::HasSubstr("continued_file: 10 bytes, expected 11 to go on behind"));
  EXPECT_EQ(OutputFile::Continue("/no/such/file", 0).error().code, StatusCode::kNotFound);
}

}  // namespace
}  // namespace cachalot
