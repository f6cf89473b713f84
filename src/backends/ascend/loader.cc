#include "backends/ascend/loader.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "backends/ascend/library_search.h"

namespace cachalot::ascend {
namespace {

// Whether the custom package and the standard library have the name both, and mean different things.
bool IsShared(const SymbolInfo& info) {
  return std::ranges::count_if(AllSymbols(), [&](const SymbolInfo& other) {
           return std::string_view(other.symbol) == info.symbol;
         }) > 1;
}

bool IsCustomFile(const LibrarySet& set, const std::string& file) {
  return std::ranges::any_of(set.packages, [&](const OpenLibrary& library) {
    return library.custom && library.file == file;
  });
}

std::vector<OpenLibrary> Candidates(const LibrarySet& set, Source source) {
  switch (source) {
    case Source::kRuntime:
      return set.runtime;
    case Source::kMeta:
      return set.meta;
    case Source::kStandard:
      return set.standard;
    case Source::kCustom:
      return set.packages;
    case Source::kOfficial: {
      // A package may bring newer ones than the toolkit has.
      std::vector<OpenLibrary> libraries;
      std::ranges::copy_if(set.packages, std::back_inserter(libraries),
                           [](const OpenLibrary& library) { return library.successors; });
      libraries.insert(libraries.end(), set.standard.begin(), set.standard.end());
      return libraries;
    }
  }
  return {};
}

Binding Bind(const LibrarySet& set, const SymbolInfo& info, SymbolTable& table) {
  const bool shared = IsShared(info);
  Binding binding{.info = &info, .file = "", .missing = info.symbol};
  for (const OpenLibrary& library : Candidates(set, info.source)) {
    const Found function = LookUp(library, info.symbol);
    if (function.address == nullptr) {
      continue;
    }
    if (shared && IsCustomFile(set, function.file) != (info.source == Source::kCustom)) {
      continue;
    }
    Found prepared;
    if (info.prepare != nullptr) {
      prepared = LookUp(library, info.prepare);
      if (prepared.address == nullptr) {
        binding.missing = info.prepare;
        continue;
      }
    }
    info.bind(table, function.address, prepared.address);
    binding.file = function.file;
    binding.missing = nullptr;
    break;
  }
  return binding;
}

// A file that has none of the runtime's functions is something else altogether.
Status CheckIsRuntime(const LibrarySet& set) {
  const OpenLibrary& library = set.runtime.front();
  const bool any = std::ranges::any_of(AllSymbols(), [&](const SymbolInfo& info) {
    return info.source == Source::kRuntime && LookUp(library, info.symbol).address != nullptr;
  });
  if (!any) {
    return MakeError(StatusCode::kUnsupported,
                     "{} is no AscendCL library: it has neither aclInit nor any other function of "
                     "the runtime",
                     library.file);
  }
  return {};
}

// " (not opened: ...)" where there are such, to end a message.
std::string NotOpened(const std::vector<std::string>& reasons) {
  return reasons.empty() ? "" : fmt::format(" (not opened: {})", fmt::join(reasons, "; "));
}

Result<Flavour> Choose(const LibrarySet& set, FlavourChoice choice) {
  const auto is_custom = [](const OpenLibrary& library) { return library.custom; };
  const auto has_successors = [](const OpenLibrary& library) { return library.successors; };
  const bool custom = std::ranges::any_of(set.packages, is_custom);
  const bool standard = std::ranges::any_of(set.packages, has_successors) ||
                        std::ranges::any_of(set.standard, has_successors);
  if (choice == FlavourChoice::kCustom && !custom) {
    return MakeError(StatusCode::kNotFound,
                     "a custom operator package asked for, but no library has "
                     "aclnnSparseAttnSharedkv{}: is ASCEND_CUSTOM_OPP_PATH set?",
                     standard ? ", only the standard library's operators are there" : "");
  }
  if (choice == FlavourChoice::kStandard && !standard) {
    return MakeError(StatusCode::kNotFound,
                     "the standard library's operators asked for, but no library has "
                     "aclnnSparseFlashMla{}",
                     custom ? ", only a custom package's operators are there" : "");
  }
  if (!custom && !standard) {
    return MakeError(
        StatusCode::kNotFound,
        "no operators for this model: no library has aclnnSparseAttnSharedkv, as a custom "
        "operator package does, or aclnnSparseFlashMla, as the standard library does{}",
        NotOpened(set.not_opened));
  }
  if (choice == FlavourChoice::kAuto) {
    return custom ? Flavour::kCustom : Flavour::kStandard;
  }
  return choice == FlavourChoice::kCustom ? Flavour::kCustom : Flavour::kStandard;
}

}  // namespace

const char* NameOf(Flavour flavour) { return flavour == Flavour::kCustom ? "custom" : "standard"; }

Result<FlavourChoice> ParseFlavour(const std::string& text) {
  for (const auto& [name, choice] :
       {std::pair{"auto", FlavourChoice::kAuto}, std::pair{"custom", FlavourChoice::kCustom},
        std::pair{"standard", FlavourChoice::kStandard}}) {
    if (text == name) {
      return choice;
    }
  }
  return MakeError(StatusCode::kInvalidArgument,
                   "operators of flavour '{}', expected auto, custom or standard", text);
}

Result<std::shared_ptr<const Libraries>> Libraries::Load(const LibraryOptions& options) {
  CACHALOT_ASSIGN_OR_RETURN(const LibrarySet set, OpenLibraries(options.path));
  CACHALOT_RETURN_IF_ERROR(CheckIsRuntime(set));
  const auto libraries = std::shared_ptr<Libraries>(new Libraries);
  for (const SymbolInfo& info : AllSymbols()) {
    libraries->bindings_.push_back(Bind(set, info, libraries->symbols_));
  }
  libraries->not_opened_ = set.not_opened;
  constexpr Feature kNeeded[] = {Feature::kAlways};
  CACHALOT_RETURN_IF_ERROR(libraries->Require(kNeeded));
  CACHALOT_ASSIGN_OR_RETURN(libraries->flavour_, Choose(set, options.flavour));
  return libraries;
}

bool Libraries::InUse(Source source) const {
  return source != (flavour_ == Flavour::kCustom ? Source::kOfficial : Source::kCustom);
}

std::vector<std::string> Libraries::Missing(Feature feature) const {
  std::vector<std::string> names;
  for (const Binding& binding : bindings_) {
    if (binding.info->feature == feature && binding.missing != nullptr &&
        InUse(binding.info->source)) {
      names.emplace_back(binding.missing);
    }
  }
  return names;
}

Status Libraries::Require(std::span<const Feature> features) const {
  std::string text;
  for (const Feature feature : features) {
    if (const auto names = Missing(feature); !names.empty()) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", NameOf(feature),
                          fmt::join(names, ", "));
    }
  }
  if (text.empty()) {
    return {};
  }
  return MakeError(StatusCode::kUnsupported, "AscendCL lacks functions: {}{}", text,
                   NotOpened(not_opened_));
}

std::string Libraries::Table() const {
  std::string text = fmt::format("operators: {}\n", NameOf(flavour_));
  for (const Binding& binding : bindings_) {
    text += fmt::format(
        "{:<40} {:<10} {:<18} {}\n", binding.info->symbol, NameOf(binding.info->source),
        NameOf(binding.info->feature),
        binding.missing == nullptr ? binding.file : fmt::format("missing: {}", binding.missing));
  }
  for (const std::string& reason : not_opened_) {
    text += fmt::format("not opened: {}\n", reason);
  }
  return text;
}

}  // namespace cachalot::ascend
