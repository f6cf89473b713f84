"""An x86-64 processor in 64-bit user mode: the Bochs core of the package bochscpu-python.

The kernel is a page of stubs (support.c). Each hands an event to the host by an INVLPG instruction,
so that the core runs without a hook on any other instruction.
"""

import ctypes
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from memory import GDT, IDT, KERNEL, KERNEL_PAGES, PAGE, TOP, TSS_OFFSET, USER_CODE, USER_DATA
from memory import VECTORS, Memory, kernel_address

SYSCALL, SWITCH = 32, 33  # what a stub reports: one of these or the vector of an exception
UNDEFINED, PROTECTION, PAGE_FAULT = 6, 13, 14
WITH_ERROR_CODE = {8, 10, 11, 12, 13, 14, 17, 21}
MAX_THREADS = KERNEL_PAGES - VECTORS

STATE = 0xE7  # the state components of XSAVE from x87 to AVX-512
TILE_STATE = 3 << 17

# The core's numbers of the models.
MODELS = {"haswell": 24, "skylake_x": 26, "icelake": 28, "tigerlake": 29, "sapphire_rapids": 30}

REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()

EVENT = ctypes.CFUNCTYPE(None, ctypes.c_int)
MISSING_PAGE = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Hooks(ctypes.Structure):
    """The core's table of hooks; the twelfth is for INVLPG and its like."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("before", ctypes.c_void_p * 11),
        ("invlpg", ctypes.c_void_p),
        ("after", ctypes.c_void_p * 20),
    ]


class Door(ctypes.Structure):
    """support.c's Door."""

    _fields_ = [
        ("processor", ctypes.c_void_p),
        ("read", ctypes.c_void_p * 17),
        ("base", ctypes.c_void_p),
        ("entries", ctypes.c_void_p),
        ("top", ctypes.c_uint64),
        ("amx", ctypes.c_bool),
        ("on_event", EVENT),
        ("outcome", ctypes.c_int),
        ("fault", ctypes.c_uint64),
    ]


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def load_support():
    """support.c as a library, built on first use."""
    source = pathlib.Path(__file__).with_name("support.c")
    key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = pathlib.Path(tempfile.gettempdir()) / f"cachalot-emulated-{os.getuid()}"
    library = folder / f"{key}.so"
    if not library.exists():
        folder.mkdir(exist_ok=True)
        fresh = folder / f"{key}.{os.getpid()}"
        flags = "-O3 -march=native -ffp-contract=off -shared -fPIC".split()
        subprocess.run(["cc", *flags, source, "-o", fresh, "-lm"], check=True)
        fresh.rename(library)
    # The core finds the names of a newer libc in it.
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class Machine:
    """One processor and the memory of one program. on_event(what) is called by the stubs."""

    def __init__(self, model, on_event):
        self.support = load_support()
        import bochscpu  # needs support

        self.package = bochscpu
        self.core = ctypes.CDLL(bochscpu._bochscpu.__file__)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.memory = Memory(
            self.libc, bytes((ctypes.c_uint8 * PAGE).in_dll(self.support, "stubs"))
        )
        self.on_event = on_event
        self.failure = None
        self._make_processor(model)
        self.has_amx = model == "sapphire_rapids"
        if self.has_amx:
            # The model stands in the core's processor object, behind the first members.
            processor = ctypes.addressof(ctypes.c_char.in_dll(self.core, "bx_cpu"))
            self.support.add_amx_to_cpuid(ctypes.c_void_p.from_address(processor + 0x38))
        tiles = ctypes.c_char * ctypes.c_size_t.in_dll(self.support, "tiles_size").value
        self.tiles = tiles.in_dll(self.support, "tiles")

    def _make_processor(self, model):
        core = self.core
        core.sim_get_param_enum.restype = core.bochscpu_cpu_from.restype = ctypes.c_void_p
        parameter = ctypes.c_void_p(core.sim_get_param_enum(b"cpu.model"))
        core._ZN14bx_param_num_c9set_rangeEmm(parameter, ctypes.c_size_t(0), ctypes.c_size_t(40))
        core._ZN14bx_param_num_c3setEl(parameter, ctypes.c_long(MODELS[model]))
        self.session = self.package.Session()
        self.cpu = self.session.cpu
        self.handle = ctypes.c_void_p(core.bochscpu_cpu_from(0))
        self._missing_page = MISSING_PAGE(self._insert_page)
        core.bochscpu_mem_missing_page(self._missing_page)
        self.door = Door(self.handle, on_event=EVENT(self._on_event), top=TOP)
        self.door.base, self.door.entries = self.memory.base, self.memory.entries_address
        for i, name in enumerate([*REGISTERS, "rip"]):
            self.door.read[i] = address_of(getattr(core, f"bochscpu_cpu_{name}"))

    def _insert_page(self, physical):
        page = physical & -PAGE
        host = self.memory.host_page(page)
        if host is None:  # the core cannot go on
            print(f"emulated: physical address {physical:#x} is not memory", file=sys.stderr)
            os._exit(70)
        self.core.bochscpu_mem_page_insert(ctypes.c_uint64(page), ctypes.c_void_p(host))

    def protect(self, start, end, access):
        """As Memory's, for a program that runs."""
        self.memory.protect(start, end, access)
        self.core.bochscpu_cpu_set_mode(self.handle)  # drops what the core knows of the old tables

    # ---- registers ----

    def start(self, entry, stack):
        """Readies the processor to run at entry in user mode."""
        state = self.package.State()
        state.cr0 = 0x80010033  # paging, write protection, protected mode, x87
        state.cr3 = self.memory.root
        state.cr4 = 0x50620  # long page tables, SSE, XSAVE, FSGSBASE
        state.efer = 0xD01  # SYSCALL, long mode, no-execute
        state.xcr0 = STATE | (TILE_STATE if self.has_amx else 0)
        state.star = USER_DATA - 8 << 48 | 0x08 << 32
        state.lstar = KERNEL + 16 * SYSCALL
        state.sfmask = 0x700
        state.mxcsr, state.mxcsr_mask = 0x1F80, 0xFFFF
        state.fpcw, state.fptw = 0x37F, 0xFFFF
        state.pat = 0x0007040600070406
        state.dr6, state.dr7 = 0xFFFF0FF0, 0x400
        state.rflags = 2
        state.cs = self._segment(USER_CODE, 0xA0FB)
        state.ss = self._segment(USER_DATA, 0xC0F3)
        state.ds = state.es = state.fs = state.gs = self._segment(0, 0xC0F3)
        state.tr = self._segment(0x40, 0x8B, kernel_address(GDT) + TSS_OFFSET, 0x67)
        state.ldtr = self._segment(0, 0x82)
        state.gdtr = self._table(kernel_address(GDT), 6 * 8)
        state.idtr = self._table(kernel_address(IDT), 32 * 16)
        state.rip, state.rsp = entry, stack
        self.cpu.state = state

    def _segment(self, selector, attributes, base=0, limit=0xFFFFFFFF):
        segment = self.package.Segment()
        segment.present, segment.selector, segment.attr = True, selector, attributes
        segment.base, segment.limit = base, limit
        return segment

    def _table(self, base, size):
        table = self.package.GlobalSegment()
        table.base, table.limit = base, size - 1
        return table

    def set_base(self, register, base):
        """Sets the base of "fs" or "gs"."""
        setattr(self.cpu, register, self._segment(0, 0xC0F3, base))

    def clear_vectors(self, slot):
        """Makes the vector registers that are kept in a slot those of a new program."""
        start = TOP + (VECTORS + slot) * PAGE
        self.memory.write(start, bytes(PAGE))
        self.memory.write(start + 24, struct.pack("<I", 0x1F80))  # MXCSR

    def switch_vectors(self, old, new):
        """At a system call: keeps the vector registers in slot old and takes those of slot new.

        The processor then reports SWITCH.
        """
        cpu = self.cpu
        cpu.rdi, cpu.rsi = (kernel_address(VECTORS + slot) for slot in (old, new))
        cpu.rax, cpu.rdx, cpu.rip = STATE, 0, KERNEL + 16 * SWITCH

    def frame(self, vector):
        """The host's view of what an exception left on the stack: RIP, CS, RFLAGS, RSP, SS."""
        offset = self.cpu.rsp - KERNEL + TOP + (8 if vector in WITH_ERROR_CODE else 0)
        return self.memory.bytes[offset : offset + 40].cast("Q")

    # ---- running ----

    def run(self):
        """Runs until an exception of on_event, which it passes on."""
        hooks = Hooks(ctypes.addressof(self.door), invlpg=address_of(self.support.on_invlpg))
        chain = (ctypes.c_void_p * 2)(ctypes.addressof(hooks), None)
        self.core.bochscpu_cpu_run(self.handle, chain)
        raise self.failure

    def _on_event(self, what):
        try:
            self.on_event(what)
        except BaseException as failure:  # nothing may pass through the core
            self.failure = failure
            self.core.bochscpu_cpu_stop(self.handle)
