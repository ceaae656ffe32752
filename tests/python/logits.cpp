// What C++ makes of a run's weights: the other half of tests/python/test_run.py.
//
//   logits RUN_DIRECTORY WEIGHTS IN OUT    (WEIGHTS, IN and OUT are safetensors files)
//
// IN holds x, [T,B,I] in float32 or, for a run with an embedding, ids [T,B] in int64; OUT gets
// logits [T,B,O].
#include <nru/error.h>

#include <cstring>
#include <iostream>

#include "support/safetensors.h"
#include "training/checkpoint.h"
#include "training/trainer.h"

namespace nru {
namespace {

void write_logits(const std::filesystem::path& run, const char* weights, const char* in,
                  const char* out) {
  const auto config =
      training::resolve_config({run / "config.toml", {}, {}}, training::cell_defaults);
  training::Setup setup(config);
  training::load_weights(weights, setup.parameters);

  const SafetensorsFile file = SafetensorsFile::load(in);
  const TensorView* view = file.find("x");
  const bool embeds = bool(setup.model->embedding());
  if (view == nullptr || view->dtype != (embeds ? DType::I64 : DType::F32))
    throw Error(embeds ? "the input has no int64 x" : "the input has no float32 x");
  torch::Tensor x = torch::empty(view->shape, embeds ? torch::kInt64 : torch::kFloat);
  std::memcpy(x.data_ptr(), view->bytes.data(), view->bytes.size());

  const torch::NoGradGuard no_grad;
  if (embeds) x = torch::embedding(setup.model->embedding()->weight, x);
  const auto hidden = std::get<0>(setup.model->layer()->forward(x));
  const torch::Tensor logits = setup.model->logits(hidden).contiguous();
  const std::span<const float> values(logits.data_ptr<float>(),
                                      static_cast<std::size_t>(logits.numel()));
  save_safetensors(out, {{"logits", DType::F32, logits.sizes().vec(), std::as_bytes(values)}}, {});
}

}  // namespace
}  // namespace nru

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: logits RUN_DIRECTORY WEIGHTS IN OUT\n";
    return 2;
  }
  try {
    nru::write_logits(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
