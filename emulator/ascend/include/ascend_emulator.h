/* Control of the emulator of AscendCL, for programs that know it is one: settings, what it counted, what
 * it found wrong. Exported by the library beside AscendCL's own functions; README.md lists the settings
 * and counters. All may be called from any thread. */
#ifndef ASCEND_EMULATOR_H_
#define ASCEND_EMULATOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets what CACHALOT_EMULATOR_<NAME> sets; the name in lower case, "schedule" say. NULL, or why the value
 * will not do (valid until the thread's next call of a function of this header). "flavour" and "hide" act
 * on later dlsym; "devices", "hbm", "quarantine" and "trace" from the next ascend_emulator_reset on; the
 * others at once. */
const char* ascend_emulator_set(const char* name, const char* value);

/* All settings as the environment has them. */
void ascend_emulator_set_defaults(void);

/* Forgets all that the program made (memory, streams, ...), reports and counters, without a report on it;
 * threads have no device any more, and aclInit is due. The settings stay. No other call may be under way. */
void ascend_emulator_reset(void);

/* What the program did wrong so far, oldest first. A text is valid until the thread's next call of a
 * function of this header; NULL where there is none. */
size_t ascend_emulator_report_count(void);
const char* ascend_emulator_report(size_t index);
void ascend_emulator_clear_reports(void);

/* 0 where nothing was counted under the name. */
uint64_t ascend_emulator_counter(const char* name);
void ascend_emulator_clear_counters(void);

/* Names of the operators' limits that were lifted for small models, one a line. Valid as above. */
const char* ascend_emulator_lifted_limits(void);

/* Where the workers have the device memory of `device_pointer`, for tests that damage it as a wrong kernel
 * would. NULL for host pointers. */
void* ascend_emulator_worker_address(void* device_pointer);

#ifdef __cplusplus
}
#endif

#endif
