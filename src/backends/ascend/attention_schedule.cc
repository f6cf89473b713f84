#include "backends/ascend/attention_schedule.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace cachalot::ascend {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Of `rows` query rows against `keys` keys: cube tiles are 16 rows high and 64 keys wide.
int64_t TileCost(int64_t rows, int64_t keys) {
  return 6 * CeilDiv(rows, 16) + 10 * CeilDiv(keys, 64);
}

struct Row {
  int64_t cost = 0;
  int64_t last = 0;    // cost of its last key block
  int64_t blocks = 0;  // of keys
};

struct Request {
  int64_t tokens = 0;
  int64_t keys = 0;
  int64_t rows = 0;
  int64_t cost = 0;
  int64_t last = 0;  // cost of the last key block of its last row that has any
};

// The blocks of `length` keys in a row: adds their cost and says what the last of them costs.
int64_t AddBlocks(const ScheduleProblem& problem, int64_t query_rows, int64_t length, Row& row) {
  if (length == 0) {
    return 0;
  }
  const int64_t tail = length % problem.tile_keys;
  const int64_t full = length / problem.tile_keys;
  const int64_t full_cost = TileCost(query_rows, problem.tile_keys);
  const int64_t tail_cost = tail > 0 ? TileCost(query_rows, tail) : 0;
  row.cost += full * full_cost + tail_cost;
  row.blocks += full + (tail > 0 ? 1 : 0);
  return tail > 0 ? tail_cost : full_cost;
}

Row RowOf(const ScheduleProblem& problem, const Request& request, int64_t index) {
  const int64_t tile = problem.tile_rows;
  const int64_t tail = request.tokens * problem.heads % tile;
  const int64_t query_rows = index == request.rows - 1 && tail != 0 ? tail : tile;
  const int64_t first_token = index * tile / problem.heads;
  const int64_t last_token =
      (std::min((index + 1) * tile, request.tokens * problem.heads) - 1) / problem.heads;
  const int64_t first_position = request.keys - request.tokens + first_token;
  const int64_t last_position = request.keys - request.tokens + last_token;
  const int64_t last_key = request.keys - 1;
  int64_t begin = problem.window_left < 0 ? 0 : first_position - problem.window_left;
  int64_t end = problem.window_right < 0 ? last_key : last_position + problem.window_right;

  Row row;
  int64_t last_of_window = 0;
  if (begin > last_key || end < 0 || end < begin) {
    end = 0;
  } else {
    begin = std::clamp<int64_t>(begin, 0, last_key);
    end = std::clamp<int64_t>(end, 0, last_key);
    if (problem.has_window) {
      last_of_window = AddBlocks(problem, query_rows, end - begin + 1, row);
    }
  }
  int64_t entries = problem.ratio > 0 ? (end + 1) / problem.ratio : 0;
  if (problem.top_k > 0) {
    entries = std::min(entries, problem.top_k);
  }
  const int64_t last_of_entries = AddBlocks(problem, query_rows, entries, row);
  row.last = entries > 0 ? last_of_entries : last_of_window;
  return row;
}

class Scheduler {
 public:
  Scheduler(const ScheduleProblem& problem, std::span<const int32_t> query_starts,
            std::span<const int32_t> kv_lengths)
      : problem_(problem) {
    requests_.reserve(kv_lengths.size());
    for (size_t b = 0; b < kv_lengths.size(); ++b) {
      requests_.push_back(Measure(query_starts[b + 1] - query_starts[b], kv_lengths[b]));
      cost_left_ += requests_.back().cost;
    }
  }

  Schedule Build() {
    Schedule schedule = {};
    if (cost_left_ == 0) {
      request_ = requests_.size();
      Emit(schedule, 0, 0, 0);
      return schedule;
    }
    request_left_ = requests_[0].cost;
    for (int64_t core = 0; core < problem_.cores && !done(); ++core) {
      const size_t start_request = request_;
      const int64_t start_row = row_;
      cost_left_ -= Fill(std::max(cost_left_ / (problem_.cores - core), largest_row_));
      Emit(schedule, core, start_request, start_row);
    }
    return schedule;
  }

 private:
  bool done() const { return request_ == requests_.size(); }

  Request Measure(int64_t tokens, int64_t keys) {
    Request request;
    if (tokens == 0 || keys == 0) {
      return request;
    }
    request.tokens = tokens;
    request.keys = keys;
    request.rows = CeilDiv(tokens * problem_.heads, problem_.tile_rows);
    for (int64_t i = 0; i < request.rows; ++i) {
      const Row row = RowOf(problem_, request, i);
      request.cost += row.cost;
      largest_row_ = std::max(largest_row_, row.cost);
      if (row.blocks > 0) {
        request.last = row.last;
      }
    }
    return request;
  }

  void NextRequest() {
    ++request_;
    row_ = 0;
    request_left_ = done() ? 0 : requests_[request_].cost;
  }

  // Gives one core whole requests, then whole rows, as long as less than half of the last key block
  // goes beyond the limit. Returns what it took.
  int64_t Fill(int64_t limit) {
    int64_t taken = 0;
    while (!done() &&
           (request_left_ == 0 || limit + requests_[request_].last / 2 >= taken + request_left_)) {
      taken += request_left_;
      NextRequest();
    }
    while (!done() && row_ < requests_[request_].rows) {
      const Row row = RowOf(problem_, requests_[request_], row_);
      if (limit + row.last / 2 < taken + row.cost) {
        break;
      }
      taken += row.cost;
      request_left_ -= row.cost;
      do {
        ++row_;
      } while (row_ < requests_[request_].rows &&
               RowOf(problem_, requests_[request_], row_).blocks == 0);
    }
    return taken;
  }

  void Emit(Schedule& schedule, int64_t core, size_t start_request, int64_t start_row) const {
    int32_t* words = schedule.data() + core * kScheduleCoreWords;
    words[0] = 1;
    words[1] = static_cast<int32_t>(start_request);
    words[2] = static_cast<int32_t>(start_row);
    words[4] = static_cast<int32_t>(request_);
    words[5] = static_cast<int32_t>(row_);
  }

  const ScheduleProblem& problem_;
  std::vector<Request> requests_;
  int64_t largest_row_ = 0;
  int64_t cost_left_ = 0;
  // What the next core starts with.
  size_t request_ = 0;
  int64_t row_ = 0;
  int64_t request_left_ = 0;  // cost
};

}  // namespace

Schedule BuildSchedule(const ScheduleProblem& problem, std::span<const int32_t> query_starts,
                       std::span<const int32_t> kv_lengths) {
  CACHALOT_CHECK_EQ(query_starts.size(), kv_lengths.size() + 1);
  CACHALOT_CHECK(problem.heads > 0 && problem.tile_rows > 0 && problem.tile_keys > 0);
  CACHALOT_CHECK(problem.cores > 0 && problem.cores <= kScheduleCores, "{} cores", problem.cores);
  return Scheduler(problem, query_starts, kv_lengths).Build();
}

}  // namespace cachalot::ascend
