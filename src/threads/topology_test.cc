#include "threads/topology.h"

#include <gmock/gmock.h>

#include "threads/affinity.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> Cpus(const std::vector<HardwareThread>& order) {
  std::vector<int> cpus;
  for (const HardwareThread& thread : order) {
    cpus.push_back(thread.cpu);
  }
  return cpus;
}

// Processors 0 and 1 are one core, 0 to 3 one node.
const CpuTopology& TwoNodes() {
  static const CpuTopology topology = CpuTopology::Synthetic("node:2 core:2 pu:2");
  return topology;
}

TEST(CpuTopology, TakesOneThreadOfEveryCoreFirst) {
  const auto order = TwoNodes().TeamOrder({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(Cpus(order), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(order, ElementsAre(HardwareThread{0, 0}, HardwareThread{2, 0}, HardwareThread{4, 1},
                                 HardwareThread{6, 1}, HardwareThread{1, 0}, HardwareThread{3, 0},
                                 HardwareThread{5, 1}, HardwareThread{7, 1}));
  EXPECT_EQ(TwoNodes().CountCores({0, 1, 2, 3, 4, 5, 6, 7}), 4);
}

TEST(CpuTopology, KeepsToWhatIsAllowed) {
  EXPECT_THAT(Cpus(TwoNodes().TeamOrder({1, 4, 5, 6})), ElementsAre(1, 4, 6, 5));
  EXPECT_EQ(TwoNodes().CountCores({1, 4, 5, 6}), 3);
  EXPECT_THAT(TwoNodes().TeamOrder({}), IsEmpty());
  EXPECT_THAT(TwoNodes().TeamOrder({40}), IsEmpty());
}

TEST(CpuTopology, FollowsNodesWhateverTheSystemNumbersItsProcessors) {
  const CpuTopology interleaved = CpuTopology::Synthetic("node:2 pu:2(indexes=0,2,1,3)");
  EXPECT_THAT(interleaved.TeamOrder({0, 1, 2, 3}),
              ElementsAre(HardwareThread{0, 0}, HardwareThread{2, 0}, HardwareThread{1, 1},
                          HardwareThread{3, 1}));
  EXPECT_EQ(interleaved.CountCores({0, 1, 2, 3}), 4);
}

TEST(CpuTopology, OrdersAllThatThisThreadMayUse) {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  EXPECT_THAT(Cpus(CpuTopology::Machine().TeamOrder(allowed)),
              testing::UnorderedElementsAreArray(allowed));
}

}  // namespace
}  // namespace cachalot
