#include "browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <stdexcept>

extern char** environ;

namespace nru::test {
namespace {

using Json = nlohmann::json;

constexpr int kPatience = 120000;  // ms without any message

[[noreturn]] void give_up(const std::string& why) { throw std::runtime_error("browser: " + why); }

// A pipe whose ends lie clear of 3 and 4, where Chromium expects its own.
struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) give_up("pipe");
    read = ::fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
    write = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

std::string decode_base64(const std::string& text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

}  // namespace

std::string find_chromium() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    std::istringstream path(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
    for (std::string folder; std::getline(path, folder, ':');) {
      const std::string program = folder + "/" + name;
      if (::access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return "";
}

Browser::Browser(const std::string& program) {
  const Pipe commands, answers;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, commands.read, 3);
  posix_spawn_file_actions_adddup2(&actions, answers.write, 4);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words = {program,
                                    "--headless",
                                    "--no-sandbox",  // root in a container has none
                                    "--disable-gpu",
                                    "--disable-dev-shm-usage",
                                    "--disable-background-networking",
                                    "--no-first-run",
                                    "--hide-scrollbars",
                                    "--remote-debugging-pipe",
                                    "--user-data-dir=" + profile_.path().string()};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // its helpers end with it
  const int failure =
      ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(commands.read);
  ::close(answers.write);
  to_ = commands.write;
  from_ = answers.read;
  if (failure != 0) give_up("cannot start " + program);
  const Json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
                 .at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network"}) {
    call(std::string(domain) + ".enable");
  }
}

Browser::~Browser() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(to_);
  ::close(from_);
}

Json Browser::receive() {
  for (;;) {
    const std::size_t end = buffer_.find('\0');
    if (end != std::string::npos) {
      const Json message = Json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd waiting{from_, POLLIN, 0};
    if (::poll(&waiting, 1, kPatience) <= 0) give_up("no answer");
    char chunk[1 << 16];
    const ssize_t got = ::read(from_, chunk, sizeof chunk);
    if (got <= 0) give_up("it ended");
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

void Browser::note(const Json& event) {
  const std::string method = event.value("method", "");
  if (!event.contains("params")) return;
  const Json& about = event.at("params");
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown") complaints_.push_back(about.dump());
  if (method == "Log.entryAdded" && about.at("entry").at("level") != "verbose") {
    complaints_.push_back(about.at("entry").at("text"));
  }
  if (method == "Runtime.consoleAPICalled" &&
      (about.at("type") == "error" || about.at("type") == "warning")) {
    complaints_.push_back(about.at("args").dump());
  }
  if (method == "Network.requestWillBeSent") {
    requests_.push_back(about.at("request").at("url"));
  }
}

Json Browser::call(const std::string& method, const Json& parameters) {
  const int id = ++last_id_;
  Json message = {{"id", id}, {"method", method}, {"params", Json::object()}};
  if (!parameters.is_null()) message["params"] = parameters;
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t wrote = ::write(to_, text.data() + sent, text.size() - sent);
    if (wrote <= 0) give_up("it does not listen");
    sent += static_cast<std::size_t>(wrote);
  }
  for (;;) {
    const Json answer = receive();
    if (answer.value("id", 0) != id) {
      note(answer);
      continue;
    }
    if (answer.contains("error")) give_up(method + ": " + answer.at("error").dump());
    return answer.at("result");
  }
}

void Browser::open(const std::filesystem::path& file, int width, int height, bool dark) {
  complaints_.clear();
  requests_.clear();
  loaded_ = false;
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
  const Json scheme = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  call("Emulation.setEmulatedMedia", {{"features", Json::array({scheme})}});
  call("Page.navigate", {{"url", "file://" + std::filesystem::absolute(file).string()}});
  while (!loaded_) note(receive());
}

Json Browser::evaluate(const std::string& expression) {
  const Json answer =
      call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (answer.contains("exceptionDetails")) give_up(answer.at("exceptionDetails").dump());
  return answer.at("result").value("value", Json());
}

void Browser::press(const std::string& key) {
  for (const char* type : {"keyDown", "keyUp"}) {
    call("Input.dispatchKeyEvent", {{"type", type}, {"key", key}, {"code", key}});
  }
}

void Browser::screenshot(const std::filesystem::path& file, const std::string& selector) {
  Json wanted = {{"format", "png"}};
  if (!selector.empty()) {
    Json box = evaluate(
        "(() => { const b = document.querySelector('" + selector +
        "').getBoundingClientRect(); return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, "
        "height: b.height}; })()");
    box["scale"] = 1;
    wanted["clip"] = box;
    wanted["captureBeyondViewport"] = true;
  }
  write_bytes(file, decode_base64(call("Page.captureScreenshot", wanted).at("data")));
}

}  // namespace nru::test
