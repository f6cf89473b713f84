#!/usr/bin/env python3
"""A server that the page can talk with, with an answer for each word that a message may hold.

It serves the page as it lies in src/, under the policy that page.h gives it. Alone: fake_server.py [PORT].
"""

import http.server
import json
import pathlib
import re
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/server"
HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"

WHALE = """Sperm whales dive for squid, **deeper than a kilometre**, for up to an hour. They hunt by sound:

1. a click leaves the nose,
2. the echo comes back through the jaw,
3. from the delay comes the distance.

```python
def distance(delay_seconds, speed=1500):
    return delay_seconds * speed / 2
```

| depth | time there |
| --- | --- |
| 400 m | *most dives* |
| 1200 m | up to an hour |

More at https://en.wikipedia.org/wiki/Sperm_whale."""

INJECTION = HOSTILE + """ and [a link](javascript:document.title='owned'), `%s`

# %s

```<b>%s
%s
```

%s deep
""" % (HOSTILE, HOSTILE, HOSTILE, HOSTILE, ">" * 4000)


def policy():
    header = (SOURCE / "page.h").read_text()
    text = re.search(r"kIndexPagePolicy =(.*?);\n", header, re.DOTALL).group(1)
    return "".join(re.findall(r'"([^"]*)"', text))


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def reply(self, status, body, content_type="application/json", headers=()):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status, message, headers=()):
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
        self.reply(status, json.dumps(body), headers=headers)

    def do_GET(self):
        if self.path == "/":
            headers = [("Content-Security-Policy", policy()), ("X-Content-Type-Options", "nosniff")]
            self.reply(200, (SOURCE / "page/index.html").read_text(), "text/html; charset=utf-8", headers)
        elif self.path == "/server_info":
            self.reply(200, json.dumps(self.server.info()))
        else:
            self.fail(404, f"no such path: {self.path}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((dict(self.headers), body))
        if self.path != "/v1/chat/completions":
            return self.fail(404, f"no such path: {self.path}")
        last = body["messages"][-1]
        words = last["content"] or ""
        if "overload" in words:
            return self.fail(429, "the queue is full", [("Retry-After", "7")])
        if "refuse" in words:
            return self.fail(400, f"temperature: {HOSTILE} is not a number")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.answer(words, last["role"])
        except (BrokenPipeError, ConnectionResetError):
            self.server.gone.set()

    def answer(self, words, role):
        if "break" in words:
            return self.piece({"content": "Half an"})
        self.piece({"role": "assistant", "content": ""})
        for done in (448, 512):
            self.event({"choices": [], "prompt_progress": {"total": 512, "cache": 384, "processed": done}})
            time.sleep(0.05)
        if "wait" in words:
            self.server.go.wait()
        finish = "stop"
        if role == "tool":
            self.text("content", f"The tool says: {words}")
        elif "weather" in words:
            self.text("reasoning_content", "I have to look.")
            self.call(0, "look_up", ['{"city": "Par', 'is", "days"', ": 2}"])
            self.call(1, "<b>evil</b>", ['{"html": ', json.dumps(HOSTILE), "}"])
            finish = "tool_calls"
        elif "endless" in words:
            while True:
                self.text("content", "on and on ")
        elif "inject" in words:
            self.text("reasoning_content", HOSTILE)
            self.text("content", INJECTION)
        elif "device" in words:
            self.text("content", "It goes well")
            return self.event({"error": {"message": "the device failed", "type": "server_error"}})
        else:
            self.text("reasoning_content", "The user greets me.\nI think of what I know of whales: how deep they "
                      "dive, and how they find squid in the dark.")
            self.text("content", WHALE)
        self.piece({}, finish)
        usage = {"prompt_tokens": 512, "completion_tokens": 96, "total_tokens": 608,
                 "prompt_tokens_details": {"cached_tokens": 384}}
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, data):
        self.wfile.write(f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode())
        self.wfile.flush()

    def piece(self, delta, finish=None):
        self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def text(self, field, text):
        for part in re.findall(r"\s*\S+\s*?", text):
            self.piece({field: part})
            self.wfile.write(b": alive\n\n")
            time.sleep(0.01)
        rest = re.search(r"\s*$", text).group()
        if rest:
            self.piece({field: rest})

    def call(self, index, name, parts):
        self.piece({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function",
                                    "function": {"name": name, "arguments": ""}}]})
        for part in parts:
            self.piece({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
            time.sleep(0.05)


class FakeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.requests = []  # (headers, body) of each POST
        self.gone = threading.Event()  # a client went amid an answer
        self.go = threading.Event()  # lets those go on whose prompt is read
        self.polls = 0
        self.hostile = True  # in its names
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def info(self):
        self.polls += 1
        used = min(40 + 12 * self.polls, 700)
        return {"model": "calf", "version": "0.1.0", "device": "cpu", "max_context": 4096,
                "requests": {"running": 1, "waiting": 0},
                "cache": {"pools": [{"name": "full", "used": used, "total": 1024},
                                    {"name": "window", "used": used // 2, "total": 256},
                                    {"name": "c128" + " <i>rows</i>" * self.hostile, "used": used // 8, "total": 128}],
                          "prefix": {"device_pages": used - 9, "host_pages": 210, "disk_pages": 1800}}}

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


if __name__ == "__main__":
    server = FakeServer(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
    print(server.url)
    server.serve_forever()
