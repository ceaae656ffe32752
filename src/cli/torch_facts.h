// What the program says about torch, behind a header without it.
#pragma once

namespace nru::cli {

const char* torch_version();
int cuda_devices();  // that torch can use

}  // namespace nru::cli
