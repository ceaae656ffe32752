// What this machine offers, for `nru doctor` and `nru bench`. Knows no torch headers: the BLAS is
// found among the libraries that are loaded.
#pragma once

#include <cstdint>
#include <string>

namespace nru::cli {

struct Blas {
  std::string kind;     // openblas-openmp, openblas-pthread, openblas-serial, reference, mkl, other
  std::string library;  // the file, links resolved; empty when there is none
  std::string details;  // what the library says about itself; may be empty
};

// The BLAS that torch multiplies matrices with.
Blas find_blas();

std::string cpu_model();          // "unknown" where the system does not say
std::int64_t memory_bytes();      // of the machine; 0: unknown
std::int64_t memory_available();  // without swapping; 0: unknown
int cpu_count();                  // of the machine; a process may be confined to fewer

}  // namespace nru::cli
