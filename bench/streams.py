"""Many streams at once against `cachalot serve`: what arrives, how evenly, and what the server spends on it.

    python3 bench/streams.py PROGRAM MODEL [--streams N] [--seconds S] [--disconnects D] [-- FLAG...]

Starts a server with the FLAGs given, holds N streams of /v1/chat/completions open for S seconds, each asking again as soon as
it was answered, and drops D of them a second in the middle of their answers. Standard library only.

What it cannot see: when a step of the engine ended. Gaps between the events of a stream are given beside those between tokens
that the server itself measures as it samples (inter_token_latency_seconds): what the client's are longer by is delivery,
this program's own delays included.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "server"))
from server import Server  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
ENGINE_THREADS = ("engine", "pool-")


class Counts:
    def __init__(self):
        self.completed = self.failed = self.dropped = self.events = 0
        self.first, self.gaps = [], []
        self.faults = collections.Counter()


class Stream(asyncio.Protocol):
    """A connection that asks again and again."""

    def __init__(self, load):
        self.load = load
        self.transport = None
        self.dropped = False

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.load.open.append(self)
        self.ask()

    def ask(self):
        self.buffer = b""
        self.status = None
        self.last = None
        self.done = False
        self.asked = time.perf_counter()
        self.transport.write(self.load.request)

    def data_received(self, data):
        now = time.perf_counter()
        counts = self.load.counts
        self.buffer += data
        if self.status is None:
            if b"\r\n\r\n" not in self.buffer:
                return
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            self.status = int(head.split(None, 2)[1])
            if self.status != 200:
                return self.fail(f"status {self.status}")
        *events, self.buffer = self.buffer.split(b"\n\n")
        for event in events:
            if b'"content":"' in event and b'"content":""' not in event:
                counts.events += 1
                if self.last is None:
                    counts.first.append(now - self.asked)
                else:
                    counts.gaps.append(now - self.last)
                self.last = now
            elif b"data: [DONE]" in event:
                self.done = True
            elif b'"error"' in event:
                return self.fail(event[-200:].decode(errors="replace"))
        if self.done and self.buffer.endswith(b"0\r\n\r\n"):
            counts.completed += 1
            self.ask()

    def fail(self, fault):
        self.load.counts.failed += 1
        self.load.counts.faults[fault] += 1
        self.dropped = True
        self.transport.abort()

    def drop(self):
        """As a client does that goes: by closing, or so that the server hears a reset."""
        self.dropped = True
        self.load.counts.dropped += 1
        if random.random() < 0.5:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def connection_lost(self, error):
        self.load.open.remove(self)
        if self.load.running:
            if not self.dropped:
                self.load.counts.failed += 1
                self.load.counts.faults[f"closed by the server: {error}"] += 1
            self.load.connect_later()


class Load:
    def __init__(self, port, options):
        body = json.dumps({"messages": [{"role": "user", "content": options.prompt}], "max_tokens": options.max_tokens,
                           "ignore_eos": True, "stream": True}).encode()
        self.request = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        self.port = port
        self.options = options
        self.counts = Counts()
        self.open = []
        self.running = True
        self.tasks = set()

    def connect_later(self):
        task = asyncio.get_running_loop().create_task(self.connect())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def connect(self):
        try:
            await asyncio.get_running_loop().create_connection(lambda: Stream(self), "127.0.0.1", self.port)
        except OSError as error:
            self.counts.failed += 1
            self.counts.faults[f"no connection: {error}"] += 1

    async def drop_some(self):
        while self.options.disconnects > 0:
            await asyncio.sleep(random.expovariate(self.options.disconnects))
            if self.open:
                random.choice(self.open).drop()

    async def run(self, observe):
        for begin in range(0, self.options.streams, 100):
            await asyncio.gather(*(self.connect() for _ in range(min(100, self.options.streams - begin))))
        await asyncio.sleep(self.options.warmup)
        dropping = asyncio.create_task(self.drop_some())
        before = observe()
        self.counts.__init__()
        began = time.perf_counter()
        await asyncio.sleep(self.options.seconds)
        seconds = time.perf_counter() - began
        counts, self.counts = self.counts, Counts()
        after = observe()
        self.running = False
        dropping.cancel()
        for stream in list(self.open):
            stream.transport.abort()
        await asyncio.sleep(0.5)
        return counts, seconds, before, after


class Observation:
    """Of the server: metrics, processor time by thread, memory."""

    def __init__(self, server):
        self.metrics = {}
        for line in server.request("/metrics")[2].splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                self.metrics[name] = float(value)
        pid = server.process.pid
        self.threads = collections.Counter()
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                name, fields = file.read().split("(", 1)[1].rsplit(") ", 1)
            fields = fields.split()
            self.threads[name] += (int(fields[11]) + int(fields[12])) / TICKS
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        self.rss, self.peak = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        own = resource.getrusage(resource.RUSAGE_SELF)
        self.client = own.ru_utime + own.ru_stime

    def metric(self, name):
        return self.metrics.get("cachalot:" + name, 0.0)

    def histogram(self, name):
        """(upper bound, count up to it)."""
        begin = f"cachalot:{name}_bucket{{"
        return [(float(key.split('le="')[1].split('"')[0]), value) for key, value in self.metrics.items()
                if key.startswith(begin)]


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def quantile_of_histogram(before, after, part):
    """As Prometheus has it: linear within a bucket."""
    start = dict(before)
    buckets = sorted((bound, count - start.get(bound, 0)) for bound, count in after)
    wanted = part * buckets[-1][1] if buckets else 0
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted and count > below:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return None


def milliseconds(seconds):
    return None if seconds is None else round(1000 * seconds, 1)


def report(counts, seconds, before, after):
    tokens = after.metric("generation_tokens_total") - before.metric("generation_tokens_total")
    cpu = {name: after.threads[name] - before.threads[name] for name in after.threads}
    outside = sum(value for name, value in cpu.items() if not name.startswith(ENGINE_THREADS))
    latency = [(o.histogram("inter_token_latency_seconds"), o.histogram("time_to_first_token_seconds")) for o in (before, after)]
    figures = {
        "seconds": round(seconds, 1), "completed": counts.completed, "failed": counts.failed, "dropped": counts.dropped,
        "requests_per_second": round(counts.completed / seconds, 1), "tokens_per_second": round(tokens / seconds, 1),
        "events_per_second": round(counts.events / seconds, 1)}
    for part, name in ((0.5, "p50"), (0.99, "p99")):
        figures[f"gap_ms_{name}"] = milliseconds(quantile(counts.gaps, part))
        figures[f"server_gap_ms_{name}"] = milliseconds(quantile_of_histogram(latency[0][0], latency[1][0], part))
        figures[f"ttft_ms_{name}"] = milliseconds(quantile(counts.first, part))
        figures[f"server_ttft_ms_{name}"] = milliseconds(quantile_of_histogram(latency[0][1], latency[1][1], part))
    figures["rss_mb"], figures["peak_rss_mb"] = round(after.rss, 1), round(after.peak, 1)
    figures["cpu_cores"] = round(sum(cpu.values()) / seconds, 2)
    figures["cpu_cores_by_thread"] = {name: round(value / seconds, 4) for name, value in sorted(cpu.items())}
    figures["cpu_cores_outside_engine"] = round(outside / seconds, 4)
    figures["cpu_cores_outside_engine_per_1000_tokens_per_second"] = round(1000 * outside / tokens, 4) if tokens else None
    figures["client_cpu_cores"] = round((after.client - before.client) / seconds, 2)
    figures["faults"] = dict(counts.faults.most_common(5))
    return figures


def come_home(server):
    """Waits for the last requests to end; the pages that are still taken then."""
    for _ in range(600):
        info = server.info()
        if info["requests"]["running"] + info["requests"]["waiting"] == 0:
            return {pool["name"]: pool["used"] for pool in info["cache"]["pools"]}
        time.sleep(0.1)
    raise RuntimeError(f"requests stay: {info['requests']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warmup", type=float, default=5)
    parser.add_argument("--disconnects", type=float, default=0, help="a second")
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--prompt", default="What is the capital of France?")
    parser.add_argument("--seed", type=int, default=0, help="of who is dropped when")
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    random.seed(options.seed)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Server(options.program, options.model, "--no-prefix-cache", *arguments[split + 1:]) as server:
        load = Load(int(server.url.rsplit(":", 1)[1]), options)
        counts, seconds, before, after = asyncio.run(load.run(lambda: Observation(server)))
        figures = report(counts, seconds, before, after)
        figures["pages_left"] = come_home(server)
        figures["rss_mb_idle"] = round(Observation(server).rss, 1)
        code, complaints = server.stop()
    print(json.dumps(figures, indent=1))
    left = {name: used for name, used in figures["pages_left"].items() if used}
    if counts.failed or left or code or complaints:
        sys.exit(f"{counts.failed} failed, pages left {left}, exit code {code}, {complaints[:5]}")


if __name__ == "__main__":
    main()
