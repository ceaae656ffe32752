#include "cli/machine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace nru::cli {
namespace {

namespace fs = std::filesystem;

// The file that holds the function of this name, links resolved: Debian's libblas.so.3 is a link
// to whichever BLAS was chosen.
std::string library_of(const char* function) {
  void* address = ::dlsym(RTLD_DEFAULT, function);
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code failed;
  const fs::path real = fs::canonical(info.dli_fname, failed);
  return failed ? info.dli_fname : real.string();
}

std::string openblas_kind() {
  using Parallel = int (*)();
  const auto parallel = reinterpret_cast<Parallel>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (parallel == nullptr) return "openblas-serial";
  switch (parallel()) {
    case 1:
      return "openblas-pthread";
    case 2:
      return "openblas-openmp";
    default:
      return "openblas-serial";
  }
}

// "Name:   value" lines, as in /proc/meminfo and /proc/cpuinfo.
std::string proc_value(const char* path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && start != std::string::npos) return line.substr(start);
  }
  return "";
}

}  // namespace

Blas find_blas() {
  Blas blas;
  blas.library = library_of("sgemm_");
  const auto names = [&](std::string_view part) {
    return blas.library.find(part) != std::string::npos;
  };
  if (::dlsym(RTLD_DEFAULT, "openblas_get_config") != nullptr) {
    using Config = char* (*)();
    blas.kind = openblas_kind();
    blas.details = reinterpret_cast<Config>(::dlsym(RTLD_DEFAULT, "openblas_get_config"))();
  } else if (names("mkl") || ::dlsym(RTLD_DEFAULT, "MKL_Get_Version_String") != nullptr) {
    blas.kind = "mkl";
  } else if (names("/blas/") || names("refblas")) {
    blas.kind = "reference";
  } else {
    blas.kind = "other";
  }
  return blas;
}

std::string cpu_model() {
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

std::int64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? std::int64_t{pages} * size : 0;
}

std::int64_t memory_available() {
  std::istringstream text(proc_value("/proc/meminfo", "MemAvailable"));  // "123456 kB"
  std::int64_t kibibytes = 0;
  return text >> kibibytes ? kibibytes * 1024 : 0;
}

int cpu_count() {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<int>(count) : 1;
}

}  // namespace nru::cli
