#include "backends/ascend/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace cachalot::ascend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kRoot = CACHALOT_TEST_LIBRARIES;

// The variables that say where libraries are: unset, but for those given; as they were afterwards.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* name : {"CACHALOT_ASCENDCL_LIB", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH",
                             "ASCEND_CUSTOM_OPP_PATH"}) {
      const char* before = std::getenv(name);
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      const auto value = values.find(name);
      Set(name, value == values.end() ? std::nullopt : std::optional(value->second));
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      Set(name, value);
    }
  }

 private:
  static void Set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

std::map<std::string, std::string> Toolkit() {
  return {{"ASCEND_HOME_PATH", kRoot + "/toolkit"}, {"ASCEND_OPP_PATH", kRoot + "/toolkit/opp"}};
}

// The file of a symbol as this source has it; empty where it was not found.
std::string FileOf(const Libraries& libraries, const std::string& symbol, Source source) {
  for (const Binding& binding : libraries.bindings()) {
    if (binding.info->symbol == symbol && binding.info->source == source) {
      return binding.file;
    }
  }
  ADD_FAILURE() << symbol << " is not listed";
  return "";
}

std::string LoadFails(const LibraryOptions& options, StatusCode code) {
  const auto libraries = Libraries::Load(options);
  if (libraries) {
    ADD_FAILURE() << "loaded";
    return "";
  }
  EXPECT_EQ(StatusCodeText(libraries.error().code), StatusCodeText(code));
  return libraries.error().message;
}

TEST(Loader, FindsEachFunctionInTheLibraryThatItBelongsTo) {
  const Environment environment(Toolkit());
  const auto loaded = Libraries::Load({});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Libraries& libraries = **loaded;
  const std::string lib64 = kRoot + "/toolkit/lib64";
  EXPECT_EQ(FileOf(libraries, "aclrtMalloc", Source::kRuntime), lib64 + "/libascendcl.so");
  EXPECT_EQ(FileOf(libraries, "aclCreateTensor", Source::kMeta), lib64 + "/libnnopbase.so");
  EXPECT_EQ(FileOf(libraries, "aclnnRmsNorm", Source::kStandard), lib64 + "/libopapi.so");
  for (const char* shared : {"aclnnCompressor", "aclnnDequantSwigluQuantV2"}) {
    EXPECT_EQ(FileOf(libraries, shared, Source::kOfficial), lib64 + "/libopapi_transformer.so");
    EXPECT_EQ(FileOf(libraries, shared, Source::kCustom),
              kRoot + "/toolkit/opp/vendors/acme/op_api/lib/libcust_opapi.so");
  }
  EXPECT_NE(libraries.symbols().CompressorCustom.prepare, nullptr);
  EXPECT_NE(libraries.symbols().CompressorCustom.launch,
            libraries.symbols().CompressorOfficial.launch);
  EXPECT_TRUE(libraries.Require(
      std::array{Feature::kGraphs, Feature::kForward, Feature::kCompression, Feature::kAttention}));
}

TEST(Loader, TakesTheCustomPackageUnlessToldOtherwise) {
  const Environment environment(Toolkit());
  EXPECT_EQ((*Libraries::Load({}))->flavour(), Flavour::kCustom);
  const auto standard = Libraries::Load({.path = "", .flavour = FlavourChoice::kStandard});
  ASSERT_TRUE(standard) << standard.error().message;
  EXPECT_EQ((*standard)->flavour(), Flavour::kStandard);
}

TEST(Loader, TakesPackagesOfTheirOwnBeforeThoseOfTheToolkit) {
  auto values = Toolkit();
  values["ASCEND_CUSTOM_OPP_PATH"] = kRoot + "/absent:" + kRoot + "/package";
  const Environment environment(values);
  const auto libraries = Libraries::Load({});
  ASSERT_TRUE(libraries) << libraries.error().message;
  EXPECT_EQ(FileOf(**libraries, "aclnnHcPre", Source::kCustom),
            kRoot + "/package/op_api/lib/libcust_opapi.so");
}

TEST(Loader, SaysWhatItLookedForWhereThereIsNothing) {
  const Environment environment({});
  EXPECT_THAT(LoadFails({}, StatusCode::kNotFound),
              AllOf(HasSubstr("libascendcl.so"), HasSubstr("ASCEND_HOME_PATH unset"),
                    HasSubstr("CACHALOT_ASCENDCL_LIB unset")));
}

TEST(Loader, LetsOneFileBeEveryLibrary) {
  const Environment environment({{"CACHALOT_ASCENDCL_LIB", kRoot + "/official.so"}});
  const auto official = Libraries::Load({});
  ASSERT_TRUE(official) << official.error().message;
  EXPECT_EQ((*official)->flavour(), Flavour::kStandard);
  EXPECT_EQ(FileOf(**official, "aclInit", Source::kRuntime), kRoot + "/official.so");
  EXPECT_TRUE(static_cast<bool>((*official)->symbols().CompressorOfficial));
  EXPECT_FALSE(static_cast<bool>((*official)->symbols().CompressorCustom));

  const auto custom = Libraries::Load({.path = kRoot + "/custom.so"});  // over the variable
  ASSERT_TRUE(custom) << custom.error().message;
  EXPECT_EQ((*custom)->flavour(), Flavour::kCustom);
  EXPECT_TRUE(static_cast<bool>((*custom)->symbols().CompressorCustom));
  EXPECT_FALSE(static_cast<bool>((*custom)->symbols().CompressorOfficial));

  EXPECT_THAT(LoadFails({.path = kRoot + "/absent.so"}, StatusCode::kNotFound),
              HasSubstr("absent.so"));
}

TEST(Loader, RefusesAFileThatIsNoAscendCl) {
  EXPECT_THAT(LoadFails({.path = kRoot + "/wrong.so"}, StatusCode::kUnsupported),
              AllOf(HasSubstr("wrong.so"), HasSubstr("no AscendCL library")));
}

TEST(Loader, ListsAllThatIsMissingAtOnce) {
  EXPECT_THAT(
      LoadFails({.path = kRoot + "/lacking.so"}, StatusCode::kUnsupported),
      AllOf(HasSubstr("aclrtMalloc"), HasSubstr("aclCreateTensor"), Not(HasSubstr("aclrtFree")),
            Not(HasSubstr("aclmdlRIDestroy"))));  // nobody asked for graphs
}

TEST(Loader, RefusesAnotherFlavourThanAsked) {
  EXPECT_THAT(LoadFails({.path = kRoot + "/official.so", .flavour = FlavourChoice::kCustom},
                        StatusCode::kNotFound),
              AllOf(HasSubstr("custom"), HasSubstr("aclnnSparseAttnSharedkv")));
  EXPECT_THAT(LoadFails({.path = kRoot + "/custom.so", .flavour = FlavourChoice::kStandard},
                        StatusCode::kNotFound),
              AllOf(HasSubstr("standard"), HasSubstr("aclnnSparseFlashMla")));
  EXPECT_EQ(*ParseFlavour("standard"), FlavourChoice::kStandard);
  EXPECT_FALSE(ParseFlavour("official"));
}

TEST(Loader, ListsWhatAFeatureLacksInTheFlavourInUse) {
  auto values = Toolkit();
  values["ASCEND_CUSTOM_OPP_PATH"] = kRoot + "/gaps";
  values.erase("ASCEND_OPP_PATH");
  const Environment environment(values);
  const auto custom = Libraries::Load({});
  ASSERT_TRUE(custom) << custom.error().message;
  EXPECT_THAT((*custom)->Missing(Feature::kHyperConnections), ElementsAre("aclnnHcPost"));
  EXPECT_THAT((*custom)->Missing(Feature::kCompression),
              ElementsAre("aclnnCompressorGetWorkspaceSize"));
  EXPECT_THAT((*custom)->Missing(Feature::kAttention), IsEmpty());
  EXPECT_FALSE(static_cast<bool>((*custom)->symbols().HcPost));
  const Status status =
      (*custom)->Require(std::array{Feature::kHyperConnections, Feature::kCompression});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("hyper-connections: aclnnHcPost"),
                    HasSubstr("compression: aclnnCompressorGetWorkspaceSize")));

  const auto standard = Libraries::Load({.path = "", .flavour = FlavourChoice::kStandard});
  ASSERT_TRUE(standard) << standard.error().message;
  EXPECT_TRUE((*standard)->Require(std::array{Feature::kHyperConnections, Feature::kCompression}));
}

TEST(Loader, PrintsWhereEachFunctionComesFrom) {
  const auto libraries = Libraries::Load({.path = kRoot + "/custom.so"});
  ASSERT_TRUE(libraries) << libraries.error().message;
  const std::string table = (*libraries)->Table();
  EXPECT_THAT(table, HasSubstr("operators: custom"));
  EXPECT_THAT(table, testing::ContainsRegex("aclnnHcPre +custom +hyper-connections .*/custom.so"));
  EXPECT_THAT(table, testing::ContainsRegex("aclnnMhcPost +official .*missing: aclnnMhcPost"));
}

}  // namespace
}  // namespace cachalot::ascend
