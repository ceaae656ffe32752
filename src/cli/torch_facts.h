// What the program says about torch, behind a header without it.
#pragma once

namespace nru::cli {

const char* torch_version();
bool torch_has_cuda();  // whether it was built with CUDA, GPU or not
int cuda_devices();     // that torch can use

}  // namespace nru::cli
