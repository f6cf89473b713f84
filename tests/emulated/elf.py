"""Loading of a program, and of the dynamic linker that it names."""

import os
import pathlib
import struct

from machine import PAGE

PT_LOAD, PT_INTERP = 1, 3
EXECUTABLE, SHARED = 2, 3
PROGRAM_BASE, LINKER_BASE = 0x10000000, 0x1F0000000  # of files that may lie anywhere
STACK_TOP, STACK_SIZE = 0xF00000000, 64 << 20


class Image:
  """An ELF file in the machine's memory: its base, entry, headers, and the end of its data."""

  def __init__(self, machine, path, base):
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
          "<IIQQQQQQ", data, table + i * self.header_size)
      if kind == PT_INTERP:
        self.linker = pathlib.Path(os.fsdecode(data[offset:offset + size].rstrip(b"\0")))
      if kind != PT_LOAD:
        continue
      start = self.base + address
      end = start + memory_size + PAGE - 1 & -PAGE
      machine.memory[start:start + size] = data[offset:offset + size]
      machine.protect(start & -PAGE, end,
                      {letter for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if flags & bit})
      self.end = max(self.end, end)
      if offset <= table < offset + size:
        self.headers = start + table - offset


def make_stack(machine, program, linker, path, arguments, environment):
  """Writes what the kernel leaves on a new program's stack; returns the stack pointer."""
  machine.protect(STACK_TOP - STACK_SIZE, STACK_TOP, "rw")
  top = STACK_TOP - 64

  def push(data):
    nonlocal top
    top = top - len(data) & -16
    machine.memory[top:top + len(data)] = data
    return top

  argv = [push(os.fsencode(text) + b"\0") for text in arguments]
  envp = [push(os.fsencode(f"{name}={value}") + b"\0") for name, value in environment.items()]
  auxiliary = {
      3: program.headers, 4: program.header_size, 5: program.header_count, 6: PAGE,
      7: linker.base if linker else 0, 8: 0, 9: program.entry,
      11: os.getuid(), 12: os.geteuid(), 13: os.getgid(), 14: os.getegid(),
      15: push(b"x86_64\0"), 16: 0xBFEBFBFF, 17: 100, 23: 0, 25: push(os.urandom(16)), 26: 0,
      31: push(os.fsencode(path) + b"\0"), 51: 11952, 0: 0}  # 51: the size of a signal's frame
  words = [len(argv), *argv, 0, *envp, 0]
  for key, value in auxiliary.items():
    words += key, value
  top = top - 8 * len(words) & -16
  machine.memory[top:top + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)
  return top
