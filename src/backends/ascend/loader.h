// Looks up all of symbols.def in the vendor's libraries, at start-up and once. Each library is asked
// by a handle of its own: one name may be in several of them and mean different things.
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
// kAuto: the custom package, where there is one.
enum class FlavourChoice { kAuto, kCustom, kStandard };

const char* NameOf(Flavour flavour);
// "auto", "custom" or "standard".
Result<FlavourChoice> ParseFlavour(const std::string& text);

struct LibraryOptions {
  std::string path;  // as OpenLibraries takes it
  FlavourChoice flavour = FlavourChoice::kAuto;
};

// Where one line of symbols.def was found.
struct Binding {
  const SymbolInfo* info = nullptr;
  std::string file;               // as dladdr names it; empty: nowhere
  const char* missing = nullptr;  // the name that was looked for in vain
};

class Libraries {
 public:
  // kNotFound where the runtime is not there, or no operators of the flavour asked for; kUnsupported
  // where it is no AscendCL, or functions are missing that are always needed: the message lists all.
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
  Libraries() = default;
  bool InUse(Source source) const;

  SymbolTable symbols_;
  Flavour flavour_ = Flavour::kStandard;
  std::vector<Binding> bindings_;  // as AllSymbols()
  std::vector<std::string> not_opened_;
};

}  // namespace cachalot::ascend
