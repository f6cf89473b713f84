// The bytes of the disk tier's files, little endian (docs/disk-cache.md). All begin with a
// FileHeader. Slab files go on with slabs of one size; the index goes on with records.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "cache/ids.h"
#include "cache/page_key.h"
#include "cache/page_part.h"
#include "io/digest.h"

namespace cachalot {

static_assert(std::endian::native == std::endian::little, "files are little endian");

// The last field of header and records: the beginning of the digest of all bytes before it.
using Seal = std::array<uint8_t, 16>;

enum class FileKind : uint32_t { kHistorySlabs, kWindowSlabs, kIndex };

struct FileHeader {
  std::array<char, 8> magic = {'c', 'a', 'c', 'h', 'a', 'l', 'o', 't'};
  uint32_t version = 1;
  FileKind kind{};
  std::array<int64_t, 2> part_bytes{};
  PageKey root;
  Seal seal{};

  bool operator==(const FileHeader&) const = default;
};

enum class RecordKind : uint32_t { kPut = 0x7475706b, kDelete = 0x6c65646b };

// The slab holds this part of this page.
struct PutRecord {
  RecordKind kind = RecordKind::kPut;
  uint32_t part = 0;  // PagePart
  int64_t slab = 0;
  PageIdentity page;
  Digest payload{};  // the digest of the part's bytes
  Seal seal{};
};

// The part of the page is gone; its slab may be overwritten from here on.
struct DeleteRecord {
  RecordKind kind = RecordKind::kDelete;
  uint32_t part = 0;
  int64_t slab = 0;
  PageKey key;
  Seal seal{};
};

// Before a slab's payload. Zeros up to kSlabsBegin are not written.
struct SlabHeader {
  PageKey key;
  Digest payload{};
};

// Records begin at multiples of kRecordCell, so that after a damaged one the next is found.
inline constexpr int64_t kRecordCell = 64;
inline constexpr int64_t kRecordsBegin = 128;
inline constexpr int64_t kSlabsBegin = 4096;
inline constexpr int64_t kSlabAlignment = 4096;

static_assert(sizeof(FileHeader) <= kRecordsBegin);
static_assert(sizeof(PutRecord) == 10 * kRecordCell && sizeof(DeleteRecord) == kRecordCell);
static_assert(sizeof(SlabHeader) == 64);

inline constexpr int64_t SlabBytes(int64_t part_bytes) {
  return RoundUpTo(static_cast<int64_t>(sizeof(SlabHeader)) + part_bytes, kSlabAlignment);
}

template <typename T>
std::span<const std::byte> BytesOf(const T& record) {
  static_assert(std::has_unique_object_representations_v<T>, "padding has no defined bytes");
  return std::as_bytes(std::span(&record, 1));
}

template <typename T>
Seal SealOf(const T& record) {
  static_assert(offsetof(T, seal) + sizeof(Seal) == sizeof(T));
  const Digest digest = DigestOf({BytesOf(record).first(sizeof(T) - sizeof(Seal))});
  Seal seal;
  std::memcpy(seal.data(), digest.data(), seal.size());
  return seal;
}

template <typename T>
T Sealed(T record) {
  record.seal = SealOf(record);
  return record;
}

}  // namespace cachalot
