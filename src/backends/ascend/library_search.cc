#include "backends/ascend/library_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace cachalot::ascend {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOverride = "CACHALOT_ASCENDCL_LIB";
constexpr const char* kCustomAttention = "aclnnSparseAttnSharedkv";
constexpr const char* kOfficialAttention = "aclnnSparseFlashMla";
constexpr const char* kPackageLibrary = "op_api/lib/libcust_opapi.so";
constexpr const char* kEmulator = "libcachalot_ascend_emulator.so";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "ASCEND_HOME_PATH=/usr/local/Ascend/cann" or "ASCEND_HOME_PATH unset".
std::string Describe(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fmt::format("{} unset", name) : fmt::format("{}={}", name, value);
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

Result<OpenLibrary> Open(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return MakeError(StatusCode::kNotFound, "{}", ::dlerror());
  }
  OpenLibrary library{.handle = handle, .file = name};
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
    library.file = map->l_name;
  }
  const auto has = [&](const char* symbol) {
    const Found found = LookUp(library, symbol);
    return found.address != nullptr && found.file == library.file;
  };
  library.custom = has(kCustomAttention);
  library.successors = has(kOfficialAttention);
  return library;
}

class Search {
 public:
  // A library that may be missing.
  void Add(std::vector<OpenLibrary>& libraries, const std::string& name) {
    Result<OpenLibrary> library = Open(name);
    if (library) {
      libraries.push_back(*std::move(library));
    } else {
      set_.not_opened.push_back(std::move(library).error().message);
    }
  }

  // By its plain name, which the toolkit's own folder answers first.
  void AddOfToolkit(std::vector<OpenLibrary>& libraries, const std::string& name) {
    std::error_code ignored;
    const fs::path path = lib64_ / name;
    Add(libraries, !home_.empty() && fs::exists(path, ignored) ? path.string() : name);
  }

  void AddPackages() {
    for (const std::string& entry : Split(Environment("ASCEND_CUSTOM_OPP_PATH"), ':')) {
      Add(set_.packages, fs::path(entry) / kPackageLibrary);
    }
    const std::string opp = Environment("ASCEND_OPP_PATH");
    if (opp.empty()) {
      return;
    }
    const fs::path vendors = fs::path(opp) / "vendors";
    std::ifstream config(vendors / "config.ini");
    constexpr std::string_view kPriority = "load_priority=";
    for (std::string line; std::getline(config, line);) {
      if (!line.starts_with(kPriority)) {
        continue;
      }
      for (const std::string& vendor : Split(line.substr(kPriority.size()), ',')) {
        Add(set_.packages, vendors / vendor / kPackageLibrary);
      }
    }
  }

  void AddStandard() {
    std::vector<std::string> parts;
    std::error_code ignored;
    if (!home_.empty()) {
      for (const auto& entry : fs::directory_iterator(lib64_, ignored)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("libopapi_") && name.ends_with(".so")) {
          parts.push_back(entry.path());
        }
      }
    }
    std::ranges::sort(parts);
    for (const std::string& part : parts) {
      Add(set_.standard, part);
    }
    AddOfToolkit(set_.standard, "libopapi.so");
  }

  Result<LibrarySet> Run() {
    AddOfToolkit(set_.runtime, "libascendcl.so");
    if (set_.runtime.empty()) {
      return MakeError(StatusCode::kNotFound,
                       "no AscendCL on this machine: {} ({}, {}, {}; the toolkit's set_env.sh sets "
                       "the first two)",
                       set_.not_opened.back(), Describe("ASCEND_HOME_PATH"),
                       Describe("LD_LIBRARY_PATH"), Describe(kOverride));
    }
    AddOfToolkit(set_.meta, "libnnopbase.so");
    AddPackages();
    AddStandard();
    // Older toolkits have no library of their own for it.
    set_.meta.insert(set_.meta.end(), set_.standard.begin(), set_.standard.end());
    set_.meta.insert(set_.meta.end(), set_.packages.begin(), set_.packages.end());
    return std::move(set_);
  }

 private:
  const std::string home_ = Environment("ASCEND_HOME_PATH");
  const fs::path lib64_ = fs::path(home_) / "lib64";
  LibrarySet set_;
};

}  // namespace

Found LookUp(const OpenLibrary& library, const char* symbol) {
  Found found{.address = ::dlsym(library.handle, symbol), .file = ""};
  Dl_info info;
  if (found.address != nullptr && ::dladdr(found.address, &info) != 0) {
    found.file = info.dli_fname;
  }
  return found;
}

Result<LibrarySet> OpenLibraries(const std::string& path) {
  const std::string file = path.empty() ? Environment(kOverride) : path;
  if (file.empty()) {
    return Search().Run();
  }
  Result<OpenLibrary> library = Open(file);
  if (!library) {
    return MakeError(StatusCode::kNotFound, "no AscendCL library {}{}: {}", file,
                     path.empty() ? fmt::format(" ({})", kOverride) : "", library.error().message);
  }
  return LibrarySet{.runtime = {*library},
                    .meta = {*library},
                    .standard = {*library},
                    .packages = {*library},
                    .not_opened = {}};
}

Result<std::string> FindEmulator() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path lib = folder.parent_path() / "lib";
  const std::string places[] = {folder / kEmulator, lib / kEmulator,
                                lib / "ascend_emulator" / kEmulator};
  for (const std::string& path : places) {
    if (fs::exists(path, error)) {
      return path;
    }
  }
  return MakeError(StatusCode::kNotFound, "no emulator of AscendCL: looked for {}",
                   fmt::join(places, ", "));
}

}  // namespace cachalot::ascend
