// A step's metadata and tables for tests: requests of some length, in pages of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "device/step.h"

namespace cachalot::ascend {

class TestStep {
 public:
  static constexpr int64_t kPageRows = 128;
  static constexpr int64_t kC128Entries = 16;
  static constexpr StepStateRows kC4State = {kPageRows, 8, 1024};
  static constexpr StepStateRows kC128State = {std::numeric_limits<int32_t>::max(), 128, 1024};

  // Requests as (start_pos, new tokens), the first of them in page 1 of everything. Requests
  // without tokens at the end take one token each that belongs to nobody.
  TestStep(const StepShape& shape, const std::vector<std::pair<int32_t, int32_t>>& requests)
      : shape_(shape) {
    int32_t next_page = 1;
    int32_t slot = 1;
    const auto longest = std::ranges::max(
        requests, {}, [](const auto& request) { return request.first + request.second; });
    columns_ = (longest.first + longest.second + kPageRows - 1) / kPageRows;
    c128_columns_ = (columns_ + kC128Entries - 1) / kC128Entries;
    starts_.push_back(0);
    for (const auto& [start, count] : requests) {
      start_pos_.push_back(start);
      starts_.push_back(starts_.back() + count);
      std::vector<int32_t> pages(static_cast<size_t>(columns_));
      std::vector<int32_t> c128(static_cast<size_t>(c128_columns_));
      if (count > 0) {
        for (int64_t p = 0; p * kPageRows < start + count; ++p) {
          pages[static_cast<size_t>(p)] = next_page++;
        }
        for (int64_t p = 0; p * kC128Entries * 128 < start + count; ++p) {
          c128[static_cast<size_t>(p)] = next_c128_++;
        }
      }
      c128_state_pages_.push_back(count > 0 ? slot++ : 0);
      for (int32_t position = start; position < start + count; ++position) {
        positions_.push_back(position);
        const auto row = [&](const std::vector<int32_t>& table, int64_t rows, int64_t index) {
          return static_cast<int32_t>(table[static_cast<size_t>(index / rows)] * rows +
                                      index % rows);
        };
        window_slots_.push_back(row(pages, kPageRows, position));
        if (shape.has_c4 && position % 4 == 3) {
          c4_slots_.push_back(row(pages, kPageRows / 4, position / 4));
        }
        if (shape.has_c128 && position % 128 == 127) {
          c128_slots_.push_back(row(c128, kC128Entries, position / 128));
        }
      }
      pages_.insert(pages_.end(), pages.begin(), pages.end());
      c128_pages_.insert(c128_pages_.end(), c128.begin(), c128.end());
    }
    for (const auto& request : requests) {
      if (request.second == 0) {
        positions_.push_back(0);
        window_slots_.push_back(static_cast<int32_t>(positions_.size()) - 1);
      }
    }
    num_pages_ = next_page;
    ids_.resize(positions_.size());
    for (const int32_t position : positions_) {
      key_end_.push_back(position + 1);
      key_begin_.push_back(std::max<int32_t>(position + 1 - static_cast<int32_t>(shape.window), 0));
    }
  }

  StepMetadata metadata() const {
    return {.ids = ids_,
            .positions = positions_,
            .query_starts = starts_,
            .start_pos = start_pos_,
            .window_slots = window_slots_,
            .key_begin = key_begin_,
            .key_end = key_end_,
            .window_pages = {pages_, columns_},
            .c4_slots = c4_slots_,
            .c4_pages = {pages_, columns_},
            .c4_state_pages = {pages_, columns_},
            .c128_slots = c128_slots_,
            .c128_pages = {c128_pages_, c128_columns_},
            .c128_state_pages = {c128_state_pages_, 1},
            .window_page_rows = kPageRows,
            .c4_page_entries = kPageRows / 4,
            .c128_page_entries = kC128Entries,
            .c4_state = shape_.has_c4 ? kC4State : StepStateRows(),
            .c128_state = shape_.has_c128 ? kC128State : StepStateRows(),
            .shape = shape_};
  }

  int64_t tokens() const { return static_cast<int64_t>(positions_.size()); }
  int64_t requests() const { return static_cast<int64_t>(start_pos_.size()); }
  int64_t num_pages() const { return num_pages_; }  // page 0 included
  int64_t columns() const { return columns_; }
  int64_t c128_columns() const { return c128_columns_; }
  int64_t num_c128_pages() const { return next_c128_; }
  const std::vector<int32_t>& positions() const { return positions_; }
  const std::vector<int32_t>& query_starts() const { return starts_; }
  const std::vector<int32_t>& start_pos() const { return start_pos_; }
  const std::vector<int32_t>& window_slots() const { return window_slots_; }
  const std::vector<int32_t>& key_begin() const { return key_begin_; }
  const std::vector<int32_t>& key_end() const { return key_end_; }
  const std::vector<int32_t>& pages() const { return pages_; }
  const std::vector<int32_t>& c128_pages() const { return c128_pages_; }
  const std::vector<int32_t>& c128_state_pages() const { return c128_state_pages_; }
  const std::vector<int32_t>& c4_slots() const { return c4_slots_; }
  const std::vector<int32_t>& c128_slots() const { return c128_slots_; }

 private:
  StepShape shape_;
  int64_t columns_ = 0;
  int64_t c128_columns_ = 0;
  int64_t num_pages_ = 0;
  int32_t next_c128_ = 1;
  std::vector<int32_t> ids_, positions_, starts_, start_pos_, window_slots_, key_begin_, key_end_;
  std::vector<int32_t> pages_, c4_slots_, c128_slots_, c128_pages_, c128_state_pages_;
};

}  // namespace cachalot::ascend
