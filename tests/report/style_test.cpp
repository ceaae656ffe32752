// Every cell has one look, and no two looks are alike, for the colour-blind too.
#include "report/style.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace nru::report {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

double linear(int byte) {
  const double c = byte / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

Vector linear_rgb(const std::string& color) {
  const auto channel = [&](int at) { return linear(std::stoi(color.substr(at, 2), nullptr, 16)); };
  return {channel(1), channel(3), channel(5)};
}

double luminance(const Vector& c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; }

Vector seen_through(const Matrix& sight, const Vector& c) {
  Vector seen{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) seen[i] += sight[i][j] * c[j];
    seen[i] = std::clamp(seen[i], 0.0, 1.0);
  }
  return seen;
}

Vector lab(const Vector& c) {
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047);
  const double y = f(luminance(c));
  const double z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(const Vector& a, const Vector& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// Machado, Oliveira and Fernandes (2009), severity 1.
const std::vector<Matrix>& sights() {
  static const std::vector<Matrix> table = {{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
                                            {{{0.152286, 1.052583, -0.204868},
                                              {0.114503, 0.786281, 0.099216},
                                              {-0.003882, -0.048116, 1.051998}}},
                                            {{{0.367322, 0.860646, -0.227968},
                                              {0.280085, 0.672501, 0.047413},
                                              {-0.011820, 0.042940, 0.968881}}},
                                            {{{1.255528, -0.076749, -0.178779},
                                              {-0.078411, 0.930809, 0.147602},
                                              {0.004733, 0.691367, 0.303900}}}};
  return table;
}

double contrast(const Vector& a, const Vector& b) {
  const double la = luminance(a), lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

void expect_told_apart(std::string Style::*color, const std::string& background) {
  const std::vector<Style>& table = cell_styles();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Vector a = linear_rgb(table[i].*color);
    EXPECT_GE(contrast(a, linear_rgb(background)), 3) << table[i].cell;
    for (std::size_t j = 0; j < i; ++j) {
      for (const Matrix& sight : sights()) {
        EXPECT_GE(distance(lab(seen_through(sight, a)),
                           lab(seen_through(sight, linear_rgb(table[j].*color)))),
                  25)
            << table[i].cell << " and " << table[j].cell;
      }
    }
  }
}

TEST(Style, ColoursAreToldApartOnWhite) { expect_told_apart(&Style::color, "#ffffff"); }
TEST(Style, ColoursAreToldApartOnADarkPage) { expect_told_apart(&Style::dark, "#14171c"); }

TEST(Style, EveryCellHasOneAndAnUnknownOneGetsItsName) {
  std::set<std::string> names;
  for (const Style& style : cell_styles()) {
    EXPECT_TRUE(names.insert(style.cell).second);
    EXPECT_EQ(style_of(style.cell).color, style.color);
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(style_of("ugrnn").label, "ugrnn");
  EXPECT_LT(place_of("rnn-orth"), place_of("nru"));
  EXPECT_LT(place_of("nru"), place_of("ugrnn"));
}

TEST(Style, VariantsDiffer) {
  std::set<std::string> colors;
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(colors.insert(style_at(i).color).second) << i;
  EXPECT_EQ(style_at(10).color, style_at(0).color);
}

}  // namespace
}  // namespace nru::report
