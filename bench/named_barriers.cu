// What compute-sanitizer makes of named barriers: small kernels without a race by the rules of PTX,
// each with one of the ways in which the whole-sequence kernels use them. What it says is in
// results/sanitizers-h200.txt.
//
//   ninja -C build named_barriers
//   compute-sanitizer --tool racecheck build/named_barriers arrive
#include <cstdio>
#include <cstring>

namespace {

constexpr int kSteps = 5;

template <int kBarrier, int kThreads = 64>
__device__ void arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
template <int kBarrier, int kThreads = 64>
__device__ void await() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// Some warps hand values to another one, who says when they have been read: as PTX's manual has it
// for producers and consumers. With kPlaces = 2 the values have two places that take turns. With
// kLed the writers meet first, and one of them arrives for all.
template <int kPlaces, int kWriters, bool kLed = false>
__global__ void hand_over(float* out) {
  constexpr int kThreads = 32 * (kWriters + 1), kReady = kLed ? 64 : kThreads;
  __shared__ float box[kPlaces][kWriters][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = 0;
  if (warp < kWriters) {
    for (int t = 0; t < kSteps; ++t) {
      if (t > 0) await<2, kThreads>();
      box[t % kPlaces][warp][lane] = t + lane;
      if (kLed) await<3, 32 * kWriters>();
      if (!kLed || warp == 0) arrive<1, kReady>();
    }
  } else {
    for (int t = 0; t < kSteps; ++t) {
      await<1, kReady>();
      for (int w = 0; w < kWriters; ++w) sum += box[t % kPlaces][w][31 - lane];
      if (t + 1 < kSteps) arrive<2, kThreads>();
    }
    out[lane] = sum;
  }
}

// The way of the design "rows" (src/kernels/cuda/persistent_rows.cuh): h goes from one role to
// itself and to another, u from that one to a single warp, m from the warp to both roles. With
// kEven each role waits three times a step.
template <int kWarps, bool kEven>
__global__ void ring(float* out) {
  constexpr int kRole = 32 * kWarps;
  __shared__ float h[2][kRole], u[2][kRole], m[32];
  const int thread = threadIdx.x, role = thread / kRole, own = thread % kRole;
  if (role == 0) {
    for (int t = 0; t < kSteps; ++t) {
      await<1, kRole + 32>();
      h[t % 2][own] = m[own % 32] + (t > 0 ? h[(t + 1) % 2][kRole - 1 - own] : 0.f);
      arrive<4, 2 * kRole>();
      await<3, kRole>();
      if (kEven) await<6, kRole>();
    }
  } else if (role == 1) {
    for (int t = 0; t < kSteps; ++t) {
      await<2, kRole + 32>();
      const float from_m = m[own % 32];
      await<4, 2 * kRole>();
      u[t % 2][own] = from_m + h[t % 2][kRole - 1 - own];
      arrive<5, kRole + 32>();
      if (kEven) await<7, kRole>();
    }
  } else {
    float sum = 0;
    m[own] = own;
    arrive<1, kRole + 32>();
    arrive<2, kRole + 32>();
    for (int t = 0; t < kSteps; ++t) {
      if (kEven) {
        await<8, 32>();
        await<9, 32>();
      }
      await<5, kRole + 32>();
      for (int w = 0; w < kWarps; ++w) sum += u[t % 2][32 * w + 31 - own];
      m[own] = sum;
      if (t + 1 == kSteps) break;
      arrive<1, kRole + 32>();
      arrive<2, kRole + 32>();
    }
    out[own] = sum;
  }
}

// As with two places, but a third warp arrives, too, before the values may be read.
__global__ void three(float* out) {
  __shared__ float box[2][32];
  const int lane = threadIdx.x % 32;
  float sum = 0;
  if (threadIdx.x < 32) {
    for (int t = 0; t < kSteps; ++t) {
      if (t > 0) await<2>();
      box[t % 2][lane] = t + lane;
      arrive<1, 96>();
    }
  } else if (threadIdx.x < 64) {
    for (int t = 0; t < kSteps; ++t) {
      if (t > 0) await<3>();
      arrive<1, 96>();
    }
  } else {
    for (int t = 0; t < kSteps; ++t) {
      await<1, 96>();
      sum += box[t % 2][31 - lane];
      if (t + 1 == kSteps) break;
      arrive<2>();
      arrive<3>();
    }
    out[lane] = sum;
  }
}

// Two warps of three meet, each at a place of its own in the code.
__global__ void meet(float* out) {
  __shared__ float box[32];
  const int lane = threadIdx.x % 32;
  float sum = 0;
  for (int t = 0; t < kSteps; ++t) {
    if (threadIdx.x < 32) {
      box[lane] = t + lane;
      await<1>();
      await<2>();
    } else if (threadIdx.x < 64) {
      await<1>();
      sum += box[31 - lane];
      await<2>();
    }
  }
  if (threadIdx.x / 32 == 1) out[lane] = sum;
}

// All four warps hand values on between two barriers of the CTA; in between the first two meet on
// their own, at one place. With kEven so do the others, as often.
template <bool kEven>
__global__ void mixed(float* out) {
  __shared__ float box[128], own[64];
  const int thread = threadIdx.x;
  float sum = 0;
  for (int t = 0; t < kSteps; ++t) {
    box[thread] = t + thread;
    __syncthreads();
    sum += box[127 - thread];
    __syncthreads();
    if (thread < 64) {
      own[thread] = sum;
      await<1>();
      sum += own[63 - thread];
      await<1>();
    } else if (kEven) {
      await<2>();
      await<2>();
    }
  }
  if (thread < 32) out[thread] = sum;
}

}  // namespace

int main(int count, char** arguments) {
  const char* way = count > 1 ? arguments[1] : "";
  float *out, host[32];
  cudaMalloc(&out, sizeof host);
  if (!std::strcmp(way, "arrive")) {
    hand_over<1, 1><<<1, 64>>>(out);
  } else if (!std::strcmp(way, "turns")) {
    hand_over<2, 1><<<1, 64>>>(out);
  } else if (!std::strcmp(way, "many")) {
    hand_over<2, 4><<<1, 160>>>(out);
  } else if (!std::strcmp(way, "led")) {
    hand_over<2, 4, true><<<1, 160>>>(out);
  } else if (!std::strcmp(way, "ring")) {
    ring<1, false><<<1, 96>>>(out);
  } else if (!std::strcmp(way, "rings")) {
    ring<4, false><<<1, 288>>>(out);
  } else if (!std::strcmp(way, "rings-even")) {
    ring<4, true><<<1, 288>>>(out);
  } else if (!std::strcmp(way, "three")) {
    three<<<1, 96>>>(out);
  } else if (!std::strcmp(way, "meet")) {
    meet<<<1, 96>>>(out);
  } else if (!std::strcmp(way, "mixed")) {
    mixed<false><<<1, 128>>>(out);
  } else if (!std::strcmp(way, "mixed-even")) {
    mixed<true><<<1, 128>>>(out);
  } else {
    std::fprintf(stderr,
                 "usage: named_barriers arrive|turns|many|led|ring|rings|rings-even|three|meet|"
                 "mixed|mixed-even\n");
    return 2;
  }
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%s: %g %g\n", cudaGetErrorString(cudaGetLastError()), host[0], host[31]);
}
