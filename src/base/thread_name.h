// What top, gdb and /proc/PID/task/*/comm call a thread.
#pragma once

#include <pthread.h>

#include <string>

namespace cachalot {

// The system takes at most 15 bytes, and leaves the name as it was where there are more.
inline void NameThisThread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.c_str());
}

}  // namespace cachalot
