"""What clients should not do, against one server, with a well-behaved neighbour that must not notice.

Run: hostile_test.py PROGRAM MODEL. CACHALOT_HOSTILE=all tries all that takes minutes: every value in every place instead of
some hundreds (others with CACHALOT_HOSTILE_SEED), 10,000 idle connections, an answer too long to be kept for who does not read.
"""

import concurrent.futures
import json
import os
import random
import re
import resource
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile_bodies import BODIES, VALUES, faults, places, with_text_at  # noqa: E402
from raw_http import Raw, request  # noqa: E402
from server import Server  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]
KEY = "sk-test"
AUTH = {"Authorization": "Bearer " + KEY}
ALL = os.environ.get("CACHALOT_HOSTILE") == "all"
SEED = int(os.environ.get("CACHALOT_HOSTILE_SEED", "1"))
IDLE = 10000 if ALL else 2000
CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SHORT = {**HELLO, "max_tokens": 2}
ENDLESS = {**HELLO, "max_tokens": 3000, "ignore_eos": True, "stream": True, "return_progress": True}
LONG_PROMPT = {**ENDLESS, "messages": [{"role": "user", "content": "The lake is blue. " * 350}]}


def post(path, body, **headers):
    return request("POST", path, body, **{**AUTH, **headers})


def ask(data, url=None):
    """The answer to a request on a connection of its own."""
    with Raw(url or server.url, data) as raw:
        return raw.answer()


def info():
    return ask(request("GET", "/server_info", **AUTH)).json()


def wait_until(holds, what):
    """For as long as any of this takes on a busy machine."""
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(f"never came: {what}: {info()}")


class Neighbour(threading.Thread):
    """Streams the same answer again and again, and compares it with what it was before anyone else came,
    log-probabilities included."""

    BODY = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True, "max_tokens": 200, "logprobs": 0,
            "stream": True}

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url = url
        self.alone = self.stream()
        self.stop = threading.Event()
        self.answers = 0
        self.differences = []

    def stream(self):
        with Raw(self.url, post(COMPLETIONS, self.BODY)) as raw:
            status = raw.head().status
            events = b"".join(raw.pieces()).decode().split("\n\n")
        assert status == 200 and events[-2] == "data: [DONE]", events
        choices = [json.loads(event[6:])["choices"] for event in events if event.startswith("data: {")]
        texts, numbers = [], []
        for (choice,) in filter(None, choices):
            texts.append(choice["text"])
            numbers += (choice["logprobs"] or {}).get("token_logprobs", [])
        assert len(numbers) == self.BODY["max_tokens"], len(numbers)
        return "".join(texts), numbers

    def run(self):
        while not self.stop.is_set():
            try:
                answer = self.stream()
            except Exception as error:  # noqa: BLE001: whatever it was, the neighbour noticed
                answer = repr(error)
            self.answers += 1
            if answer != self.alone:
                self.differences.append(answer)


def setUpModule():
    unittest.addModuleCleanup(lambda: server.__exit__())
    global server, neighbour
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = Server(PROGRAM, MODEL, "--api-key", KEY, "--no-prefix-cache", "--context", "2048", "--cache-bytes", "64M",
                    "--max-running", "8", "--chunked-prefill-size", "128")
    neighbour = Neighbour(server.url)
    neighbour.start()


def tearDownModule():
    neighbour.stop.set()
    neighbour.join()
    assert neighbour.answers > 0 and not neighbour.differences, neighbour.differences[:3]
    wait_until(lambda: info()["requests"]["running"] + info()["requests"]["waiting"] == 0, "an idle engine")
    used = {pool["name"]: pool["used"] for pool in info()["cache"]["pools"]}
    assert not any(used.values()), f"pages did not come home: {used}"
    metrics = ask(request("GET", "/metrics", **AUTH)).body.decode()
    failed = [line for line in metrics.splitlines() if 'status="5' in line or 'reason="error"' in line]
    assert all(line.endswith(" 0") for line in failed), failed
    code, complaints = server.stop()
    assert code == 0, code
    assert not complaints, complaints


class Bodies(unittest.TestCase):
    def test_examples_are_answered(self):
        for path, body in BODIES:
            answer = ask(post(path, body))
            self.assertEqual(answer.status, 200, f"{path}: {answer.body}")

    def test_any_value_in_any_place(self):
        jobs = [(path, body, place, value) for path, body in BODIES for place in places(body) for value in VALUES]
        if not ALL:
            jobs = random.Random(SEED).sample(jobs, 500)
        connections = threading.local()

        def send(job):
            path, body, place, value = job
            data = post(path, with_text_at(body, place, value))
            if not hasattr(connections, "raw"):
                connections.raw = Raw(server.url)
            connections.raw.send(data)
            answer = connections.raw.answer()
            if answer.status == 200:
                return None
            fault = "wrong status" if not 400 <= answer.status < 500 else faults(answer.status, answer.body, path)
            return fault and f"{path} {place} = {value[:40]}: {fault}: {answer.status} {answer.body[:300]}"

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = [fault for fault in pool.map(send, jobs) if fault]
        self.assertEqual(found, [], f"{len(found)} of {len(jobs)}")

    def refused(self, path, body, status=400):
        answer = ask(post(path, body))
        self.assertEqual(answer.status, status, f"{path} {body[:80] if isinstance(body, bytes) else body}: {answer.body}")
        self.assertIsNone(faults(answer.status, answer.body, path), answer.body)

    def test_what_is_no_json(self):
        deep = b'{"messages": ' + b"[" * 3000 + b"]" * 3000 + b"}"
        for path in (CHAT, COMPLETIONS, "/v1/responses", MESSAGES, "/tokenize", "/detokenize"):
            for body in (b"", b"{", b"[]", b"null", b'"x"', b"{} {}", b'{"a": 1,}', b"{'a': 1}", b'{"a": 01}', b"\x00",
                         b"\xff\xfe{\x00}\x00", b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\n"}', deep,
                         b'{"a": NaN}', b'{"a": ' + b"9" * 100000 + b"}", b'{"a": "' + b"A" * 100000):
                self.refused(path, body)

    def test_texts_that_are_hardly_texts(self):
        for text in (r"\ud800", r"\udc00\ud800", r"\u0000", r"a\u0000b", r"\uffff", "", " ", r"\u202e", "<｜User｜>",
                     "<｜end▁of▁sentence｜>", "</think>", "<｜DSML｜tool_calls>"):
            for path, body in ((CHAT, SHORT), (MESSAGES, SHORT), ("/v1/responses", {"input": "", "max_output_tokens": 2}),
                               (COMPLETIONS, {"prompt": "", "max_tokens": 2}), ("/tokenize", {"prompt": ""})):
                place = ("messages", 0, "content") if "messages" in body else ("input",) if "input" in body else ("prompt",)
                answer = ask(post(path, with_text_at(body, place, f'"{text}"')))
                self.assertIn(answer.status, (200, 400), f"{path} {text}: {answer.body}")
                answer.json()  # UTF-8, and JSON

    def test_conversations_that_are_none(self):
        for messages in ([], [{}], [{"role": "robot", "content": "x"}], [{"content": "x"}], [{"role": "user"}], ["x"],
                         [{"role": "user", "content": 5}],
                         [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
                         [{"role": "user", "content": [{"type": "image", "source": {}}]}]):
            self.refused(CHAT, {**SHORT, "messages": messages})
            if "image_url" not in str(messages):  # there, a block of an unknown type, which the model is told of
                self.refused(MESSAGES, {**SHORT, "messages": messages})
            if messages != [{"role": "user"}]:  # there, an empty one
                self.refused("/v1/responses", {"max_output_tokens": 2, "input": messages})

    def test_numbers_out_of_range(self):
        for fields in ({"max_tokens": 0}, {"max_tokens": -5}, {"n": 129}, {"n": 0}, {"temperature": -0.1},
                       {"temperature": 1e300}, {"top_p": 1.01}, {"top_p": -1}, {"top_k": -2}, {"min_p": 2},
                       {"logprobs": True, "top_logprobs": 21}, {"stop_token_ids": [4096]}, {"stop_token_ids": [-1]},
                       {"stop_token_ids": [2**63]}, {"logit_bias": {"4096": 1}}, {"logit_bias": {"-1": 1}},
                       {"logit_bias": {"9" * 5000: 1}}, {"stop": ["x"] * 17}, {"stop": [""]}, {"timeout": 0},
                       {"min_tokens": 3}, {"thinking_budget": -1}, {"seed": 2**64}, {"priority": 2**63}):
            self.refused(CHAT, {**SHORT, **fields})
        self.refused(COMPLETIONS, {"prompt": [4096], "max_tokens": 1})
        self.refused(COMPLETIONS, {"prompt": ["x"] * 1025, "max_tokens": 1})
        self.refused(CHAT, {**SHORT, "messages": [{"role": "user", "content": "word " * 9000}]})

    def form(self, schema):
        return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}

    def test_tools_and_schemas_that_cannot_be(self):
        long = "A" * 5000
        for name in (None, "", 1, 'a"b', "<x>", "a\nb", "x" * 5000):
            function = {"name": name, "parameters": {"type": "object"}}
            self.refused(CHAT, {**SHORT, "tools": [{"type": "function", "function": function}]})
            self.refused("/v1/responses", {"input": "x", "tools": [{"type": "function", **function}]})
            answer = ask(post(MESSAGES, {**SHORT, "tools": [{"name": name, "input_schema": {}}], "tool_choice": {"type": "any"}}))
            self.assertIn(answer.status, (200, 400), answer.body)
        for schema in (False, {"type": "integer", "minimum": 2, "maximum": 1}, {"enum": []}, {"$ref": "http://x/y"},
                       {"$ref": "#/$defs/missing"}, {"not": {}}, {"type": "string", "pattern": "("}, {"type": "nothing"},
                       {"allOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string", "minLength": -1},
                       {"properties": {long: {"not": {}}}}, {"properties": {"a": {"const": 1}}, "required": "a"},
                       {"type": "string", "pattern": "(a?){500}" * 200}, {"type": "string", "pattern": long + "("},
                       {"$defs": {"x": {"$ref": "#/$defs/x"}}, "$ref": "#/$defs/x"}, {"type": long},
                       {"$ref": "#/" + long}):
            self.refused(CHAT, {**SHORT, "response_format": self.form(schema)})
        for schema in ({"type": "array", "minItems": 10**9}, {"type": "string", "minLength": 10**12}):  # none in this context
            answer = ask(post(CHAT, {**SHORT, "response_format": self.form(schema)}))
            self.assertEqual(answer.json()["choices"][0]["finish_reason"], "length")


class Http(unittest.TestCase):
    def test_a_body_above_the_limit_is_refused_unread(self):
        head = post(CHAT, b"").replace(b"Content-Length: 0", b"Content-Length: 100000000")
        chunked = post(CHAT, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"5f5e100\r\n"
        for data in (head, head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"), chunked):
            answer = ask(data)
            self.assertEqual(answer.status, 413)
            self.assertIsNone(faults(413, answer.body, CHAT))

    def test_requests_that_two_readers_would_read_differently(self):
        smuggled = b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
        start = b"POST /tokenize HTTP/1.1\r\nHost: test\r\n"
        for head in (
                start + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                start + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
                start + b"Content-Length: 0, 0\r\n\r\n", start + b"Content-Length: +5\r\n\r\n",
                start + b"Content-Length: -1\r\n\r\n", start + b"Content-Length: 0x5\r\n\r\n",
                start + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", start + b"Content-Length: \r\n\r\n",
                start + b"Content-Length : 5\r\n\r\n", start + b" Content-Length: 5\r\n\r\n",
                start + b"X: y\r\n Content-Length: 5\r\n\r\n", start + b"Transfer-Encoding: xchunked\r\n\r\n",
                start + b"Transfer-Encoding: chunked, identity\r\n\r\n", start + b"Transfer-Encoding:\x0bchunked\r\n\r\n",
                start + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                start + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
                start + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", start + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
                start + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", start + b"Transfer-Encoding: chunked\r\n\r\n0\n\n",
                start.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                start + b"A: b\rc\r\n\r\n", start + b"A: b\x00c\r\n\r\n", start.replace(b"\r\n", b"\n") + b"\n",
                start + b"Host: other\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET / HTTP/1.1 x\r\nHost: x\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", start + b"A: " + b"b" * 40000 + b"\r\n\r\n",
                b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", start + b"A: b\r\n" * 9000 + b"\r\n"):
            with Raw(server.url, head + smuggled) as raw:
                said = raw.rest()
            self.assertRegex(said, rb"^HTTP/1\.1 (4\d\d|50[15]) ", head[:120])
            self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d\d\d", said)), 1, (head[:120], said))

    def test_bytes_that_are_no_http(self):
        hello = bytes.fromhex("16030100a5010000a10303") + os.urandom(32) + bytes(64)
        for data in (hello, os.urandom(5000), b"\x00" * 100, b"SSH-2.0-x\r\n", b"\r\n" * 9000 + b"x\r\n\r\n", b"{}\n\n",
                     b"\xff" * 70000):
            with Raw(server.url) as raw:
                try:
                    raw.send(data)
                    self.assertNotRegex(raw.rest(), rb"^HTTP/1\.1 [23]")
                except OSError:
                    pass  # closed while it was sent
        self.assertEqual(ask(request("GET", "/health")).status, 200)

    def test_paths_that_are_hardly_paths(self):
        for path in ("/v1/models/%ff%fe", "/%ed%a0%80", "/" + "A" * 5000, "/v1/models/" + "A" * 5000, "//health", "/health/",
                     "/../health", "/%2e%2e/etc/passwd", "/v1/models/..%2f..", "/v1/messages/x%0d%0aX:%20y"):
            answer = ask(request("GET", path, **AUTH))
            self.assertEqual(answer.status, 404, path)
            self.assertIsNone(faults(404, answer.body, path), answer.body)
            self.assertNotIn("x", answer.headers)
        for path in (b"/\xff\xfe", b"/v1/\xc3"):
            answer = ask(request("GET", "/@", **AUTH).replace(b"/@", path))
            self.assertIn(answer.status, (400, 404))
            answer.json()

    def test_methods(self):
        for method, path, allowed in (("GET", CHAT, "POST"), ("DELETE", MESSAGES, "POST"), ("POST", "/health", "GET"),
                                      ("PUT", "/v1/models", "GET"), ("OPTIONS", CHAT, "POST"), ("TRACE", "/", "GET")):
            answer = ask(request(method, path, **AUTH))
            self.assertEqual((answer.status, answer.headers.get("allow")), (405, allowed), (method, path))
            self.assertIsNone(faults(405, answer.body, path))
            self.assertNotIn("access-control-allow-origin", answer.headers)

    def test_keys(self):
        posts = [path for path, _ in BODIES]
        gets = ["/version", "/metrics", "/server_info", "/health_generate", "/v1/models", "/v1/models/calf"]
        wrong = [{}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "},
                 {"Authorization": "Bearer sk-tes"}, {"Authorization": "Bearer sk-test2"}, {"Authorization": KEY},
                 {"Authorization": "Basic " + KEY}, {"x-api-key": "x" * 20000}, {"x-api-key": "SK-TEST"},
                 {"Authorization": "Bearer wrong", "x-api-key": KEY}]
        for path in gets + posts:
            method, body = ("GET", None) if path in gets else ("POST", b"{}")
            for headers in wrong:
                answer = ask(request(method, path, body, **headers))
                self.assertEqual(answer.status, 401, (path, headers))
                self.assertIsNone(faults(401, answer.body, path))
                self.assertNotIn(KEY.encode(), answer.body)
            for headers in (AUTH, {"x-api-key": KEY}, {"authorization": "bearer " + KEY}):
                self.assertNotEqual(ask(request(method, path, body, **headers)).status, 401, (path, headers))
        for path in ("/", "/health"):
            self.assertEqual(ask(request("GET", path)).status, 200)

    def test_who_is_slow_holds_up_nobody(self):
        head, body = post(CHAT, SHORT).split(b"\r\n\r\n")
        slow = [Raw(server.url) for _ in range(100)] + [Raw(server.url, head + b"\r\n\r\n") for _ in range(100)]
        for i in range(20):
            for number, raw in enumerate(slow):
                raw.send((head if number < 100 else body)[i:i + 1])
            self.assertEqual(ask(post(CHAT, SHORT)).status, 200)
        for raw in slow:
            raw.close()

    def test_idle_connections(self):
        number = min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
        idle = [Raw(server.url) for _ in range(number)]
        try:
            metrics = ask(request("GET", "/metrics", **AUTH)).body.decode()
            (count,) = [line for line in metrics.splitlines() if line.startswith("cachalot:http_connections ")]
            self.assertGreater(int(float(count.split()[1])), number)
            self.assertEqual(ask(post(CHAT, SHORT)).status, 200)
            for raw in idle[::100]:
                raw.send(request("GET", "/health"))
                self.assertEqual(raw.answer().status, 200)
        finally:
            for raw in idle:
                raw.close(reset=True)


class Disconnects(unittest.TestCase):
    """Whenever a client goes, its request does."""

    def load(self):
        requests = info()["requests"]
        return requests["running"] + requests["waiting"]

    def tearDown(self):
        wait_until(lambda: self.load() <= 1, "the end of all requests but the neighbour's")

    def begin(self, body, pieces):
        """A stream of which that many pieces have come."""
        raw = Raw(server.url, post(CHAT, body))
        self.assertEqual(raw.head().status, 200)
        stream = raw.pieces()
        for _ in range(pieces):
            next(stream)
        return raw

    def test_before_and_in_the_body(self):
        data = post(CHAT, SHORT)
        for reset in (False, True):
            for size in (1, 30, data.index(b"\r\n\r\n") + 4, len(data) - 1):
                Raw(server.url, data[:size]).close(reset)

    def test_in_the_prompt(self):
        for reset in (False, True):
            raw = self.begin(LONG_PROMPT, 2)  # the head, and how far the prompt is
            self.assertGreaterEqual(info()["requests"]["running"], 1)
            raw.close(reset)

    def test_in_a_stream(self):
        for reset in (False, True):
            streams = [self.begin(ENDLESS, 5) for _ in range(4)]
            for raw in streams:
                raw.close(reset)

    def test_before_a_whole_answer(self):
        for reset in (False, True):
            raw = Raw(server.url, post(CHAT, {**ENDLESS, "stream": False}))
            wait_until(lambda: self.load() >= 1, "a request")
            raw.close(reset)

    def test_in_the_queue(self):
        streams = [Raw(server.url, post(CHAT, ENDLESS)) for _ in range(8)]
        wait_until(lambda: info()["requests"]["running"] == 8, "as many as may run")
        for reset in (False, True):
            waiting = [Raw(server.url, post(CHAT, {**ENDLESS, "stream": number % 2 == 0, "n": 2})) for number in range(4)]
            wait_until(lambda: info()["requests"]["waiting"] >= 8, "a queue")
            for raw in waiting:
                raw.close(reset)
            wait_until(lambda: info()["requests"]["waiting"] <= 1, "an empty queue")
        for raw in streams:
            raw.close()

    def test_between_requests(self):
        for reset in (False, True):
            raw = Raw(server.url, post(CHAT, SHORT))
            self.assertEqual(raw.answer().status, 200)
            raw.send(request("GET", "/health"))
            self.assertEqual(raw.answer().status, 200)
            raw.close(reset)

    def test_who_pipelines_and_goes(self):
        for reset in (False, True):
            Raw(server.url, post(CHAT, ENDLESS) * 5).close(reset)

    def test_who_stops_reading(self):
        # With log-probabilities of the whole prompt in it: eight of these are more than is kept for anybody.
        body = {"prompt": "The lake is blue. " * 350, "echo": True, "logprobs": 20, "n": 8 if ALL else 1, "max_tokens": 3000,
                "ignore_eos": True, "stream": True}
        raw = Raw(server.url, post(COMPLETIONS, body), receive_buffer=4096)
        wait_until(lambda: self.load() >= body["n"], "its choices")
        self.assertEqual(ask(post(CHAT, SHORT)).status, 200)
        if ALL:
            wait_until(lambda: self.load() <= 1, "the end of a client that does not read")
        raw.close()


class Cors(unittest.TestCase):
    def test_other_origins(self):
        with Server(PROGRAM, MODEL, "--cors", "https://example.org", "--cache-bytes", "32M", "--context", "1024") as other:
            answer = ask(request("OPTIONS", CHAT, Origin="https://example.org",
                                 Access_Control_Request_Method="POST"), other.url)
            self.assertEqual(answer.status, 204)
            self.assertEqual(answer.headers["access-control-allow-origin"], "https://example.org")
            for data, status in ((request("GET", "/health"), 200), (request("GET", "/none"), 404),
                                 (request("GET", CHAT), 405), (request("POST", CHAT, b"{"), 400)):
                answer = ask(data, other.url)
                self.assertEqual(answer.status, status)
                self.assertEqual(answer.headers["access-control-allow-origin"], "https://example.org")
            self.assertEqual(other.stop(), (0, []))


class Draining(unittest.TestCase):
    def begin(self, tokens):
        draining = Server(PROGRAM, MODEL, "--no-prefix-cache", "--cache-bytes", "32M", "--context", "32768")
        self.addCleanup(draining.__exit__)
        body = {"prompt": "Once upon a time", "ignore_eos": True, "max_tokens": tokens, "stream": True}
        streaming = Raw(draining.url, request("POST", COMPLETIONS, body))
        self.assertEqual(streaming.head().status, 200)
        pieces = streaming.pieces()
        next(pieces)
        idle = Raw(draining.url, request("GET", "/health"))
        self.assertEqual(idle.answer().status, 200)
        draining.process.send_signal(signal.SIGINT)
        self.wait_for_log(draining, "draining")
        return draining, pieces, idle

    def wait_for_log(self, server, text):
        deadline = time.monotonic() + 20
        while not any(text in line for line in server.log):
            self.assertLess(time.monotonic(), deadline, f"nothing of {text} in the log")
            time.sleep(0.02)

    def test_the_first_interrupt_lets_streams_finish(self):
        draining, pieces, idle = self.begin(3000)
        health = draining.request("/health")
        self.assertEqual((health[0], health[2]), (503, {"status": "draining"}))
        self.assertEqual(draining.request(COMPLETIONS, {"prompt": "Once"})[0], 503)
        self.assertTrue(list(pieces)[-1].endswith(b"data: [DONE]\n\n"))
        self.assertEqual(idle.rest(), b"")
        self.assertEqual(draining.process.wait(timeout=60), 0)

    def test_the_second_ends_at_once(self):
        draining, pieces, idle = self.begin(30000)
        draining.process.send_signal(signal.SIGINT)
        with self.assertRaises((ConnectionError, ValueError)):
            list(pieces)
        self.assertEqual(draining.process.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
