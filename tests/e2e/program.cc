#include "e2e/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "numeric/difference.h"

extern char** environ;

namespace cachalot::e2e {

Outcome RunTool(std::vector<std::string> command, const std::string& input) {
  const TempFolder folder;
  WriteAll(folder / "in", input);
  std::vector<char*> argv;
  for (std::string& word : command) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, (folder / "in").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (folder / "out").c_str(),
                                   O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (folder / "err").c_str(),
                                   O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  CACHALOT_CHECK(failed == 0, "cannot start {}", command[0]);
  int status = 0;
  CACHALOT_CHECK_EQ(::waitpid(child, &status, 0), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(folder / "out"),
          ReadAll(folder / "err")};
}

Outcome Cachalot(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> command = {CACHALOT_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return RunTool(std::move(command), input);
}

std::vector<std::string> MachineIsas() {
  std::vector<std::string> found;
  const TempFolder temp;
  WriteAll(temp / "one", std::string(4, '\0'));
  for (const char* isa : {"ref", "avx2", "avx512", "amx"}) {
    const Outcome outcome = Cachalot({"logits", "-m", InSource("tests/golden/native"), "--tokens",
                                      temp / "one", "--out", temp / "out", "--isa", isa});
    if (outcome.exit_code == 0) {
      found.emplace_back(isa);
    } else {
      EXPECT_THAT(outcome.err, testing::HasSubstr("but this machine runs")) << isa;
    }
  }
  return found;
}

std::string InSource(const std::string& path) { return CACHALOT_SOURCE_DIR "/" + path; }

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "cachalot-XXXXXX").string();
  CACHALOT_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::vector<double> RowErrors(const std::vector<float>& found, const std::vector<float>& wanted,
                              size_t width) {
  std::vector<double> errors;
  if (found.size() != wanted.size()) {
    return errors;
  }
  for (size_t begin = 0; begin + width <= wanted.size(); begin += width) {
    errors.push_back(RelativeError(std::span(found).subspan(begin, width),
                                   std::span(wanted).subspan(begin, width)));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

double Quantile(const std::vector<double>& sorted, double share) {
  CACHALOT_CHECK(!sorted.empty());
  return sorted[std::min(static_cast<size_t>(share * static_cast<double>(sorted.size())),
                         sorted.size() - 1)];
}

}  // namespace cachalot::e2e
