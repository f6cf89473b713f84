// Runs the program as a user would, and reads what it leaves.
#pragma once

#include <string>
#include <vector>

namespace cachalot::e2e {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// The program with these arguments; `input` is its stdin.
Outcome Cachalot(const std::vector<std::string>& arguments, const std::string& input = {});
// Any other program, found on PATH.
Outcome RunTool(std::vector<std::string> command, const std::string& input = {});

// Instruction sets that this machine runs, "ref" first.
std::vector<std::string> MachineIsas();

// A path of the checkout.
std::string InSource(const std::string& path);
bool Exists(const std::string& path);

// A folder of this test's own, removed at the end.
class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ReadAll(const std::string& path);
void WriteAll(const std::string& path, const std::string& content);

template <typename T>
std::vector<T> ReadArray(const std::string& path) {
  const std::string bytes = ReadAll(path);
  const auto* begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

// Relative errors of the rows, sorted: rows of `width` values, as many found as wanted, else empty.
std::vector<double> RowErrors(const std::vector<float>& found, const std::vector<float>& wanted,
                              size_t width);
// The value below which `share` of the sorted errors lie.
double Quantile(const std::vector<double>& sorted, double share);

}  // namespace cachalot::e2e
