#!/usr/bin/env python3
"""Runs an x86-64 Linux program on an emulated processor: see README.md."""

import argparse
import bisect
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import elf
import linux
import machine as machines
from machine import PAGE_FAULT, PROTECTION, REGISTERS, SWITCH, SYSCALL, UNDEFINED

NAMES = {
    0: "division error",
    3: "breakpoint",
    6: "illegal instruction",
    13: "general protection fault",
    14: "page fault",
    16: "x87 exception",
    17: "alignment fault",
    19: "SIMD exception",
}
INTERNAL = 70  # the status where the emulator cannot go on
SIGNALS = {0: 8, 3: 5, 6: 4, 16: 8, 19: 8}  # the others: 11


class Emulator:
    def __init__(self, arguments):
        self.path = pathlib.Path(arguments.program).resolve()
        self.machine = machines.Machine(arguments.cpu, self.on_event)
        memory = self.machine.memory
        self.program = elf.Image(memory, self.path, elf.PROGRAM_BASE)
        linker = self.program.linker and elf.Image(memory, self.program.linker, elf.LINKER_BASE)
        self.process = linux.Process(self.machine, self.path, self.program.end)
        argv = [arguments.program, *arguments.arguments]
        stack = elf.make_stack(memory, self.program, linker, self.path, argv, os.environ)
        self.machine.start((linker or self.program).entry, stack)

    def on_event(self, event):
        if event == SYSCALL:
            self.process.system_call()
            return
        if event == SWITCH:
            self.process.threads.finish_switch()
            return
        frame = self.machine.frame(event)
        fault = self.machine.cpu.cr2
        door = self.machine.door
        if event == UNDEFINED and door.amx and door.outcome < 0:
            event, fault = (PAGE_FAULT, door.fault) if door.outcome == -1 else (PROTECTION, fault)
        self.report(event, frame, fault)
        raise linux.Exit(128 + SIGNALS.get(event, 11))

    def report(self, vector, frame, fault):
        """Says where and how the program failed."""
        rip, _, flags, stack, _ = frame
        where = f" at address {fault:#x}" if vector == PAGE_FAULT else ""
        say(f"{NAMES.get(vector, f'exception {vector}')}{where}")
        say(f"  rip {rip:#x} {self.symbol(rip)}")
        if self.machine.memory.is_mapped(rip):
            say(f"  code {bytes(self.machine.memory.bytes[rip:rip + 16]).hex(' ')}")
        values = {name: getattr(self.machine.cpu, name) for name in REGISTERS}
        values.update(rsp=stack, flags=flags)
        line = [f"{name} {value:016x}" for name, value in values.items()]
        for i in range(0, len(line), 4):
            say("  " + "  ".join(line[i : i + 4]))

    def symbol(self, address):
        listing = subprocess.run(
            ["nm", "-C", "--defined-only", str(self.path)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        symbols = sorted(
            (int(value, 16), name)
            for value, kind, name in (line.split(" ", 2) for line in listing.splitlines())
            if kind in "tTwW"
        )
        at = bisect.bisect(symbols, (address - self.program.base + 1,)) - 1
        if at < 0:
            return "?"
        return f"{symbols[at][1]} + {address - self.program.base - symbols[at][0]:#x}"


def say(text):
    print(f"emulated: {text}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", choices=machines.MODELS, default="sapphire_rapids")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        emulator = Emulator(arguments)
    except (OSError, ValueError) as failure:
        parser.error(str(failure))
    try:
        emulator.machine.run()
    except linux.Exit as end:
        return end.status
    except RuntimeError as failure:
        say(str(failure))
        return INTERNAL


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
