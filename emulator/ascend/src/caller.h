#pragma once

namespace ascend_emulator {

// The nearest return address on the stack that is not in this library: where the program called.
const void* CallerOutside();

}  // namespace ascend_emulator
