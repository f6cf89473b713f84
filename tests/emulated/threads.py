"""The threads of the program, in turn on the one processor.

A thread keeps the processor until a system call makes it wait, yield or end: nothing interrupts it.
"""

import collections
import ctypes
import errno
import struct
import time

from machine import MAX_THREADS, REGISTERS


class Thread:
    def __init__(self, number, slot):
        self.number = number
        self.slot = slot  # of its vector registers in the kernel's pages
        self.registers = {}
        self.fs = self.gs = 0
        self.tiles = None
        self.clear_at_end = 0  # an address that is set to zero, with a wake, when the thread ends
        self.waits_at = None  # a futex's address
        self.mask = 0
        self.deadline = None
        self.timeout_result = 0


class Threads:
    def __init__(self, machine, number):
        self.machine = machine
        self.current = Thread(number, 0)
        self.ready = collections.deque()
        self.waiting = []
        self.next_number = number + 1
        self.slots = set(range(1, MAX_THREADS))
        self.incoming = None

    # ---- switching ----

    def create(self, stack, fs, gs):
        """A ready thread with the caller's registers, for which the system call gave 0."""
        if not self.slots:
            return None
        thread = Thread(self.next_number, self.slots.pop())
        self.next_number += 1
        self._save(thread)
        thread.registers.update(rsp=stack, rax=0)
        thread.fs, thread.gs = fs, gs
        self.machine.clear_vectors(thread.slot)
        self.ready.append(thread)
        return thread

    def _save(self, thread):
        cpu = self.machine.cpu
        thread.registers = {name: getattr(cpu, name) for name in REGISTERS}
        thread.fs, thread.gs = cpu.fs.base, cpu.gs.base
        thread.tiles = self.machine.tiles.raw

    def _leave(self):
        """Gives the processor to the next thread that is ready, or whose time comes first."""
        timed = [thread for thread in self.waiting if thread.deadline is not None]
        timed.sort(key=lambda thread: thread.deadline)
        if not self.ready:
            if not timed:
                raise RuntimeError("every thread waits for another one")
            time.sleep(max(0, timed[0].deadline - time.monotonic()))
        for thread in timed:
            if thread.deadline <= time.monotonic():
                self._wake(thread, thread.timeout_result)
        self.incoming = self.ready.popleft()
        self.machine.switch_vectors(self.current.slot, self.incoming.slot)

    def finish_switch(self):
        """The processor has the vector registers of the incoming thread: it gets the others."""
        thread, self.current, self.incoming = self.incoming, self.incoming, None
        for name, value in thread.registers.items():
            setattr(self.machine.cpu, name, value)
        self.machine.set_base("fs", thread.fs)
        self.machine.set_base("gs", thread.gs)
        self.machine.tiles.raw = thread.tiles

    def keep_current(self, number):
        """In the child of a fork: the other threads are gone."""
        self.ready.clear()
        self.waiting.clear()
        self.slots = set(range(MAX_THREADS)) - {self.current.slot}
        self.current.number, self.next_number = number, number + 1

    # ---- waiting ----

    def pause(self, deadline=None, timeout_result=0, at=None, mask=0):
        """The current thread waits, for a wake at a futex or a time (time.monotonic())."""
        thread = self.current
        self._save(thread)
        thread.deadline, thread.timeout_result, thread.waits_at, thread.mask = (
            deadline,
            timeout_result,
            at,
            mask,
        )
        self.waiting.append(thread)
        self._leave()

    def yield_turn(self):
        if not self.ready:
            return False
        self._save(self.current)
        self.current.registers["rax"] = 0
        self.ready.append(self.current)
        self._leave()
        return True

    def end(self):
        """Ends the current thread; false: it is the last one."""
        thread = self.current
        if thread.clear_at_end:
            struct.pack_into("<I", self.machine.memory.bytes, thread.clear_at_end, 0)
            self.wake(thread.clear_at_end, 1, -1)
        if not self.ready and not self.waiting:
            return False
        self.slots.add(thread.slot)
        self._leave()
        return True

    def _wake(self, thread, result):
        self.waiting.remove(thread)
        thread.registers["rax"] = result & 0xFFFFFFFFFFFFFFFF
        self.ready.append(thread)

    def wake(self, address, count, mask):
        """Wakes up to count threads that wait at address; how many."""
        found = [
            thread for thread in self.waiting if thread.waits_at == address and thread.mask & mask
        ]
        for thread in found[:count]:
            self._wake(thread, 0)
        return len(found[:count])

    def requeue(self, address, target, count):
        found = [thread for thread in self.waiting if thread.waits_at == address][:count]
        for thread in found:
            thread.waits_at = target
        return len(found)


WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAIT_BITSET, WAKE_BITSET = 0, 1, 3, 4, 9, 10


def futex(threads, address, operation, value, timeout, target, mask):
    """The system call: a result, or None where the caller waits."""
    memory = threads.machine.memory.bytes
    kind, real_time = operation & 0x7F, bool(operation & 0x100)
    (word,) = struct.unpack_from("<I", memory, address)
    if kind in (WAIT, WAIT_BITSET):
        if word != value & 0xFFFFFFFF:
            return -errno.EAGAIN
        deadline = None
        if timeout:
            seconds, nanoseconds = struct.unpack_from("<qq", memory, timeout)
            now = time.time() if real_time else time.monotonic()
            left = seconds + nanoseconds * 1e-9 - (now if kind == WAIT_BITSET else 0)
            deadline = time.monotonic() + left
        threads.pause(
            deadline,
            -errno.ETIMEDOUT,
            address,
            mask & 0xFFFFFFFF if kind == WAIT_BITSET else 0xFFFFFFFF,
        )
        return None
    if kind in (WAKE, WAKE_BITSET):
        return threads.wake(
            address,
            ctypes.c_int32(value).value,
            mask & 0xFFFFFFFF if kind == WAKE_BITSET else 0xFFFFFFFF,
        )
    if kind in (REQUEUE, CMP_REQUEUE):
        if kind == CMP_REQUEUE and word != mask & 0xFFFFFFFF:
            return -errno.EAGAIN
        woken = threads.wake(address, ctypes.c_int32(value).value, 0xFFFFFFFF)
        return woken + threads.requeue(address, target, ctypes.c_int32(timeout).value)
    return -errno.ENOSYS
