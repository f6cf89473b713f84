"""HTTP/1.1 by hand, for what no HTTP library would send: one socket, any bytes, at any time."""

import json
import socket
import struct
import urllib.parse


class Answer:
    def __init__(self, status, headers, body=b""):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body.decode())


def request(method, path, body=None, **headers):
    """The bytes of a request; `body` is bytes, or an object to write as JSON. An underscore in a header's
    name is a hyphen."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: test"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines + ["", ""]).encode() + (body or b"")


class Raw:
    """A connection. What it gets is read with answer(), or head() and pieces(), or rest()."""

    def __init__(self, url, data=b"", timeout=60, receive_buffer=None):
        address = urllib.parse.urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((address.hostname, address.port))
        self.unread = b""
        self.send(data)

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        received = self.socket.recv(1 << 16)
        if not received:
            raise ConnectionError(f"the server closed after {self.unread[:200]!r}")
        self.unread += received

    def _line(self):
        while b"\r\n" not in self.unread:
            self._more()
        line, self.unread = self.unread.split(b"\r\n", 1)
        return line

    def _bytes(self, count):
        while len(self.unread) < count:
            self._more()
        taken, self.unread = self.unread[:count], self.unread[count:]
        return taken

    def head(self):
        status = 100
        while status == 100:
            status = int(self._line().split()[1])
            headers = {}
            while line := self._line():
                name, value = line.decode().split(":", 1)
                headers[name.lower()] = value.strip()
        return Answer(status, headers)

    def pieces(self):
        """The chunks of a stream whose head was read."""
        while size := int(self._line(), 16):
            yield self._bytes(size)
            self._line()
        self._line()

    def answer(self):
        answer = self.head()
        if "transfer-encoding" in answer.headers:
            answer.body = b"".join(self.pieces())
        else:
            answer.body = self._bytes(int(answer.headers.get("content-length", 0)))
        return answer

    def rest(self):
        """All up to the end of the connection."""
        try:
            while received := self.socket.recv(1 << 16):
                self.unread += received
        except ConnectionResetError:
            pass
        return self.unread

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
