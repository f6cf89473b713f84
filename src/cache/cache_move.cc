#include "cache/cache_move.h"

#include <fmt/format.h>

namespace cachalot {
namespace {

std::string TextOf(const PagePlace& place) {
  return fmt::format("{}/{}/{}.{}", place.full, place.swa, place.c128, place.c128_row);
}

struct Writer {
  std::string operator()(const ClearRequest& move) const {
    return fmt::format("clear {}", move.slot);
  }
  std::string operator()(const CopyEntries& move) const {
    return fmt::format("entries {} {} {}+{}", move.from, move.to, move.begin, move.count);
  }
  std::string operator()(const ToHost& move) const {
    return fmt::format("to-host {} {} {}", NameOf(move.part), TextOf(move.from), move.to);
  }
  std::string operator()(const FromHost& move) const {
    return fmt::format("from-host {} {} {}", NameOf(move.part), move.from, TextOf(move.to));
  }
  std::string operator()(const ToDisk& move) const {
    return fmt::format("to-disk {} {} {}", NameOf(move.part), TextOf(move.from),
                       HexOf(move.page->key));
  }
  std::string operator()(const UseOnDisk& move) const {
    return fmt::format("use-on-disk {}", HexOf(move.key));
  }
};

}  // namespace

std::string TextOf(const CacheMove& move) { return std::visit(Writer(), move); }

}  // namespace cachalot
