// Which files are the vendor's libraries on this machine, and an open handle for each. They stay
// open: their threads would not outlive their code.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cachalot::ascend {

struct OpenLibrary {
  void* handle = nullptr;
  std::string file;  // of the handle itself, not of what it depends on
  // It has the custom package's attention (aclnnSparseAttnSharedkv), so that whatever else it has
  // is the custom package's too; or that of the official successors (aclnnSparseFlashMla).
  bool custom = false;
  bool successors = false;
};

struct Found {
  void* address = nullptr;  // null: not there
  std::string file;         // that has it: the library or one that it depends on
};
Found LookUp(const OpenLibrary& library, const char* symbol);

// In the order in which they are asked.
struct LibrarySet {
  std::vector<OpenLibrary> runtime;
  std::vector<OpenLibrary> meta;
  std::vector<OpenLibrary> standard;
  std::vector<OpenLibrary> packages;
  std::vector<std::string> not_opened;  // with the reason
};

// `path` where it is not empty, else CACHALOT_ASCENDCL_LIB, as all of them. Else
//   packages  $entry/op_api/lib/libcust_opapi.so for the entries of ASCEND_CUSTOM_OPP_PATH, then
//             $ASCEND_OPP_PATH/vendors/$vendor/op_api/lib/libcust_opapi.so for the load_priority
//             of vendors/config.ini
//   standard  $ASCEND_HOME_PATH/lib64/libopapi_*.so, libopapi.so
//   meta      libnnopbase.so, then the two above
//   runtime   libascendcl.so
// Plain names are looked for in $ASCEND_HOME_PATH/lib64 first. kNotFound where there is no runtime.
Result<LibrarySet> OpenLibraries(const std::string& path);

// The emulator that was built with this program: beside the executable, in ../lib or in the folder
// of it that the emulator is installed in. kNotFound names all three.
Result<std::string> FindEmulator();

}  // namespace cachalot::ascend
