#include "chat/python_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

struct StringCase {
  const char* file;
  const char* value;  // of x; nullptr where x is no constant
};

constexpr StringCase kStringCases[] = {
    {"x = 'a'", "a"},
    {"x = \"a'b\"\n", "a'b"},
    {"x: str = 'a'\n", "a"},
    {"x: Dict[str, Any] = 'a'\n", "a"},
    {"x = '''a\nb''c'''\n", "a\nb''c"},
    {"x = \"\"\"\\\na\n\"\"\"\n", "a\n"},
    {"x = ''\n", ""},
    {"x = ('a'\n     'b'\n  # why\n     'c')\n", "abc"},
    {"x = 'a' 'b' \"c\"\n", "abc"},
    {"x = 'a' + ('b' + 'c') + 'd'\n", "abcd"},
    {"x = 'a' \\\n  'b'\n", "ab"},
    {"y = 'a'\nx = y + 'b'\n", "ab"},
    {"x = 'a'  # a comment with 'quotes\n", "a"},
    {"x = 'a#b'\n", "a#b"},
    {"x = 'a'; y = 'b'\n", "a"},
    {"x = 'a'\nx = 'b'\n", "b"},
    {"x = r'\\n\\'' 'b'\n", "\\n\\'b"},
    {"x = u'a'\n", "a"},
    {"x = '\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"'\n", "\a\b\f\n\r\t\v\\'\""},
    {"x = '\\x41\\101\\u4e2d\\U0001F600\\7'\n", "AA中😀\7"},
    {"x = '\\ud800\\q'\n", "\xEF\xBF\xBD\\q"},
    {"x = '''a\r\nb\rc'''\r\n", "a\nb\nc"},
    {"\xEF\xBB\xBFx = 'a'\n", "a"},
    {"\"\"\"doc\nx = 'wrong'\n\"\"\"\nx = 'a'\n", "a"},
    {"def f():\n    x = 'wrong'\n    return '('\nx = 'a'\n", "a"},
    {"x = 'a'\nif x == 'b':\n    x = 'c'\n", "a"},
    {"x = 'a'\nx: str\n", "a"},
    // no constants
    {"x = f'a'\n", nullptr},
    {"x = b'a'\n", nullptr},
    {"x = Rb'a'\n", nullptr},
    {"x = 'a' f'b'\n", nullptr},
    {"x = '\\N{BULLET}'\n", nullptr},
    {"x = '\\x4'\n", nullptr},
    {"x = '\\U00110000'\n", "\xEF\xBF\xBD"},
    {"x = 'a' % y\n", nullptr},
    {"x = 'a'.strip()\n", nullptr},
    {"x = 'a', 'b'\n", nullptr},
    {"x = ('a',)\n", nullptr},
    {"x = 'a' if y else 'b'\n", nullptr},
    {"x = 'a' * 1000000000\n", nullptr},
    {"x = 3\n", nullptr},
    {"x = y\n", nullptr},
    {"x = y + 'a'\n", nullptr},
    {"x = __import__('os').system('true')\n", nullptr},
    {"x = 'a'\nx += 'b'\n", nullptr},
    {"x = 'a'\nx = f(x)\n", nullptr},
    {"x = \n", nullptr},
    {"x = (\n", nullptr},
    {"x = ('a'\n", nullptr},
    {"x = 'a')\n", nullptr},
    {" x = 'a'\n", nullptr},
    {"x\n", nullptr},
    {"", nullptr},
    {"((((((((((((\n", nullptr},
    {"))))\nx = 'a'\n", "a"},
    {"= 'a'\n: = {\n", nullptr},
};

TEST(PythonConstants, ReadsStringsAndPassesOverTheRest) {
  for (const auto& [file, value] : kStringCases) {
    const auto constants = ReadPythonConstants(file, "t.py");
    ASSERT_TRUE(constants) << file << constants.error().message;
    const auto x = constants->strings.find("x");
    ASSERT_EQ(x != constants->strings.end(), value != nullptr) << file;
    if (value != nullptr) {
      EXPECT_EQ(x->second, value) << file;
    }
  }
}

TEST(PythonConstants, ReadsDictionariesOfStrings) {
  const auto constants = ReadPythonConstants(
      "A = 'one'\n"
      "D: Dict[str, str] = {\n    'low': '',  # nothing\n    'high': ('a'\n 'b'),\n    \"max\": A "
      "+ '!',\n}\n"
      "E = {}\nF = {'a': 1}\nG = {'a'}\nH = {'a': 'b'}.keys()\nI = {'a': 'b', **D}\nJ = {'a': "
      "'b'\n",
      "t.py");
  ASSERT_TRUE(constants);
  EXPECT_THAT(
      constants->dictionaries,
      ElementsAre(Pair("D", ElementsAre(Pair("high", "ab"), Pair("low", ""), Pair("max", "one!"))),
                  Pair("E", IsEmpty())));
}

TEST(PythonConstants, NamesTheLineOfAnEndlessString) {
  for (const char* file :
       {"a = 1\n\nx = 'abc\ny = 1\n", "a = 1\n\nx = \"\"\"abc\"\"\n", "a = 1\n\nx = 'abc\\"}) {
    const auto constants = ReadPythonConstants(file, "t.py");
    ASSERT_FALSE(constants) << file;
    EXPECT_EQ(constants.error().message, "t.py: string of line 3 has no end");
  }
}

TEST(PythonConstants, RefusesWhatIsNotUtf8) {
  const auto constants = ReadPythonConstants("x = '\xff'\n", "t.py");
  ASSERT_FALSE(constants);
  EXPECT_THAT(constants.error().message, HasSubstr("t.py: not valid UTF-8"));
}

TEST(PythonConstants, DoesNotGrowBeyondTheFile) {
  std::string doubling = "a = 'xxxxxxxxxxxxxxxx'\n";
  for (int i = 0; i < 1000; ++i) {
    doubling += "a = a + a\n";
  }
  const auto constants = ReadPythonConstants(doubling, "t.py");
  ASSERT_TRUE(constants);
  EXPECT_THAT(constants->strings, IsEmpty());
}

TEST(PythonConstants, BoundsNesting) {
  const std::string deep =
      "x = " + std::string(100000, '(') + "'a'" + std::string(100000, ')') + "\ny = 'b'\n";
  const auto constants = ReadPythonConstants(deep, "t.py");
  ASSERT_TRUE(constants);
  EXPECT_THAT(constants->strings, ElementsAre(Pair("y", "b")));
}

}  // namespace
}  // namespace cachalot
