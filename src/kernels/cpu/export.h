// The end of a cell's kernel file, `#if HWY_ONCE`: the cell's program is that of the best
// instruction set at run time. Each set has functions <cell>_float and <cell>_double from the shape
// to a program.
#pragma once

#define NRU_EXPORT_PROGRAM(cell, Shape)                \
  HWY_EXPORT(cell##_float);                            \
  HWY_EXPORT(cell##_double);                           \
                                                       \
  template <>                                          \
  Program<float> cell##_program(const Shape& shape) {  \
    return HWY_DYNAMIC_DISPATCH(cell##_float)(shape);  \
  }                                                    \
  template <>                                          \
  Program<double> cell##_program(const Shape& shape) { \
    return HWY_DYNAMIC_DISPATCH(cell##_double)(shape); \
  }                                                    \
  static_assert(true, "takes the semicolon behind the macro")
