// A small pool of threads that share out numbered pieces of work.
//
// Which thread does a piece never changes its result: pieces are cut by the problem alone. Workers
// spin briefly for the next job, then sleep, so that an idle pool costs nothing and a busy machine
// is not fought.
#pragma once

#include <functional>

namespace nru::kernels {

// Calls work(i) once for every i in [0, pieces), on at most `threads` threads, the caller among
// them, with denormal numbers flushed to zero. Returns when all are done. The first exception is
// rethrown. Nested calls run on the caller.
void parallel_pieces(int pieces, int threads, const std::function<void(int)>& work);

// The number of processors this process may run on.
int available_threads();

}  // namespace nru::kernels
