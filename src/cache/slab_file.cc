#include "cache/slab_file.h"

#include "base/check.h"
#include "cache/disk_format.h"

namespace cachalot {

int64_t SlabFile::OffsetOf(int64_t slab) const {
  return kSlabsBegin + slab * SlabBytes(part_bytes_);
}

Status SlabFile::Write(int64_t slab, const PageKey& key, std::span<const std::byte> payload,
                       const Digest& digest) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(payload.size()), part_bytes_);
  const SlabHeader header = {key, digest};
  CACHALOT_RETURN_IF_ERROR(file_.Write(OffsetOf(slab), BytesOf(header)));
  return file_.Write(OffsetOf(slab) + static_cast<int64_t>(sizeof(header)), payload);
}

Status SlabFile::Read(int64_t slab, const PageKey& key, const Digest& digest,
                      std::span<std::byte> into) const {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(into.size()), part_bytes_);
  SlabHeader header;
  CACHALOT_RETURN_IF_ERROR(
      file_.Read(OffsetOf(slab), std::as_writable_bytes(std::span(&header, 1))));
  // Before the payload: a slab that another process has filled anew costs no more than this.
  if (header.key != key || header.payload != digest) {
    return MakeError(StatusCode::kDataLoss, "{}: slab {} holds another page than {}", file_.path(),
                     slab, HexOf(key));
  }
  CACHALOT_RETURN_IF_ERROR(file_.Read(OffsetOf(slab) + static_cast<int64_t>(sizeof(header)), into));
  if (DigestOf({into}) != digest) {
    return MakeError(StatusCode::kDataLoss, "{}: slab {} of page {} is damaged", file_.path(), slab,
                     HexOf(key));
  }
  return {};
}

Status SlabFile::Limit(int64_t num_slabs) {
  return file_.size() > OffsetOf(num_slabs) ? file_.Truncate(OffsetOf(num_slabs)) : Status();
}

}  // namespace cachalot
