#include "checkpoint/shards.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "io/json.h"

namespace cachalot {
namespace {

constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr char kExtension[] = ".safetensors";

// Text of a hostile file, fit for one line.
std::string Quoted(const std::string& text) { return DumpJson(Json(text.substr(0, 120))); }

// Only a plain name: an index must not lead out of its folder.
bool IsFileName(const std::string& name) {
  return name.ends_with(kExtension) && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Status CheckAgainstIndex(const std::string& index_path, const Json& weight_map,
                         const std::map<std::string, SafetensorsFile>& files) {
  for (const auto& [name, file] : files) {
    std::set<std::string_view> in_file;
    for (const auto& entry : file.entries()) {
      in_file.insert(entry.name);
      const auto place = weight_map.find(entry.name);
      if (place == weight_map.end() || *place != name) {
        return MakeError(StatusCode::kDataLoss, "{}: tensor {} is in {}, but the index says {}",
                         index_path, Quoted(entry.name), name,
                         place == weight_map.end() ? "nothing" : DumpJson(*place));
      }
    }
    for (const auto& [tensor, place] : weight_map.items()) {
      if (place == name && !in_file.contains(tensor)) {
        return MakeError(StatusCode::kDataLoss, "{}: tensor {} is missing, the index expects it",
                         file.path(), Quoted(tensor));
      }
    }
  }
  return {};
}

Result<std::vector<SafetensorsFile>> OpenIndexed(const std::string& folder,
                                                 const std::string& index_path) {
  CACHALOT_ASSIGN_OR_RETURN(const Json index, ReadJsonFile(index_path, kMaxIndexBytes));
  const auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (weight_map == index.end() || !weight_map->is_object() || weight_map->empty()) {
    return MakeError(StatusCode::kDataLoss, "{}: weight_map is missing, expected an object",
                     index_path);
  }
  std::map<std::string, SafetensorsFile> files;
  for (const auto& [tensor, place] : weight_map->items()) {
    if (!place.is_string() || !IsFileName(place.get_ref<const std::string&>())) {
      return MakeError(StatusCode::kDataLoss,
                       "{}: weight_map has {} for tensor {}, expected the name of a safetensors "
                       "file in this folder",
                       index_path, Quoted(DumpJson(place)), Quoted(tensor));
    }
    const std::string& name = place.get_ref<const std::string&>();
    if (files.contains(name)) {
      continue;
    }
    auto file = SafetensorsFile::Open(folder + "/" + name);
    if (!file) {
      return MakeError(file.error().code, "{} (a shard that {} names)", file.error().message,
                       index_path);
    }
    files.emplace(name, std::move(*file));
  }
  CACHALOT_RETURN_IF_ERROR(CheckAgainstIndex(index_path, *weight_map, files));
  std::vector<SafetensorsFile> opened;
  for (auto& [name, file] : files) {
    opened.push_back(std::move(file));
  }
  return opened;
}

Result<std::vector<std::string>> ListFiles(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  std::vector<std::string> paths;
  while (!error && it != std::filesystem::directory_iterator()) {
    if (it->path().extension() == kExtension) {
      paths.push_back(it->path().string());
    }
    it.increment(error);
  }
  if (error) {
    return MakeError(StatusCode::kNotFound, "{}: cannot list the folder: {}", folder,
                     error.message());
  }
  if (paths.empty()) {
    return MakeError(StatusCode::kNotFound,
                     "{}: no weights, expected model.safetensors or shards with "
                     "model.safetensors.index.json",
                     folder);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

Result<std::vector<SafetensorsFile>> OpenShards(const std::string& folder) {
  const std::string index_path = folder + "/model.safetensors.index.json";
  if (Exists(index_path)) {
    return OpenIndexed(folder, index_path);
  }
  std::vector<std::string> paths = {folder + "/model.safetensors"};
  if (!Exists(paths[0])) {
    CACHALOT_ASSIGN_OR_RETURN(paths, ListFiles(folder));
  }
  std::vector<SafetensorsFile> files;
  for (const auto& path : paths) {
    CACHALOT_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace cachalot
