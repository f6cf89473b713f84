# cmake -DPAGE=index.html -DSOURCE=index_page.cc -P embed.cmake: writes the page as an array of bytes.
file(READ ${PAGE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${SOURCE} "#include \"server/page.h\"

namespace cachalot {
namespace {
constexpr unsigned char kIndexPage[] = {${bytes}};
}  // namespace

std::string_view IndexPage() {
  return {reinterpret_cast<const char*>(kIndexPage), sizeof(kIndexPage)};
}

}  // namespace cachalot
")
