// Which nru this is. The values are baked in at build time (cmake/Version.cmake), so that a run
// directory can record exactly which code wrote it.
#pragma once

namespace nru {

// The release, such as "0.1.0".
const char* version() noexcept;

// The git commit, with the suffix "-dirty" if tracked files had been changed, or "unknown" if the
// sources were not a git checkout.
const char* commit() noexcept;

}  // namespace nru
