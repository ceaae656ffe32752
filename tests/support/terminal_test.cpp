// What is drawn where, decided by the environment and a real pseudo-terminal.
#include "support/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <map>
#include <optional>
#include <string>

#include "support/posix.h"

namespace nru {
namespace {

using Variables = std::map<std::string, std::string>;

// Sets the variables for one scope; the others that matter are unset.
class Environment {
 public:
  explicit Environment(const Variables& values) {
    for (const char* name :
         {"NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG", "COLUMNS", "LINES"}) {
      const char* old = ::getenv(name);
      old_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : old_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> old_;
};

TEST(Terminal, AFileIsNone) {
  const Environment environment(
      Variables{{"TERM", "xterm"}, {"LANG", "en_US.UTF-8"}, {"COLUMNS", "120"}, {"LINES", "50"}});
  const Descriptor file(::open("/dev/null", O_WRONLY));
  const TerminalStyle style = detect_terminal(file.get());
  EXPECT_FALSE(style.terminal);
  EXPECT_FALSE(style.color);
  EXPECT_TRUE(style.utf8);
  EXPECT_EQ(style.columns, 120);
  EXPECT_EQ(style.rows, 50);
}

TEST(Terminal, AnUnknownSizeIsTheUsualOne) {
  const Environment environment(Variables{{"COLUMNS", "wide"}, {"LINES", "-3"}});
  const Descriptor file(::open("/dev/null", O_WRONLY));
  const TerminalStyle style = detect_terminal(file.get());
  EXPECT_EQ(style.columns, 80);
  EXPECT_EQ(style.rows, 24);
}

TEST(Terminal, APseudoTerminalIsOne) {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY));
  if (master.get() < 0 || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  const Descriptor terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY));
  ASSERT_GE(terminal.get(), 0);
  winsize size{};
  size.ws_col = 61;
  size.ws_row = 17;
  ASSERT_EQ(::ioctl(master.get(), TIOCSWINSZ, &size), 0);
  {
    const Environment environment(
        Variables{{"TERM", "xterm"}, {"COLUMNS", "120"}, {"LINES", "50"}});
    TerminalStyle style = detect_terminal(terminal.get());
    EXPECT_TRUE(style.terminal && style.color);
    EXPECT_EQ(style.columns, 61);
    EXPECT_EQ(style.rows, 17);
    size.ws_col = 40;
    size.ws_row = 0;  // not known
    ASSERT_EQ(::ioctl(master.get(), TIOCSWINSZ, &size), 0);
    style.measure();
    EXPECT_EQ(style.columns, 40);
    EXPECT_EQ(style.rows, 17);
  }
  {
    const Environment environment(Variables{{"TERM", "xterm"}, {"NO_COLOR", "1"}});
    const TerminalStyle style = detect_terminal(terminal.get());
    EXPECT_TRUE(style.terminal);
    EXPECT_FALSE(style.color);
  }
  {
    const Environment environment(Variables{{"TERM", "dumb"}});
    EXPECT_FALSE(detect_terminal(terminal.get()).terminal);
  }
}

TEST(Terminal, LinesAreCutBeforeTheLastColumn) {
  TerminalStyle style;
  style.columns = 6;
  EXPECT_EQ(style.cut("12345"), "12345");
  EXPECT_EQ(style.cut("123456"), "12345");
  EXPECT_EQ(style.cut("1234\u2501"), "1234");  // no half characters
  EXPECT_EQ(style.cut("12\u2501"), "12\u2501");
  EXPECT_EQ(style.cut("12\u25013"), "12\u2501");
  style.columns = 1;
  EXPECT_EQ(style.cut("1"), "");
  style.measure();  // of no terminal
  EXPECT_EQ(style.columns, 1);
}

TEST(Terminal, WholeFieldsAreLeftOut) {
  TerminalStyle style;
  style.terminal = true;
  const std::vector<LineField> fields = {{"name"}, {" second", 2}, {" first", 1}, {" third", 3}};
  const auto at = [&](int columns) {
    style.columns = columns;
    return style.fit(fields);
  };
  EXPECT_EQ(at(24), "name second first third");  // 23 and the last column
  EXPECT_EQ(at(23), "name second third");
  EXPECT_EQ(at(17), "name third");
  EXPECT_EQ(at(10), "name");
  EXPECT_EQ(at(4), "nam");
  EXPECT_EQ(at(0), "");
  style.terminal = false;
  EXPECT_EQ(at(4), "name second first third");
}

TEST(Terminal, TheLocaleSaysUtf8) {
  const struct {
    Variables variables;
    bool utf8;
  } cases[] = {{{}, false},
               {{{"LANG", "C.UTF-8"}}, true},
               {{{"LANG", "de_DE.utf8"}}, true},
               {{{"LANG", "C"}}, false},
               {{{"LANG", "C.UTF-8"}, {"LC_ALL", "C"}}, false},
               {{{"LANG", "C"}, {"LC_CTYPE", "en_US.UTF-8"}}, true},
               {{{"LANG", "C.UTF-8"}, {"LC_ALL", ""}}, true}};
  for (const auto& [variables, utf8] : cases) {
    const Environment environment(variables);
    EXPECT_EQ(detect_terminal(1).utf8, utf8);
  }
}

}  // namespace
}  // namespace nru
