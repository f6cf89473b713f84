#include "same_tokens/requests.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <future>
#include <random>

#include "base/check.h"

namespace cachalot {
namespace {

constexpr int64_t kTopLogprobs = 3;

std::vector<int32_t> RandomIds(std::mt19937& random, int64_t count, int64_t vocab_size) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
  }
  return ids;
}

int64_t RandomLength(std::mt19937& random, int64_t longest) {
  const double share = static_cast<double>(random()) / 4294967296.0;
  return static_cast<int64_t>(std::exp(share * std::log(static_cast<double>(longest + 1))));
}

SamplingParams RandomSampling(std::mt19937& random, int64_t vocab_size) {
  SamplingParams sampling;
  sampling.temperature = random() % 2 == 0 ? 0 : 0.9;
  sampling.seed = random();
  sampling.top_p = random() % 3 == 0 ? 0.9 : 1;
  sampling.top_k = random() % 3 == 0 ? 20 : 0;
  if (random() % 4 == 0) {
    sampling.frequency_penalty = 0.5;
    sampling.repetition_penalty = 1.2;
  }
  if (random() % 8 == 0) {
    sampling.logit_bias = {{static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)), 5}};
  }
  sampling.stop_ids = {1};
  sampling.min_new_tokens = random() % 4;
  return sampling;
}

// Writes the answer down, and aborts when it is time.
class Recorder final : public RequestListener {
 public:
  Recorder(MatrixAnswer& answer, int64_t abort_after, std::promise<void> done)
      : answer_(answer), abort_after_(abort_after), done_(std::move(done)) {}

  std::function<void()> abort;  // set before the first token

  bool OnToken(const GeneratedToken& token) override {
    answer_.ids.push_back(token.id);
    const auto add = [&](float value) {
      answer_.logprob_bits.push_back(std::bit_cast<uint32_t>(value));
    };
    add(token.logprobs->chosen.logprob);
    for (const TokenLogprob& top : token.logprobs->top) {
      add(top.logprob);
      add(static_cast<float>(top.id));
    }
    if (static_cast<int64_t>(answer_.ids.size()) == abort_after_) {
      abort();
    }
    return true;
  }
  void OnEnd(EndReason reason, const RequestUsage&) override {
    answer_.ended = reason == EndReason::kStopped || reason == EndReason::kLength;
    done_.set_value();
  }

 private:
  MatrixAnswer& answer_;
  const int64_t abort_after_;
  std::promise<void> done_;
};

}  // namespace

std::vector<MatrixRequest> MakeMatrixRequests(const MatrixLoad& load) {
  std::mt19937 random(load.seed);
  std::vector<std::vector<int32_t>> beginnings;
  for (int i = 0; i < 3; ++i) {
    beginnings.push_back(RandomIds(random, load.longest * 2 / 3, load.vocab_size));
  }
  std::vector<MatrixRequest> requests;
  for (int64_t i = 0; i < load.count; ++i) {
    MatrixRequest request;
    const uint32_t kind = random() % 10;
    if (kind < 4) {
      const auto& beginning = beginnings[random() % beginnings.size()];
      request.prompt.assign(
          beginning.begin(),
          beginning.begin() + static_cast<std::ptrdiff_t>(random() % beginning.size()));
    } else if (kind < 6 && !requests.empty()) {
      const auto& from = requests[random() % requests.size()].prompt;
      request.prompt.assign(from.begin(),
                            from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
    }
    const int64_t own =
        RandomLength(random, load.longest - static_cast<int64_t>(request.prompt.size()));
    const auto ids = RandomIds(random, own, load.vocab_size);
    request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
    request.sampling = RandomSampling(random, load.vocab_size);
    request.max_new_tokens = random() % 24 + 1;
    request.abort_after = random() % 10 == 0 ? random() % 6 + 1 : -1;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<MatrixAnswer> Answer(Engine& engine, const std::vector<MatrixRequest>& requests) {
  std::vector<MatrixAnswer> answers(requests.size());
  std::vector<std::future<void>> ends;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::promise<void> done;
    ends.push_back(done.get_future());
    auto recorder =
        std::make_unique<Recorder>(answers[i], requests[i].abort_after, std::move(done));
    // The id is known after Submit, which the first token may overtake.
    auto id = std::make_shared<std::promise<RequestId>>();
    recorder->abort = [&engine, id_of = id->get_future().share()] { engine.Cancel(id_of.get()); };
    EngineRequest request;
    request.prompt = requests[i].prompt;
    request.sampling = requests[i].sampling;
    request.max_new_tokens = requests[i].max_new_tokens;
    request.top_logprobs = kTopLogprobs;
    request.listener = std::move(recorder);
    const auto submitted = engine.Submit(std::move(request));
    CACHALOT_CHECK(submitted.has_value(), "{}", submitted ? "" : submitted.error().message);
    id->set_value(*submitted);
  }
  for (std::future<void>& end : ends) {
    end.wait();
  }
  return answers;
}

std::string Difference(const std::vector<MatrixRequest>& requests,
                       const std::vector<MatrixAnswer>& expected,
                       const std::vector<MatrixAnswer>& found) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const MatrixAnswer& a = expected[i];
    const MatrixAnswer& b = found[i];
    const size_t common = std::min(a.ids.size(), b.ids.size());
    const size_t bits = std::min(a.logprob_bits.size(), b.logprob_bits.size());
    const bool begins_alike =
        std::equal(a.ids.begin(), a.ids.begin() + static_cast<std::ptrdiff_t>(common),
                   b.ids.begin()) &&
        std::equal(a.logprob_bits.begin(),
                   a.logprob_bits.begin() + static_cast<std::ptrdiff_t>(bits),
                   b.logprob_bits.begin());
    const bool aborted = requests[i].abort_after >= 0;
    const bool long_enough =
        !aborted || b.ended || static_cast<int64_t>(b.ids.size()) >= requests[i].abort_after;
    if (!begins_alike || !long_enough || (!aborted && a != b)) {
      return fmt::format("request {} ({} tokens): {} tokens of answer, expected {}, {}", i,
                         requests[i].prompt.size(), b.ids.size(), a.ids.size(),
                         begins_alike ? "which begin alike" : "which differ");
    }
  }
  return {};
}

}  // namespace cachalot
