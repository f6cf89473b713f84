"""An x86-64 processor with memory: the Bochs core of the package bochscpu-python, in 64-bit user mode.

The program's address space is one host mapping: guest address a is host address base + a. What it
may touch stands in the page tables that lie behind it, together with the kernel's few pages. The
kernel is a page of stubs (support.c): each hands an event to the host by an INVLPG instruction, so
the core runs without a hook on any other instruction.
"""

import array
import ctypes
import hashlib
import importlib.util
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile

PAGE = 4096
TOP = 1 << 36  # the end of the program's addresses
PHYSICAL = 1 << 32  # guest address a is physical address PHYSICAL + a: clear of the local APIC
KERNEL = 0xFFFF800000000000  # the kernel's pages: stubs, IDT, GDT and TSS, stack, threads' vectors
STUBS, IDT, GDT, STACK, VECTORS, KERNEL_PAGES = 0, 1, 2, 3, 4, 512
MAX_THREADS = KERNEL_PAGES - VECTORS
SYSCALL, SWITCH = 32, 33  # what a stub reports: one of these or the vector of an exception
STATE = 0xE7  # the components that XSAVE knows: x87 to AVX-512
PRESENT, WRITABLE, USER, ACCESSED, NO_EXECUTE = 1, 2, 4, 0x60, 1 << 63
PAGE_FAULT, UNDEFINED, PROTECTION = 14, 6, 13

# The core's numbers of the models.
MODELS = {"haswell": 24, "skylake_x": 26, "icelake": 28, "tigerlake": 29, "sapphire_rapids": 30}

REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
             "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")

INVLPG_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64)
MISSING_PAGE = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Hooks(ctypes.Structure):
  """The core's table of hooks; the twelfth is for instructions that control address translation."""
  _fields_ = [("context", ctypes.c_void_p), ("before", ctypes.c_void_p * 11),
              ("invlpg", INVLPG_HOOK), ("after", ctypes.c_void_p * 20)]


class GuestMemory(ctypes.Structure):
  """support.c's Memory."""
  _fields_ = [("base", ctypes.c_void_p), ("entries", ctypes.c_void_p), ("top", ctypes.c_uint64)]


def load_support():
  """support.c as a library, built on first use."""
  source = pathlib.Path(__file__).with_name("support.c")
  key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
  folder = pathlib.Path(tempfile.gettempdir()) / f"cachalot-emulated-{os.getuid()}"
  library = folder / f"{key}.so"
  if not library.exists():
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{key}.{os.getpid()}"
    subprocess.run(["cc", "-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC",
                    str(source), "-o", str(fresh), "-lm"], check=True)
    fresh.rename(library)
  return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def load_core():
  """The package's core as a C library, and the package itself."""
  import bochscpu
  core = ctypes.CDLL(bochscpu._bochscpu.__file__)
  core.sim_get_param_enum.restype = ctypes.c_void_p
  core.bochscpu_cpu_from.restype = ctypes.c_void_p
  return core, bochscpu


class Machine:
  """One processor and the memory of one program. on_event(what) is called by the stubs."""

  def __init__(self, model, on_event):
    self.support = load_support()
    self.core, self.package = load_core()
    self.on_event = on_event
    self.failure = None
    self._choose(model)
    self._make_memory()
    self.session = self.package.Session()
    self.cpu = self.session.cpu
    self.handle = ctypes.c_void_p(self.core.bochscpu_cpu_from(0))
    self._missing_page = MISSING_PAGE(self._insert_page)
    self.core.bochscpu_mem_missing_page(self._missing_page)
    self.amx = model == "sapphire_rapids"
    if self.amx:
      # The model stands in the core's processor object, behind the first members.
      processor = ctypes.addressof(ctypes.c_char.in_dll(self.core, "bx_cpu"))
      self.support.add_amx_to_cpuid(ctypes.c_void_p.from_address(processor + 0x38))

  def _choose(self, model):
    parameter = ctypes.c_void_p(self.core.sim_get_param_enum(b"cpu.model"))
    self.core._ZN14bx_param_num_c9set_rangeEmm(parameter, ctypes.c_uint64(0), ctypes.c_uint64(40))
    self.core._ZN14bx_param_num_c3setEl(parameter, ctypes.c_int64(MODELS[model]))

  # ---- memory ----

  def _make_memory(self):
    tables = TOP // PAGE // 512  # page tables of the program
    directories = tables // 512
    self.size = TOP + (KERNEL_PAGES + 5 + directories + tables) * PAGE
    libc = self.libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    self.base = libc.mmap(None, self.size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
    if self.base == ctypes.c_void_p(-1).value:
      raise MemoryError("no address space for the machine's memory")
    self.memory = memoryview((ctypes.c_uint8 * self.size).from_address(self.base)).cast("B")

    page = TOP + KERNEL_PAGES * PAGE
    root, user, kernel, kernel_directory, kernel_table = range(page, page + 5 * PAGE, PAGE)
    first_directory = page + 5 * PAGE
    self.first_table = first_directory + directories * PAGE
    self.root = PHYSICAL + root
    links = PRESENT | WRITABLE | USER | ACCESSED
    self._put(root, [PHYSICAL + user + links])
    self._put(root + 8 * 256, [PHYSICAL + kernel + links])
    self._put(kernel, [PHYSICAL + kernel_directory + links])
    self._put(kernel_directory, [PHYSICAL + kernel_table + links])
    self._put(kernel_table, [PHYSICAL + TOP + i * PAGE + PRESENT + WRITABLE + ACCESSED
                             for i in range(KERNEL_PAGES)])
    self._put(user, range(PHYSICAL + first_directory + links,
                          PHYSICAL + self.first_table + links, PAGE))
    self._put(first_directory, range(PHYSICAL + self.first_table + links,
                                     PHYSICAL + self.size + links, PAGE))
    self.entries = self.memory[self.first_table:self.size].cast("Q")
    self.guest = GuestMemory(self.base, self.base + self.first_table, TOP)
    self._put_kernel()

  def _put(self, address, words):
    data = array.array("Q", words).tobytes()
    self.memory[address:address + len(data)] = data

  def _put_kernel(self):
    stubs = (ctypes.c_uint8 * PAGE).in_dll(self.support, "kernel_stubs")
    self.memory[TOP:TOP + PAGE] = bytes(stubs)
    for vector in range(32):
      entry = KERNEL + 16 * vector
      self._put(TOP + IDT * PAGE + 16 * vector,
                [entry & 0xFFFF | 8 << 16 | 0x8E00 << 32 | (entry >> 16 & 0xFFFF) << 48, entry >> 32])
    # Null; kernel code and data; 32-bit user code, as SYSRET counts; user data and code.
    self._put(TOP + GDT * PAGE, [0, 0x00AF9B000000FFFF, 0x00CF93000000FFFF, 0x00CFFB000000FFFF,
                                 0x00CFF3000000FFFF, 0x00AFFB000000FFFF])
    stack = KERNEL + (STACK + 1) * PAGE
    self.memory[TOP + GDT * PAGE + 0x100 + 4:TOP + GDT * PAGE + 0x100 + 12] = struct.pack("<Q", stack)

  def _insert_page(self, physical):
    page = physical & -PAGE
    offset = page - PHYSICAL
    if not 0 <= offset < self.size:
      self.failure = RuntimeError(f"physical address {physical:#x} is not memory")
      os._exit(70)
    self.core.bochscpu_mem_page_insert(ctypes.c_uint64(page), ctypes.c_void_p(self.base + offset))

  def protect(self, start, end, access):
    """Sets what the program may do in pages [start, end): a set of "r", "w" and "x"; empty, nothing."""
    first, last = start // PAGE, end // PAGE
    if access:
      flags = PRESENT | USER | ACCESSED | (WRITABLE if "w" in access else 0)
      flags |= 0 if "x" in access else NO_EXECUTE
      entries = array.array("Q", range(PHYSICAL + start + flags, PHYSICAL + end + flags, PAGE))
    else:
      entries = array.array("Q", bytes(8 * (last - first)))
    self.entries[first:last] = memoryview(entries)
    self.core.bochscpu_cpu_set_mode(self.handle)  # drops what the core knows of the old tables

  def readable(self, address):
    return 0 <= address < TOP and bool(self.entries[address // PAGE] & PRESENT)

  # ---- running ----

  def start(self, entry, stack):
    """Readies the processor to run at entry in user mode."""
    state = self.package.State()
    state.cr0 = 0x80010033
    state.cr3 = self.root
    state.cr4 = 0x50620
    state.efer = 0xD01
    state.xcr0 = STATE | (3 << 17 if self.amx else 0)
    state.star = 0x001B << 48 | 0x0008 << 32
    state.lstar = KERNEL + 16 * SYSCALL
    state.sfmask = 0x700
    state.mxcsr, state.mxcsr_mask = 0x1F80, 0xFFFF
    state.fpcw, state.fptw = 0x37F, 0xFFFF
    state.pat = 0x0007040600070406
    state.dr6, state.dr7 = 0xFFFF0FF0, 0x400
    state.rflags = 2
    for name, selector, attributes in (("cs", 0x2B, 0xA0FB), ("ss", 0x23, 0xC0F3), ("ds", 0, 0xC0F3),
                                       ("es", 0, 0xC0F3), ("fs", 0, 0xC0F3), ("gs", 0, 0xC0F3)):
      setattr(state, name, self._segment(selector, attributes))
    state.tr = self._segment(0x40, 0x008B, KERNEL + GDT * PAGE + 0x100, 0x67)
    state.ldtr = self._segment(0, 0x0082)
    for name, base, limit in (("gdtr", KERNEL + GDT * PAGE, 0x2F), ("idtr", KERNEL + IDT * PAGE, 0x1FF)):
      table = self.package.GlobalSegment()
      table.base, table.limit = base, limit
      setattr(state, name, table)
    state.rip, state.rsp = entry, stack
    self.cpu.state = state

  def _segment(self, selector, attributes, base=0, limit=0xFFFFFFFF):
    segment = self.package.Segment()
    segment.present, segment.selector, segment.attr = True, selector, attributes
    segment.base, segment.limit = base, limit
    return segment

  def set_base(self, register, base):
    """Sets the base of "fs" or "gs"."""
    setattr(self.cpu, register, self._segment(0, 0xC0F3, base))

  def clear_vectors(self, slot):
    """Makes the vector registers that are kept in a slot those of a new program."""
    start = TOP + (VECTORS + slot) * PAGE
    self.memory[start:start + PAGE] = bytes(PAGE)
    struct.pack_into("<I", self.memory, start + 24, 0x1F80)  # MXCSR

  def switch_vectors(self, old, new):
    """At a system call: keeps the vector registers in slot old, takes slot new's, reports SWITCH."""
    cpu = self.cpu
    cpu.rdi, cpu.rsi = (KERNEL + (VECTORS + slot) * PAGE for slot in (old, new))
    cpu.rax, cpu.rdx, cpu.rip = STATE, 0, KERNEL + 16 * SWITCH

  def tiles(self):
    size = ctypes.c_size_t.in_dll(self.support, "tiles_size").value
    return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self.support, "tiles")), size)

  def set_tiles(self, data):
    ctypes.memmove(ctypes.addressof(ctypes.c_char.in_dll(self.support, "tiles")), data, len(data))

  def run(self):
    """Runs until stop()."""
    def invlpg(_context, _processor, _kind, _address):
      try:
        self.on_event((self.cpu.rip - KERNEL) // 16)
      except BaseException as failure:  # nothing may pass through the core
        self.failure = failure
        self.stop()
    hooks = Hooks(invlpg=INVLPG_HOOK(invlpg))
    chain = (ctypes.c_void_p * 2)(ctypes.addressof(hooks), None)
    self.core.bochscpu_cpu_run(self.handle, chain)
    if self.failure:
      raise self.failure

  def stop(self):
    self.core.bochscpu_cpu_stop(self.handle)

  def frame(self, vector):
    """What the processor pushed for an exception: the host's view of RIP, CS, RFLAGS, RSP, SS."""
    offset = self.cpu.rsp - KERNEL + TOP
    if vector in (8, 10, 11, 12, 13, 14, 17, 21):
      offset += 8
    return self.memory[offset:offset + 40].cast("Q")

  def run_amx(self, frame):
    """Runs the instruction at the frame's RIP if it is one of AMX's: its length, or as amx_execute."""
    rip = frame[0]
    values = [getattr(self.cpu, name) for name in REGISTERS]
    values[4] = frame[3]
    registers = (ctypes.c_uint64 * 17)(*values, rip)
    fault = ctypes.c_uint64()
    length = self.support.amx_execute(ctypes.c_void_p(self.base + rip), registers,
                                      ctypes.byref(self.guest), ctypes.byref(fault))
    return length, fault.value
