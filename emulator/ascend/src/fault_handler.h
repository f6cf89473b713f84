#pragma once

namespace ascend_emulator {

// From now on a thread that reads or writes through a device pointer is told so, before the process gets
// what a segmentation fault brings otherwise. Once is enough.
void WatchForHostAccess();

}  // namespace ascend_emulator
