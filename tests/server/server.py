"""A server of its own for tests: started on a free port, stopped at the end."""

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request


class Server:
    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen(
            [program, "serve", "-m", model, "--port", "0", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        threading.Thread(target=self._read_log, daemon=True).start()
        line = self.process.stdout.readline()
        found = re.search(r"at (http://\S+)", line)
        if not found:
            self.process.wait()
            raise RuntimeError(f"the server did not start: {line}{''.join(self.log)}")
        self.url = found.group(1)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def request(self, path, body=None, headers=None, method=None):
        """Status, headers and JSON (or text) of an answer, errors included."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method,
                                         headers={"Content-Type": "application/json", **(headers or {})})
        try:
            answer = urllib.request.urlopen(request, timeout=120)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, answer.headers, json.loads(text) if is_json and text else text

    def info(self):
        return self.request("/server_info")[2]

    def pools_in_use(self):
        """Pages that requests hold; what the prefix index holds beside them cannot be told apart."""
        return {pool["name"]: pool["used"] for pool in self.info()["cache"]["pools"]}

    def stop(self):
        """The exit code, and what was logged as a warning or worse."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=60)
        return code, [line for line in self.log if re.search(r"\b(warning|error|critical)\b", line)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
