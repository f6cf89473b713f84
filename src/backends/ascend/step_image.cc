#include "backends/ascend/step_image.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kGap = 32;  // kernels read past an end, in blocks of so many bytes

int64_t Overlap(int64_t ratio) { return ratio == 4 ? 2 : 1; }

// Where one compressor keeps the state of positions, and which table names the pages.
struct StatePlaces {
  const StepPageTable& pages;
  StepStateRows rows;
  bool page_zero_is_none;

  bool paged() const { return rows.span == rows.rows; }
  // A row that stays clear. Paged state has them in page 0, whose first row takes what is not kept.
  int32_t none() const { return static_cast<int32_t>(paged() ? rows.rows - 1 : rows.num_rows - 1); }
  int32_t RowOf(int64_t request, int64_t position) const {
    const int64_t column = position / rows.span;
    if (position < 0 || column >= pages.columns) {
      return none();
    }
    const int32_t page = pages.at(request, column);
    if (page == 0 && (page_zero_is_none || paged())) {
      return none();
    }
    return static_cast<int32_t>(page * rows.rows + position % rows.rows);
  }
};

// Whether a token sees keys behind its own position, as those of a block of drafts do.
bool SeesAhead(const StepMetadata& step) {
  for (size_t t = 0; t < step.positions.size(); ++t) {
    if (step.key_end[t] > step.positions[t] + 1) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::span<const int32_t> StepImage::Ints(const StepField& field) const {
  return {reinterpret_cast<const int32_t*>(bytes_.data() + field.offset),
          static_cast<size_t>(field.shape.num_elements())};
}

int32_t* StepImage::MutableInts(const StepField& field) {
  return reinterpret_cast<int32_t*>(bytes_.data() + field.offset);
}

float* StepImage::MutableFloats(const StepField& field) {
  return reinterpret_cast<float*>(bytes_.data() + field.offset);
}

// Elements are four bytes wide, all of them.
StepField StepImage::Take(const Shape& shape) {
  const StepField field = {used_, shape};
  const int64_t bytes = shape.num_elements() * 4 + kGap;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return field;
}

RotaryRows& StepImage::RowsOf(const RopeTable& table) {
  for (const auto& rows : rotary_rows_) {
    if (rows->frequencies() == table.frequencies.data()) {
      return *rows;
    }
  }
  rotary_rows_.push_back(std::make_unique<RotaryRows>(table));
  return *rotary_rows_.back();
}

void StepImage::Build(const StepMetadata& step) {
  LayOut(step);
  bytes_.assign(static_cast<size_t>(used_), std::byte{0});
  if (fields_.block) {
    FillBlock(step);
  } else {
    FillRequests(step);
  }
  int32_t* slots = MutableInts(fields_.window_slots);
  for (const int32_t slot : step.window_slots) {
    *slots++ = static_cast<int32_t>(slot / step.window_page_rows);
    *slots++ = static_cast<int32_t>(slot % step.window_page_rows);
  }
  FillRotary(step);
  FillCompression(step, fields_.c4);
  FillCompression(step, fields_.c128);
  if (options_.host_schedules) {
    FillSchedules();
  }
}

void StepImage::LayOut(const StepMetadata& step) {
  used_ = 0;
  fields_ = {};
  StepFields& f = fields_;
  f.tokens = step.num_tokens();
  f.block = SeesAhead(step);
  f.requests = f.block ? f.tokens : step.num_requests();
  f.shape = step.shape;
  f.window_page_rows = step.window_page_rows;
  f.window_left = step.shape.window - 1;
  f.most_tokens = 1;
  for (int64_t b = 0; !f.block && b < f.requests; ++b) {
    const auto i = static_cast<size_t>(b);
    f.most_tokens =
        std::max<int64_t>(f.most_tokens, step.query_starts[i + 1] - step.query_starts[i]);
  }
  f.query_starts = Take({f.requests + 1});
  f.query_ends = Take({f.requests});
  f.kv_lengths = Take({f.requests});
  f.new_tokens = Take({f.requests});
  f.start_pos = Take({f.requests});
  f.window_slots = Take({f.tokens, 2});
  if (f.block) {
    CACHALOT_CHECK(!step.shape.has_c4 && !step.shape.has_c128, "a block of drafts with entries");
    f.window_pages = Take({f.requests, step.window_pages.columns});
  }
  f.window_schedule = Take({kScheduleWords});
  f.c4_schedule = Take({kScheduleWords});
  f.c128_schedule = Take({kScheduleWords});
  f.index_schedule = Take({kScheduleWords});
  const StepShape& shape = step.shape;
  const struct {
    const RopeTable& table;
    bool needed;
  } tables[] = {
      {shape.rope, true}, {shape.rope_c4, shape.has_c4}, {shape.rope_c128, shape.has_c128}};
  for (const auto& [table, needed] : tables) {
    const bool known = std::ranges::any_of(f.rotary, [&](const RotaryFields& fields) {
      return fields.frequencies == table.frequencies.data();
    });
    if (needed && !known && table.dim > 0) {
      const Shape rows = {f.tokens, table.dim};
      f.rotary.push_back({.frequencies = table.frequencies.data(),
                          .dim = table.dim,
                          .cos = Take(rows),
                          .sin = Take(rows),
                          .minus_sin = Take(rows)});
    }
  }
  if (shape.has_c4) {
    LayOut(f.c4, 4, shape.rope_c4.dim);
  }
  if (shape.has_c128) {
    LayOut(f.c128, 128, shape.rope_c128.dim);
  }
}

void StepImage::LayOut(CompressionFields& c, int64_t ratio, int64_t rope_dim) {
  const int64_t tokens = fields_.tokens;
  const int64_t requests = fields_.requests;
  const int64_t pooled = Overlap(ratio) * ratio;
  const int64_t entries = std::min(tokens, tokens / ratio + requests);
  c.ratio = ratio;
  c.cos = Take({entries, rope_dim});
  c.sin = Take({entries, rope_dim});
  c.slots = Take({entries, 2});
  c.state_rows = Take({requests, pooled + fields_.most_tokens});
  c.residual = Take({requests});
  c.lengths = Take({requests});
  c.history = Take({requests * pooled});
  c.entry_rows = Take({entries * pooled});
  c.ape_rows = Take({tokens});
  c.kept_rows = Take({tokens});
}

void StepImage::FillRequests(const StepMetadata& step) {
  const auto requests = static_cast<size_t>(fields_.requests);
  int32_t* starts = MutableInts(fields_.query_starts);
  int32_t* ends = MutableInts(fields_.query_ends);
  int32_t* kv_lengths = MutableInts(fields_.kv_lengths);
  int32_t* new_tokens = MutableInts(fields_.new_tokens);
  int32_t* start_pos = MutableInts(fields_.start_pos);
  auto nobodys =
      static_cast<int32_t>(fields_.tokens) - (requests > 0 ? step.query_starts[requests] : 0);
  for (size_t b = 0; b < requests; ++b) {
    const int32_t count = step.query_starts[b + 1] - step.query_starts[b];
    const int32_t padding = count == 0 && nobodys > 0 ? 1 : 0;
    nobodys -= padding;
    starts[b + 1] = ends[b] = starts[b] + count + padding;
    start_pos[b] = step.start_pos[b];
    new_tokens[b] = count;
    kv_lengths[b] = std::max(step.start_pos[b] + count, 1);
    fields_.longest = std::max<int64_t>(fields_.longest, kv_lengths[b]);
  }
  CACHALOT_CHECK(nobodys == 0, "{} tokens of a step belong to no request", nobodys);
}

// The last of a token's keys stands for its position, and the window goes back from there.
void StepImage::FillBlock(const StepMetadata& step) {
  int32_t* table = MutableInts(fields_.window_pages);
  const int64_t columns = step.window_pages.columns;
  for (int64_t b = 0; b < step.num_requests(); ++b) {
    for (auto t = step.query_starts[static_cast<size_t>(b)];
         t < step.query_starts[static_cast<size_t>(b) + 1]; ++t) {
      const auto i = static_cast<size_t>(t);
      const int32_t begin = step.key_begin[i];
      const int32_t end = step.key_end[i];
      MutableInts(fields_.query_starts)[t + 1] = MutableInts(fields_.query_ends)[t] = t + 1;
      MutableInts(fields_.kv_lengths)[t] = end;
      MutableInts(fields_.new_tokens)[t] = 1;
      MutableInts(fields_.start_pos)[t] = end - 1;
      table = std::copy_n(step.window_pages.values.begin() + b * columns, columns, table);
      fields_.longest = std::max<int64_t>(fields_.longest, end);
      fields_.window_left =
          t == 0 ? end - 1 - begin : std::max<int64_t>(fields_.window_left, end - 1 - begin);
    }
  }
  for (size_t t = 0; t < step.ids.size(); ++t) {
    const int64_t first = std::max<int64_t>(step.key_end[t] - 1 - fields_.window_left, 0);
    CACHALOT_CHECK_EQ(first, step.key_begin[t]);
  }
}

void StepImage::FillRotary(const StepMetadata& step) {
  const StepShape& shape = step.shape;
  for (const RotaryFields& fields : fields_.rotary) {
    RotaryRows* rows = nullptr;
    for (const RopeTable& table : {shape.rope, shape.rope_c4, shape.rope_c128}) {
      if (table.frequencies.data() == fields.frequencies) {
        rows = &RowsOf(table);
      }
    }
    float* cos = MutableFloats(fields.cos);
    float* sin = MutableFloats(fields.sin);
    for (const int32_t position : step.positions) {
      rows->Fill(position, cos, sin);
      cos += fields.dim;
      sin += fields.dim;
    }
    const int64_t count = fields_.tokens * fields.dim;
    std::transform(MutableFloats(fields.sin), MutableFloats(fields.sin) + count,
                   MutableFloats(fields.minus_sin), [](float value) { return -value; });
  }
}

void StepImage::FillCompression(const StepMetadata& step, CompressionFields& c) {
  if (c.ratio == 0) {
    return;
  }
  const int64_t ratio = c.ratio;
  const bool is_c4 = ratio == 4;
  const int64_t pooled = Overlap(ratio) * ratio;
  const int64_t requests = fields_.requests;
  c.page_entries = is_c4 ? step.c4_page_entries : step.c128_page_entries;
  const std::span<const int32_t> slots = is_c4 ? step.c4_slots : step.c128_slots;
  const StatePlaces state = {is_c4 ? step.c4_state_pages : step.c128_state_pages,
                             is_c4 ? step.c4_state : step.c128_state, is_c4};
  RotaryRows& rows = RowsOf(is_c4 ? step.shape.rope_c4 : step.shape.rope_c128);
  const std::span<const int32_t> starts = query_starts();
  const std::span<const int32_t> start_pos = Ints(fields_.start_pos);
  const std::span<const int32_t> new_tokens = Ints(fields_.new_tokens);
  float* cos = MutableFloats(c.cos);
  float* sin = MutableFloats(c.sin);
  int32_t* entry_slots = MutableInts(c.slots);
  int32_t* entry_rows = MutableInts(c.entry_rows);
  int32_t* state_rows = MutableInts(c.state_rows);
  int32_t* history = MutableInts(c.history);
  int32_t* ape_rows = MutableInts(c.ape_rows);
  int32_t* kept_rows = MutableInts(c.kept_rows);
  for (int64_t b = 0; b < requests; ++b) {
    const auto i = static_cast<size_t>(b);
    const int64_t start = start_pos[i];
    const int64_t end = start + new_tokens[i];
    MutableInts(c.residual)[b] = static_cast<int32_t>(kv_lengths()[i] % ratio);
    MutableInts(c.lengths)[b] = static_cast<int32_t>(kv_lengths()[i] / ratio);
    // A padding request keeps nothing, and reads nothing.
    for (int64_t column = 0; column < c.state_rows.shape[1]; ++column) {
      const int64_t position = start - pooled + column;
      const bool there = new_tokens[i] > 0 && position < end;
      const int32_t row = there ? state.RowOf(b, position) : state.none();
      *state_rows++ = row;
      if (column < pooled) {
        *history++ = row;
      }
    }
    // The last token of the step that has a ring's row keeps it.
    std::unordered_set<int32_t> taken;
    for (int64_t position = end - 1; position >= start; --position) {
      const int64_t t = starts[i] + position - start;
      const int32_t row = state.RowOf(b, position);
      kept_rows[t] = taken.insert(row).second && row != state.none() ? row : 0;
      ape_rows[t] = static_cast<int32_t>(position % ratio);
    }
    for (int64_t entry = start / ratio; entry < end / ratio; ++entry) {
      rows.Fill(entry * ratio, cos, sin);
      cos += c.cos.shape[1];
      sin += c.sin.shape[1];
      const int32_t slot = slots[static_cast<size_t>(c.closed++)];
      *entry_slots++ = static_cast<int32_t>(slot / c.page_entries);
      *entry_slots++ = static_cast<int32_t>(slot % c.page_entries);
      for (int64_t row = 0; row < pooled; ++row) {
        const int64_t position = (entry + 1) * ratio - pooled + row;
        *entry_rows++ = static_cast<int32_t>(position >= start
                                                 ? requests * pooled + starts[i] + position - start
                                                 : b * pooled + position - (start - pooled));
      }
    }
  }
  // Padding: pools the first token's row, turns by nothing, and lands in page 0.
  for (int64_t entry = c.closed; entry < c.slots.shape[0]; ++entry) {
    rows.Fill(0, cos, sin);
    cos += c.cos.shape[1];
    sin += c.sin.shape[1];
    *entry_slots++ = 0;
    *entry_slots++ = static_cast<int32_t>((entry - c.closed) % c.page_entries);
    std::fill_n(entry_rows, pooled, static_cast<int32_t>(requests * pooled));
    entry_rows += pooled;
  }
}

void StepImage::FillSchedules() {
  const StepShape& shape = fields_.shape;
  const auto put = [&](const StepField& field, const ScheduleProblem& problem) {
    const Schedule schedule = BuildSchedule(problem, query_starts(), kv_lengths());
    std::memcpy(MutableInts(field), schedule.data(), sizeof(schedule));
  };
  ScheduleProblem problem = {.heads = shape.heads,
                             .tile_rows = shape.heads,
                             .cores = options_.cores,
                             .window_left = fields_.window_left};
  put(fields_.window_schedule, problem);
  if (shape.has_c128) {
    problem.ratio = 128;
    put(fields_.c128_schedule, problem);
  }
  if (shape.has_c4) {
    problem.ratio = 4;
    problem.top_k = shape.top_k;
    put(fields_.c4_schedule, problem);
    put(fields_.index_schedule, {.heads = shape.index_heads,
                                 .tile_rows = shape.index_heads,
                                 .cores = options_.cores,
                                 .window_left = -1,
                                 .has_window = false,
                                 .ratio = 4});
  }
}

}  // namespace cachalot::ascend
