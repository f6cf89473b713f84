"""Loading of a program, and of the dynamic linker that it names."""

import os
import pathlib
import struct

from memory import PAGE, round_up

PT_LOAD, PT_INTERP = 1, 3
EXECUTABLE, SHARED = 2, 3
PROGRAM_BASE, LINKER_BASE = 0x10000000, 0x1F0000000  # of files that may lie anywhere
AT_NULL, AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY = 0, 3, 4, 5, 6, 7, 9
AT_UID, AT_EUID, AT_GID, AT_EGID, AT_PLATFORM, AT_HWCAP, AT_CLKTCK = 11, 12, 13, 14, 15, 16, 17
AT_SECURE, AT_RANDOM, AT_EXECFN, AT_MINSIGSTKSZ = 23, 25, 31, 51
STACK_TOP, STACK_SIZE = 0xF00000000, 64 << 20


class Image:
    """An ELF file in memory: its base, entry, headers, and the end of its data."""

    def __init__(self, memory, path, base):
        data = path.read_bytes()
        kind, architecture = struct.unpack_from("<HH", data, 16) if len(data) >= 64 else (0, 0)
        if data[:5] != b"\x7fELF\x02" or architecture != 62 or kind not in (EXECUTABLE, SHARED):
            raise ValueError(f"{path} is no x86-64 program")
        entry, table = struct.unpack_from("<QQ", data, 24)
        self.header_size, self.header_count = struct.unpack_from("<HH", data, 54)
        self.base = base if kind == SHARED else 0
        self.entry = self.base + entry
        self.headers = self.end = 0
        self.linker = None
        for i in range(self.header_count):
            kind, flags, offset, address, _, size, memory_size, _ = struct.unpack_from(
                "<IIQQQQQQ", data, table + i * self.header_size
            )
            if kind == PT_INTERP:
                self.linker = pathlib.Path(os.fsdecode(data[offset : offset + size].rstrip(b"\0")))
            if kind != PT_LOAD:
                continue
            start = self.base + address
            end = round_up(start + memory_size)
            memory.write(start, data[offset : offset + size])
            memory.protect(
                start & -PAGE,
                end,
                {letter for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if flags & bit},
            )
            self.end = max(self.end, end)
            if offset <= table < offset + size:
                self.headers = start + table - offset


def make_stack(memory, program, linker, path, arguments, environment):
    """Writes what the kernel leaves on a new program's stack; returns the stack pointer."""
    memory.protect(STACK_TOP - STACK_SIZE, STACK_TOP, "rw")
    top = STACK_TOP - 64

    def push(data):
        nonlocal top
        top = top - len(data) & -16
        memory.write(top, data)
        return top

    argv = [push(os.fsencode(text) + b"\0") for text in arguments]
    envp = [push(os.fsencode(f"{name}={value}") + b"\0") for name, value in environment.items()]
    auxiliary = {
        AT_PHDR: program.headers,
        AT_PHENT: program.header_size,
        AT_PHNUM: program.header_count,
        AT_PAGESZ: PAGE,
        AT_BASE: linker.base if linker else 0,
        AT_ENTRY: program.entry,
        AT_UID: os.getuid(),
        AT_EUID: os.geteuid(),
        AT_GID: os.getgid(),
        AT_EGID: os.getegid(),
        AT_PLATFORM: push(b"x86_64\0"),
        AT_HWCAP: 0xBFEBFBFF,
        AT_CLKTCK: 100,
        AT_SECURE: 0,
        AT_RANDOM: push(os.urandom(16)),
        AT_EXECFN: push(os.fsencode(path) + b"\0"),
        AT_MINSIGSTKSZ: 11952,  # with AVX-512 and AMX
        AT_NULL: 0,
    }
    words = [len(argv), *argv, 0, *envp, 0]
    for key, value in auxiliary.items():
        words += key, value
    top = top - 8 * len(words) & -16
    memory.write(top, struct.pack(f"<{len(words)}Q", *words))
    return top
