// A file out of a tar archive in memory. Nothing is unpacked to disk, so a path in an archive from
// the network can do no harm.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nru {

// The content of the first regular file whose path is `name` or ends with "/" and `name`. Throws
// nru::Error, beginning with `archive_name`, when the archive is damaged before that.
std::optional<std::string_view> find_in_tar(std::string_view archive, std::string_view name,
                                            const std::string& archive_name);

}  // namespace nru
