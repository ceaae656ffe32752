// What the updates of a run report, kept on the device until somebody asks.
//
// A graph of an update ends with append(): it writes one record and moves the number of the update
// on, so that the same graph makes the next batch when it is launched again. The host reads many
// records at once, and the device never waits for it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/sequence.h"

namespace nru::kernels::cuda {

struct UpdateRecord {
  double loss = 0;
  double norm = 0;  // of the gradient, before clipping
  std::int64_t overflows = 0;
  float max_output = 0, max_memory = 0;  // max_memory: 0 where there is no such part
};

class UpdateLog {
 public:
  static constexpr int kCapacity = 1024;  // records that are kept

  explicit UpdateLog(StreamHandle stream);

  // The number of the update in hand, in device memory.
  const std::uint64_t* index() const { return index_.data(); }
  void restart(std::uint64_t index);

  // Queues the record of the update that `sequence` and `adam` have just made. output and memory:
  // the parts whose magnitudes it holds; memory -1: none.
  void append(const Sequence& sequence, const Adam& adam, int output, int memory);

  // The newest `count` records, oldest first; `next` is the number of the update after them. Waits.
  std::vector<UpdateRecord> read(std::uint64_t next, int count);

 private:
  StreamHandle stream_;
  Buffer<std::uint64_t> index_;
  Buffer<UpdateRecord> records_;  // update i is at i % kCapacity
};

}  // namespace nru::kernels::cuda
