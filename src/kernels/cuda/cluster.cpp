// The cluster design as a path of a Sequence (persistent.h).
#include "kernels/cuda/cluster.h"

#include <any>

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kM = 2, kHeads = 3, kAux = 4;  // parts of the NRU's program (nru.cu)
constexpr int kHiddenPhase = 0, kHeadsPhase = 1;

ClusterSequence sequence_of(const Program<float>& program, const NruShape& shape,
                            const PersistentCall& call) {
  const auto block = [&](int phase, int part) { return weight_block(program, call, phase, part); };
  const Matrix hh = block(kHiddenPhase, kH), uh = block(kHeadsPhase, kH);
  const ClusterWeights weights{
      hh.data, block(kHiddenPhase, kM).data, uh.data, block(kHeadsPhase, kM).data, hh.ld, uh.ld};
  return {NruWriteSizes(shape), shape.hidden, weights,         call.steps,   call.batch,
          call.ld[kH],          call.ld[kM],  call.ld[kHeads], call.ld[kAux]};
}

class ClusterKernels : public Persistent {
 public:
  ClusterKernels(const Program<float>& program, const NruShape& shape, const ClusterTile& tile)
      : program_(program), shape_(shape), tile_(tile) {}

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    tile_.forward(cluster_call(program_, shape_, call), stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    tile_.backward(cluster_call(program_, shape_, call), stream);
  }

 private:
  const Program<float>& program_;
  NruShape shape_;
  ClusterTile tile_;
};

const PersistentDesignEntry entry(
    {"cluster", 10, false, [](const Program<float>& program, int) -> std::unique_ptr<Persistent> {
       const NruShape* shape = std::any_cast<NruShape>(&program.shape);
       const ClusterTile* tile = shape ? find_cluster_tile(*shape) : nullptr;
       return tile ? std::make_unique<ClusterKernels>(program, *shape, *tile) : nullptr;
     }});

}  // namespace

ClusterForward cluster_call(const Program<float>& program, const NruShape& shape,
                            const PersistentForward& call) {
  return {.of = sequence_of(program, shape, call),
          .h = call.slots[kH],
          .m = call.slots[kM],
          .heads = call.slots[kHeads],
          .aux = call.slots[kAux],
          .events = call.events,
          .largest_h = call.largest ? call.largest + kH : nullptr,
          .largest_m = call.largest ? call.largest + kM : nullptr};
}

ClusterBackward cluster_call(const Program<float>& program, const NruShape& shape,
                             const PersistentBackward& call) {
  return {.of = sequence_of(program, shape, call),
          .h = call.slots[kH],
          .heads = call.slots[kHeads],
          .aux = call.slots[kAux],
          .d_output = call.bulk,
          .first_output = call.bulk_first,
          .final_h = call.final_state[kH],
          .final_m = call.final_state[kM],
          .d_pre = call.d_pre[kHiddenPhase],
          .d_heads = call.d_pre[kHeadsPhase],
          .d_h = call.gradient[kH],
          .d_m = call.gradient[kM]};
}

bool ClusterTile::holds(const NruShape& s) const {
  if (!s.plain() || s.write_limit > 0 || s.relu_heads != relu) return false;
  if (s.hidden < kClusterCtas || s.memory < kClusterCtas) return false;
  const int R = s.rank() / s.heads;
  return s.hidden <= hidden && s.memory <= memory && s.head_outputs() <= outputs &&
         R <= rows_per_head && s.heads * rows_per_head <= 32 * slots && s.rank() <= 32 * slots;
}

const ClusterTile* find_cluster_tile(const NruShape& shape) {
  static const std::vector<ClusterTile> tiles = [] {
    std::vector<ClusterTile> all = linear_cluster_tiles();
    for (const ClusterTile& tile : relu_cluster_tiles()) all.push_back(tile);
    return all;
  }();
  const DeviceLimits limits = device_limits();
  const ClusterTile* found = nullptr;
  if (limits.major < 9) return found;
  for (const ClusterTile& tile : tiles) {
    if (tile.holds(shape) && tile.shared_bytes <= static_cast<std::size_t>(limits.shared_bytes) &&
        (!found || tile.weights() < found->weights()))
      found = &tile;
  }
  return found;
}

}  // namespace nru::kernels::cuda
