// What the constructors of layers leave out, on this thread, while a ConstructionScope lives. Their
// last line, LayerImpl::build(), asks.
#pragma once

namespace nru {

enum class Construction {
  whole,
  undrawn,  // the caller fills the parameters in: nothing is drawn, torch's generator stays as it
            // is
  bare,     // no parameters
};

class ConstructionScope {
 public:
  explicit ConstructionScope(Construction what);
  ~ConstructionScope();
  ConstructionScope(const ConstructionScope&) = delete;
  ConstructionScope& operator=(const ConstructionScope&) = delete;

  static Construction current();

 private:
  Construction before_;
};

}  // namespace nru
