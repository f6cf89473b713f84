// The safetensors files of a checkpoint folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "io/safetensors.h"

namespace cachalot {

// Opens what the folder's model.safetensors.index.json names; without one model.safetensors;
// without that every *.safetensors of the folder, by name. With an index every tensor must stand in
// the file that the index says, and every tensor of a file in the index.
Result<std::vector<SafetensorsFile>> OpenShards(const std::string& folder);

}  // namespace cachalot
