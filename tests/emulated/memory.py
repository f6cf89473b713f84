"""The machine's memory: what the program may touch, and the kernel's pages.

The program's address space is one host mapping: guest address a is host address base + a. The
kernel's pages and the page tables, which say what the program may touch, lie behind it. A guest
address is also the physical one, but for a constant.
"""

import array
import ctypes
import mmap
import struct

PAGE = 4096
TOP = 1 << 36  # the end of the program's addresses
PHYSICAL = 1 << 32  # guest address a is physical address PHYSICAL + a: clear of the local APIC

# The kernel's pages, from KERNEL on: stubs, IDT, GDT with TSS, stack, and a page for each thread.
KERNEL = 0xFFFF800000000000
STUBS, IDT, GDT, STACK, VECTORS, KERNEL_PAGES = 0, 1, 2, 3, 4, 512
TSS_OFFSET = 0x100
KERNEL_CODE, USER_DATA, USER_CODE = 0x08, 0x23, 0x2B  # selectors

PRESENT, WRITABLE, USER, ACCESSED, NO_EXECUTE = 1, 2, 4, 0x60, 1 << 63
MAP_NORESERVE = 0x4000


def round_up(address):
    return address + PAGE - 1 & -PAGE


def kernel_address(page):
    return KERNEL + page * PAGE


class Memory:
    """bytes: a view of it all, by guest address; root: the physical address of the page tables."""

    def __init__(self, libc, stubs):
        tables = TOP // PAGE // 512
        directories = tables // 512
        self._tables = TOP + (KERNEL_PAGES + 5 + directories) * PAGE
        self.size = self._tables + tables * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
        self.base = libc.mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if self.base == ctypes.c_void_p(-1).value:
            raise MemoryError("no address space for the machine's memory")
        self.bytes = memoryview((ctypes.c_uint8 * self.size).from_address(self.base)).cast("B")
        self.entries = self.bytes[self._tables : self.size].cast("Q")
        self.entries_address = self.base + self._tables
        self._link_tables(TOP + KERNEL_PAGES * PAGE)
        self._fill_kernel(stubs)

    def _link_tables(self, start):
        root, user, kernel, kernel_directory, kernel_table, directories = range(
            start, start + 6 * PAGE, PAGE
        )
        self.root = PHYSICAL + root

        def link(table, first, last):
            """Entries of a table for the pages [first, last)."""
            flags = PRESENT | WRITABLE | USER | ACCESSED
            self._put(table, range(PHYSICAL + first + flags, PHYSICAL + last + flags, PAGE))

        link(root, user, user + PAGE)
        link(root + 8 * (KERNEL >> 39 & 511), kernel, kernel + PAGE)
        link(kernel, kernel_directory, kernel_directory + PAGE)
        link(kernel_directory, kernel_table, kernel_table + PAGE)
        flags = PRESENT | WRITABLE | ACCESSED
        pages = range(PHYSICAL + TOP, PHYSICAL + TOP + KERNEL_PAGES * PAGE, PAGE)
        self._put(kernel_table, (page | flags for page in pages))
        link(user, directories, self._tables)
        link(directories, self._tables, self.size)

    def _fill_kernel(self, stubs):
        self.bytes[TOP : TOP + PAGE] = stubs
        for vector in range(32):
            entry = KERNEL + 16 * vector
            low = entry & 0xFFFF | KERNEL_CODE << 16 | 0x8E00 << 32 | (entry >> 16 & 0xFFFF) << 48
            self._put(TOP + IDT * PAGE + 16 * vector, [low, entry >> 32])
        descriptors = TOP + GDT * PAGE
        # Null; kernel code and data; 32-bit user code, as SYSRET counts; user data and code.
        self._put(descriptors, [0, 0x00AF9B000000FFFF, 0x00CF93000000FFFF])
        self._put(descriptors + 24, [0x00CFFB000000FFFF, 0x00CFF3000000FFFF, 0x00AFFB000000FFFF])
        # The TSS names the stack for exceptions.
        self.write(descriptors + TSS_OFFSET + 4, struct.pack("<Q", kernel_address(STACK + 1)))

    def _put(self, address, words):
        self.write(address, array.array("Q", words).tobytes())

    def write(self, address, data):
        self.bytes[address : address + len(data)] = data

    def protect(self, start, end, access):
        """Lets the program do in the pages [start, end) what access has of "r", "w" and "x"."""
        first, last = start // PAGE, end // PAGE
        if access:
            flags = PHYSICAL + PRESENT + USER + ACCESSED
            flags += WRITABLE * ("w" in access) + NO_EXECUTE * ("x" not in access)
            entries = array.array("Q", range(start + flags, end + flags, PAGE))
        else:
            entries = array.array("Q", bytes(8 * (last - first)))
        self.entries[first:last] = memoryview(entries)

    def is_mapped(self, address):
        return 0 <= address < TOP and bool(self.entries[address // PAGE] & PRESENT)

    def host_page(self, physical):
        """The host's address of a physical page, or None."""
        offset = physical - PHYSICAL
        return self.base + offset if 0 <= offset < self.size else None
