// The groups design as a path of a Sequence (persistent.h).
#include "kernels/cuda/groups.h"

#include <any>

namespace nru::kernels::cuda {
namespace {

// Of the tiles there are, on the current device.
GroupsFit find_tile(const NruShape& shape, int batch) {
  static const std::vector<GroupsTile> tiles = [] {
    std::vector<GroupsTile> all = linear_groups_tiles();
    for (const GroupsTile& tile : relu_groups_tiles()) all.push_back(tile);
    return all;
  }();
  return find_groups_tile(tiles, shape, batch, device_limits());
}

class GroupsKernels : public Persistent {
 public:
  GroupsKernels(const Program<float>& program, const NruShape& shape, const GroupsFit& fit)
      : program_(program), shape_(shape), fit_(fit) {}

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    fit_.tile->forward({cluster_call(program_, shape_, call), flags(call), kGroupCtas},
                       fit_.shared_bytes, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    fit_.tile->backward({cluster_call(program_, shape_, call), flags(call), kGroupCtas},
                        fit_.shared_bytes, stream);
  }

 private:
  static unsigned* flags(const PersistentCall& call) {
    return call.memory_for<unsigned>(groups_of(call.batch) * kGroupFlags);
  }

  const Program<float>& program_;
  NruShape shape_;
  GroupsFit fit_;
};

const PersistentDesignEntry entry(
    {"groups", 20, false,
     [](const Program<float>& program, int batch) -> std::unique_ptr<Persistent> {
       const NruShape* shape = std::any_cast<NruShape>(&program.shape);
       const GroupsFit fit = shape ? find_tile(*shape, batch) : GroupsFit{};
       return fit.tile ? std::make_unique<GroupsKernels>(program, *shape, fit) : nullptr;
     }});

}  // namespace

GroupsFit find_groups_tile(const std::vector<GroupsTile>& tiles, const NruShape& shape, int batch,
                           const DeviceLimits& limits) {
  if (limits.major < 9) return {};
  for (const GroupsTile& tile : tiles) {
    if (!tile.holds(shape)) continue;
    const std::size_t bytes = tile.shared_bytes(shape);
    if (groups_of(batch) * kGroupCtas <= tile.resident(bytes)) return {&tile, bytes};
  }
  return {};
}

bool GroupsTile::holds(const NruShape& s) const {
  if (!s.plain() || s.write_limit > 0 || s.relu_heads != relu) return false;
  return s.hidden <= hidden && s.memory <= memory && s.head_outputs() <= outputs &&
         s.rank() / s.heads <= rows_per_head && s.heads * rows_per_head <= 32 * slots &&
         s.rank() <= 32 * slots;
}

}  // namespace nru::kernels::cuda
