// Runs that go on on another device than they began on, without one: a checkpoint and a
// configuration are made to look as a GPU would have left them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs.h"

namespace nru::training {
namespace {

using ::testing::StartsWith;

class MovedRuns : public ::testing::Test {
 protected:
  RunConfig config(int updates) const {
    return small_copy("lstm", {"cell.hidden_size=5", "updates=" + std::to_string(updates),
                               "out=" + (directory_ / "run").string()});
  }
  std::string stored() const { return test::read_bytes(paths().config()); }
  void store_device(RunConfig config, const std::string& device) const {
    config.device = device;
    test::write_bytes(paths().config(), to_toml(config));
  }
  RunPaths paths() const { return {directory_ / "run"}; }

  test::TempDir directory_;
};

TEST_F(MovedRuns, SayWhereTheyWereTrained) {
  const std::string here = finish(config(30)).result.device;
  EXPECT_THAT(here, StartsWith("cpu"));
  {
    Network setup(config(30));
    Optimizer optimizer({}, 1.0, 1, setup.parameters);
    TrainingState state;
    load_checkpoint(paths().checkpoint(), setup.parameters, optimizer, state);
    EXPECT_EQ(state.trained_on, here);
    state.trained_on = "cuda (NVIDIA H200)";
    save_checkpoint(paths().checkpoint(), setup.parameters, optimizer, state);
  }
  store_device(config(30), "cuda");
  const std::string both = "cuda (NVIDIA H200), from update 31 on " + here;
  EXPECT_EQ(finish(config(40), true).result.device, both);
  EXPECT_EQ(finish(config(50), true).result.device, both);
  EXPECT_EQ(stored(), to_toml(config(50)));
}

// Nothing is trained there, so nothing is written down.
TEST_F(MovedRuns, AreNotThoseThatAreComplete) {
  finish(config(30));
  store_device(config(30), "cuda");
  const std::string before = stored();
  const Trainer again(config(30), true);
  EXPECT_EQ(stored(), before);
}

}  // namespace
}  // namespace nru::training
