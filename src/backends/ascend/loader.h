// Finds the vendor's libraries and looks up all of symbols.def in them, at start-up and once. Each
// library has a handle of its own: one name may be in several of them and mean different things.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/ascend/symbol_table.h"
#include "base/result.h"

namespace cachalot::ascend {

// Which operators serve where a custom package and the standard library have one each.
enum class Flavour { kCustom, kStandard };
enum class FlavourChoice {
  kAuto,
  kCustom,
  kStandard
};  // kAuto: the custom package, if there is one

const char* NameOf(Flavour flavour);
// "auto", "custom" or "standard".
Result<FlavourChoice> ParseFlavour(const std::string& text);

struct LibraryOptions {
  // A file that serves as every library; empty: that of CACHALOT_ASCENDCL_LIB, and where that is
  // unset the libraries of the toolkit.
  std::string path;
  FlavourChoice flavour = FlavourChoice::kAuto;
};

// Where one line of symbols.def was found.
struct Binding {
  const SymbolInfo* info = nullptr;
  std::string file;  // as dladdr names it; empty: nowhere
};

class Libraries {
 public:
  // kNotFound where a library is not there or the flavour is another than asked for; kUnsupported
  // where it is no AscendCL or lacks a function that is always needed: the message lists all of them.
  static Result<std::shared_ptr<const Libraries>> Load(const LibraryOptions& options);

  const SymbolTable& symbols() const { return symbols_; }
  Flavour flavour() const { return flavour_; }
  std::span<const Binding> bindings() const { return bindings_; }

  // What the feature needs in this flavour and no library has.
  std::vector<std::string> Missing(Feature feature) const;
  // kUnsupported, with all that is missing, by feature.
  Status Require(std::span<const Feature> features) const;
  // A line for each function: its name, what it serves, the file that it comes from.
  std::string Table() const;

 private:
  friend class LibraryBinder;
  Libraries() = default;

  SymbolTable symbols_;
  Flavour flavour_ = Flavour::kStandard;
  std::vector<Binding> bindings_;  // as AllSymbols()
};

// The emulator that was built with this program: beside the executable, or in ../lib. kNotFound
// names both.
Result<std::string> FindEmulator();

}  // namespace cachalot::ascend
