// Host side of the design "rows": which programs it takes, and the kernels' arguments.
#include "kernels/cuda/persistent_rows.h"

#include "kernels/cuda/persistent.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kM = 2, kHeads = 3;  // parts
constexpr int kMostRank = 32;              // p and q lie in the lanes of a warp
// Rows take turns on the multiprocessors: a batch of many turns is faster step by step.
constexpr int kMostRows = 1024;

class Rows final : public Persistent {
 public:
  Rows(const Program<float>& program, const NruShape& shape, int compiled)
      : program_(program), shape_(shape), compiled_(compiled) {}

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    RowsForward rows(shape_);
    fill(call, &rows);
    rows.events = call.events;
    if (call.largest) {
      rows.largest_h = call.largest + kH;
      rows.largest_m = call.largest + kM;
    }
    rows_forward(compiled_, rows, stream);
  }

  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    RowsBackward rows(shape_);
    fill(call, &rows);
    rows.bulk = call.bulk;
    rows.bulk_first = call.bulk_first;
    rows.final_h = call.final_state[kH];
    rows.final_m = call.final_state[kM];
    rows.d_a = call.d_pre[0];
    rows.d_u = call.d_pre[1];
    rows.gradient_h = call.gradient[kH];
    rows.gradient_m = call.gradient[kM];
    rows.state_limit = call.state_limit;
    rows_backward(compiled_, rows, stream);
  }

 private:
  // The block of a phase's weights that multiplies a part.
  RowsBlock block(const PersistentCall& call, int phase, int part) const {
    for (const Segment& s : program_.phases[phase].segments) {
      if (s.part != part) continue;
      const int columns = program_.parameters[s.parameter].columns;
      return {call.parameters[s.parameter] + static_cast<std::size_t>(s.row) * columns + s.column,
              columns};
    }
    return {};
  }

  void fill(const PersistentCall& call, RowsCall* rows) const {
    rows->steps = call.steps;
    rows->batch = call.batch;
    rows->ld_h = call.ld[kH];
    rows->ld_m = call.ld[kM];
    rows->ld_u = call.ld[kHeads];
    rows->hh = block(call, 0, kH);
    rows->hm = block(call, 0, kM);
    rows->uh = block(call, 1, kH);
    rows->um = block(call, 1, kM);
    rows->h = call.slots[kH];
    rows->m = call.slots[kM];
    rows->u = call.slots[kHeads];
    rows->lengths = call.lengths;
    rows->begin = call.begin;
  }

  const Program<float>& program_;
  NruShape shape_;
  int compiled_;
};

std::unique_ptr<Persistent> make(const Program<float>& program, int batch) {
  const auto* shape = std::any_cast<NruShape>(&program.shape);
  if (!shape || !shape->plain() || batch > kMostRows) return nullptr;
  const int compiled = find_rows_shape(*shape, device_limits().shared_bytes);
  if (compiled < 0 || shape->rank() > kMostRank) return nullptr;
  return std::make_unique<Rows>(program, *shape, compiled);
}

const PersistentDesignEntry entry(
    {.name = "rows", .order = 0, .lengths = true, .make = make, .state_limit = true});

}  // namespace

int find_rows_shape(const NruShape& shape, int shared_bytes) {
  for (int i = 0; i < kRowsShapeCount; ++i) {
    const RowsShape& c = kRowsShapes[i];
    if (shape.hidden <= c.hidden && shape.memory <= c.memory && shape.head_outputs() <= c.heads)
      return shared_bytes == 0 || c.shared_bytes <= shared_bytes ? i : -1;
  }
  return -1;
}

}  // namespace nru::kernels::cuda
