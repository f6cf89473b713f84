"""The system calls of Linux for one process in the machine."""

import bisect
import ctypes
import errno
import mmap
import os
import re
import struct
import sys
import time

import threads
from machine import STATE, TILE_STATE
from memory import MAP_NORESERVE, PAGE, TOP, round_up

BREAK_END, MAPPINGS, MAPPINGS_END = 0x1E0000000, 0x200000000, 0xE00000000
MAP_FIXED, MREMAP_MAYMOVE = 0x10, 1
READ, WRITE, MMAP, KILL, RSEQ = 0, 1, 9, 62, 334  # numbers of system calls
NO_FILE = 0xFFFFFFFF

# Handed to the host as they are: name, number, and the arguments; p is an address in the program.
# fmt: off
PASSED = {
    0: ("read", "ipi"), 1: ("write", "ipi"), 2: ("open", "pii"), 3: ("close", "i"),
    4: ("stat", "pp"), 5: ("fstat", "ip"), 6: ("lstat", "pp"), 7: ("poll", "pii"),
    8: ("lseek", "iii"), 16: ("ioctl", "iip"), 17: ("pread64", "ipii"), 18: ("pwrite64", "ipii"),
    21: ("access", "pi"), 22: ("pipe", "p"), 28: ("madvise", "pii"), 32: ("dup", "i"),
    33: ("dup2", "ii"), 39: ("getpid", ""), 61: ("wait4", "ipip"), 63: ("uname", "p"),
    72: ("fcntl", "iii"), 74: ("fsync", "i"), 75: ("fdatasync", "i"), 76: ("truncate", "pi"),
    77: ("ftruncate", "ii"), 79: ("getcwd", "pi"), 80: ("chdir", "p"), 82: ("rename", "pp"),
    83: ("mkdir", "pi"), 84: ("rmdir", "p"), 87: ("unlink", "p"), 89: ("readlink", "ppi"),
    90: ("chmod", "pi"), 96: ("gettimeofday", "pp"), 98: ("getrusage", "ip"), 99: ("sysinfo", "p"),
    102: ("getuid", ""), 104: ("getgid", ""), 107: ("geteuid", ""), 108: ("getegid", ""),
    110: ("getppid", ""), 201: ("time", "p"), 217: ("getdents64", "ipi"),
    228: ("clock_gettime", "ip"), 229: ("clock_getres", "ip"), 257: ("openat", "ipii"),
    258: ("mkdirat", "ipi"), 262: ("newfstatat", "ippi"), 263: ("unlinkat", "ipi"),
    264: ("renameat", "ipip"), 267: ("readlinkat", "ippi"), 269: ("faccessat", "ipi"),
    292: ("dup3", "iii"), 293: ("pipe2", "pi"), 302: ("prlimit64", "iipp"),
    316: ("renameat2", "ipipi"), 318: ("getrandom", "pii"), 332: ("statx", "ipiip"),
    439: ("faccessat2", "ipii"),
}
# fmt: on

# Answered with success without an effect: there are no signals to handle, and one processor.
# fmt: off
IGNORED = {
    13: "rt_sigaction", 14: "rt_sigprocmask", 131: "sigaltstack", 149: "mlock",
    203: "sched_setaffinity", 221: "fadvise64", 273: "set_robust_list",
}
# fmt: on

CLONE_VM, CLONE_SETTLS, CLONE_THREAD = 0x100, 0x80000, 0x10000
CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x100000, 0x200000, 0x1000000


class Exit(Exception):
    """The program has ended, with this status."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class Process:
    """The program as the kernel sees it."""

    def __init__(self, machine, path, data_end):
        self.machine = machine
        self.bytes = machine.memory.bytes
        self.path = path
        self.break_start = self.break_end = data_end
        self.starts, self.ends = [], []  # of the mappings, in order
        self.reported = set()
        self.threads = threads.Threads(machine, os.getpid())
        # fmt: off
        self.calls = {
            9: self.mmap, 10: self.mprotect, 11: self.munmap, 12: self.brk, 19: self.readv,
            20: self.writev, 24: self.sched_yield, 25: self.mremap, 35: self.nanosleep,
            56: self.clone, 60: self.exit, 62: self.kill, 89: self.readlink, 158: self.arch_prctl,
            186: self.gettid, 200: self.kill, 202: self.futex, 204: self.sched_getaffinity,
            218: self.set_tid_address, 230: self.clock_nanosleep, 231: self.exit_group,
            234: self.tgkill, 435: self.clone3,
        }
        # fmt: on
        machine.libc.syscall.restype = ctypes.c_long

    def system_call(self):
        cpu = self.machine.cpu
        number = cpu.rax
        arguments = (cpu.rdi, cpu.rsi, cpu.rdx, cpu.r10, cpu.r8, cpu.r9)
        if number in self.calls:
            result = self.calls[number](*arguments)
        elif number in PASSED:
            result = self.passed(*arguments)
        elif number in IGNORED:
            result = 0
        else:
            result = self.unsupported(*arguments)
        if result is not None:  # else another thread goes on
            cpu.rax = result & 0xFFFFFFFFFFFFFFFF

    # ---- what the host does ----

    def host(self, number, *arguments):
        result = self.machine.libc.syscall(
            ctypes.c_long(number), *(ctypes.c_uint64(value) for value in arguments)
        )
        return -ctypes.get_errno() if result == -1 else result

    def address(self, guest):
        """The host's address of a guest address; null for one that no program has."""
        return self.machine.memory.base + guest if 0 < guest < TOP else 0

    def passed(self, *arguments):
        number = self.machine.cpu.rax
        kinds = PASSED[number][1]
        values = (
            self.address(value) if kind == "p" else value
            for kind, value in zip(kinds, arguments, strict=False)
        )
        return self.host(number, *values)

    def vectors(self, number, descriptor, vector, count):
        done = 0
        for i in range(count):
            base, size = struct.unpack_from("<QQ", self.bytes, vector + 16 * i)
            result = self.host(number, descriptor, self.address(base), size) if size else 0
            if result < 0:
                return done or result
            done += result
            if result < size:
                break
        return done

    def readv(self, descriptor, vector, count, *_):
        return self.vectors(READ, descriptor, vector, count)

    def writev(self, descriptor, vector, count, *_):
        return self.vectors(WRITE, descriptor, vector, count)

    def readlink(self, path, buffer, size, *_):
        if ctypes.string_at(self.address(path)) != b"/proc/self/exe":
            return self.passed(path, buffer, size)
        target = os.fsencode(self.path)[:size]
        self.machine.memory.write(buffer, target)
        return len(target)

    # ---- memory ----

    def gap(self, size):
        """The first hole among the mappings that holds size bytes."""
        start = MAPPINGS
        for begin, end in zip(self.starts, self.ends, strict=True):
            if begin - start >= size:
                break
            start = end
        return start if start + size <= MAPPINGS_END else None

    def forget(self, start, end):
        """Takes [start, end) out of the mappings."""
        first = bisect.bisect_right(self.ends, start)
        last = bisect.bisect_left(self.starts, end)
        if first >= last:
            return
        before, after = self.starts[first], self.ends[last - 1]
        rest = [(before, start)] * (before < start) + [(end, after)] * (end < after)
        self.starts[first:last] = [pair[0] for pair in rest]
        self.ends[first:last] = [pair[1] for pair in rest]

    def remember(self, start, end):
        self.forget(start, end)
        at = bisect.bisect_left(self.starts, start)
        self.starts.insert(at, start)
        self.ends.insert(at, end)

    def mmap(self, address, size, access, flags, descriptor, offset):
        size = round_up(size)
        if size == 0 or offset % PAGE:
            return -errno.EINVAL
        if not flags & MAP_FIXED:
            address = self.gap(size)
            if address is None:
                return -errno.ENOMEM
        elif address % PAGE or address + size > TOP:
            return -errno.EINVAL
        # The page tables hold what the program may do. The host reads all, and writes all but a
        # shared file, which may be open for reading only.
        kinds = mmap.MAP_SHARED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        host_access = mmap.PROT_READ | mmap.PROT_WRITE
        if flags & kinds == mmap.MAP_SHARED and not access & mmap.PROT_WRITE:
            host_access = mmap.PROT_READ
        result = self.map_host(address, size, host_access, flags & kinds, descriptor, offset)
        if result < 0:
            return result
        self.remember(address, address + size)
        self.protect(address, size, access)
        return address

    def protect(self, address, size, access):
        letters = {letter for bit, letter in ((1, "r"), (2, "w"), (4, "x")) if access & bit}
        self.machine.protect(address, address + size, letters)

    def mprotect(self, address, size, access, *_):
        if address % PAGE or address + size > TOP:
            return -errno.EINVAL
        self.protect(address, round_up(size), access)
        return 0

    def munmap(self, address, size, *_):
        size = round_up(size)
        if address % PAGE or size == 0 or address + size > TOP:
            return -errno.EINVAL
        self.forget(address, address + size)
        self.release(address, size)
        self.machine.protect(address, address + size, "")
        return 0

    def release(self, address, size):
        fresh = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.map_host(address, size, mmap.PROT_READ | mmap.PROT_WRITE, fresh, NO_FILE, 0)

    def map_host(self, address, size, access, kind, descriptor, offset):
        kind |= MAP_FIXED | MAP_NORESERVE
        return self.host(MMAP, self.address(address), size, access, kind, descriptor, offset)

    def mremap(self, address, old, size, flags, *_):
        old, size = round_up(old), round_up(size)
        if size <= old:
            if size < old:
                self.munmap(address + size, old - size)
            return address
        if not flags & MREMAP_MAYMOVE:
            return -errno.ENOMEM
        fresh = self.mmap(
            0,
            size,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            NO_FILE,
            0,
        )
        if fresh > 0:
            self.bytes[fresh : fresh + old] = self.bytes[address : address + old]
            self.munmap(address, old)
        return fresh

    def brk(self, end, *_):
        if self.break_start <= end < BREAK_END:
            old, new = round_up(self.break_end), round_up(end)
            if new > old:
                self.machine.protect(old, new, "rw")
            elif new < old:
                self.release(new, old - new)
                self.machine.protect(new, old, "")
            self.break_end = end
        return self.break_end

    # ---- the process ----

    def arch_prctl(self, code, value, *_):
        set_gs, set_fs, get_fs, get_gs = 0x1001, 0x1002, 0x1003, 0x1004
        get_supported, get_permitted, request = 0x1021, 0x1022, 0x1023
        tile_data = 18
        machine = self.machine
        if code in (set_fs, set_gs):
            machine.set_base("fs" if code == set_fs else "gs", value)
        elif code in (get_fs, get_gs):
            base = getattr(machine.cpu, "fs" if code == get_fs else "gs").base
            struct.pack_into("<Q", self.bytes, value, base)
        elif code in (get_supported, get_permitted):
            has_tiles = machine.has_amx if code == get_supported else machine.door.amx
            struct.pack_into("<Q", self.bytes, value, STATE | (TILE_STATE if has_tiles else 0))
        elif code == request and value == tile_data and machine.has_amx:
            machine.door.amx = True
        else:
            return -errno.EINVAL
        return 0

    def clone(self, flags, stack, parent_tid, child_tid, tls, *_):
        if not flags & CLONE_VM:
            return self.fork(flags, stack, child_tid)
        if not flags & CLONE_THREAD:
            return self.unsupported()
        cpu = self.machine.cpu
        thread = self.threads.create(
            stack, tls if flags & CLONE_SETTLS else cpu.fs.base, cpu.gs.base
        )
        if thread is None:
            return -errno.EAGAIN
        for flag, address in ((CLONE_PARENT_SETTID, parent_tid), (CLONE_CHILD_SETTID, child_tid)):
            if flags & flag:
                struct.pack_into("<I", self.bytes, address, thread.number)
        if flags & CLONE_CHILD_CLEARTID:
            thread.clear_at_end = child_tid
        return thread.number

    def clone3(self, arguments, *_):
        flags, _, child_tid, parent_tid, _, stack, size, tls = struct.unpack_from(
            "<8Q", self.bytes, arguments
        )
        return self.clone(flags, stack + size, parent_tid, child_tid, tls)

    def fork(self, flags, stack, child_tid):
        """The whole emulator forks: its memory is the program's."""
        child = os.fork()
        if child == 0:
            self.threads.keep_current(os.getpid())
            if stack:
                self.machine.cpu.rsp = stack
            if flags & CLONE_CHILD_SETTID:
                struct.pack_into("<I", self.bytes, child_tid, os.getpid())
        return child

    def gettid(self, *_):
        return self.threads.current.number

    def set_tid_address(self, address, *_):
        self.threads.current.clear_at_end = address
        return self.threads.current.number

    def futex(self, *arguments):
        return threads.futex(self.threads, *arguments)

    def sched_yield(self, *_):
        return None if self.threads.yield_turn() else 0

    def nanosleep(self, request, *_):
        return self.clock_nanosleep(time.CLOCK_MONOTONIC, 0, request)

    def clock_nanosleep(self, clock, absolute, request, *_):
        seconds, nanoseconds = struct.unpack_from("<qq", self.bytes, request)
        left = seconds + nanoseconds * 1e-9 - (time.clock_gettime(clock) if absolute else 0)
        self.threads.pause(time.monotonic() + left)

    def sched_getaffinity(self, _process, size, mask, *_):
        if size < 8:
            return -errno.EINVAL
        struct.pack_into("<Q", self.bytes, mask, 1)
        return 8

    def exit(self, status, *_):
        if not self.threads.end():
            raise Exit(status & 0xFF)

    def exit_group(self, status, *_):
        raise Exit(status & 0xFF)

    def kill(self, process, signal, *_):
        if process != os.getpid():
            return self.host(KILL, process, signal)
        raise Exit(128 + signal)

    def tgkill(self, _process, _thread, signal, *_):
        raise Exit(128 + signal)

    def unsupported(self, *arguments):
        number = self.machine.cpu.rax
        if number not in self.reported and number != RSEQ:  # rseq: the C library does without
            self.reported.add(number)
            print(f"emulated: no system call {number} ({name_of(number)})", file=sys.stderr)
        return -errno.ENOSYS


def name_of(number):
    """A system call's name, where the kernel's headers are installed."""
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"):
        try:
            with open(path, encoding="ascii") as header:
                found = re.search(rf"__NR_(\w+) {number}$", header.read(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return found.group(1)
    return "unknown"
