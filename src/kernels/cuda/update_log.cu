#include "kernels/cuda/update_log.h"

#include <cuda_runtime.h>

#include <stdexcept>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

__global__ void append_kernel(DeviceResult result, const AdamReport* adam, int output, int memory,
                              UpdateRecord* records, std::uint64_t* index) {
  UpdateRecord record;
  record.loss = *result.loss;
  record.norm = adam->norm;
  record.overflows = 0;
  for (int row = 0; row < result.batch; ++row)
    record.overflows += result.events[row * kEvents + kOverflow];
  record.max_output = __uint_as_float(result.largest[output]);
  record.max_memory = memory < 0 ? 0 : __uint_as_float(result.largest[memory]);
  records[*index % UpdateLog::kCapacity] = record;
  ++*index;
}

}  // namespace

UpdateLog::UpdateLog(StreamHandle stream) : stream_(stream) {
  index_.require(1);
  records_.require(kCapacity);
}

void UpdateLog::restart(std::uint64_t index) {
  upload(&index, sizeof index, index_.data(), stream_);
  wait(stream_);
}

void UpdateLog::append(const Sequence& sequence, const Adam& adam, int output, int memory) {
  append_kernel<<<1, 1, 0, stream_>>>(sequence.device_result(), adam.device_report(), output,
                                      memory, records_.data(), index_.data());
  check_launch("append_record", 1, 1);
}

std::vector<UpdateRecord> UpdateLog::read(std::uint64_t next, int count) {
  if (count < 0 || count > kCapacity || static_cast<std::uint64_t>(count) > next)
    throw std::invalid_argument("a log of updates cannot give so many records");
  std::vector<UpdateRecord> records(count);
  const int first = static_cast<int>((next - count) % kCapacity);
  const int straight = count < kCapacity - first ? count : kCapacity - first;
  const auto get = [&](int from, int to, int n) {
    if (n > 0) download(records_.data() + from, n * sizeof(UpdateRecord), &records[to], stream_);
  };
  get(first, 0, straight);
  get(0, straight, count - straight);
  if (count == 0) wait(stream_);
  return records;
}

}  // namespace nru::kernels::cuda
