"""Requests that schemathesis makes from docs/openapi.json, and what is nearly such: the server refuses or answers
them, and what it says has the shape that the document gives. The document's examples are answered with 200.

Run by `make api-fuzz`: fuzz_test.py PROGRAM MODEL OPENAPI [flags for schemathesis].
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from server import Server  # noqa: E402

PROGRAM, MODEL, OPENAPI = map(os.path.abspath, sys.argv[1:4])
KEY = "sk-test"
SCHEMATHESIS = [os.path.join(os.path.dirname(sys.executable), "schemathesis"),
                "--config-file", os.path.join(HERE, "schemathesis.toml")]

# Left out are checks for which the document says too little: which valid requests contradict themselves, and which
# invalid ones are taken nevertheless.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth")


def refused_examples(server):
    """Those of the document that are not answered with 200."""
    with open(OPENAPI, encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    refused = []
    for path, operations in paths.items():
        body = operations.get("post", {}).get("requestBody", {"content": {"application/json": {}}})
        for name, example in body["content"]["application/json"].get("examples", {}).items():
            answer = server.request(path, example["value"], {"x-api-key": KEY})
            if answer[0] != 200:
                refused.append((path, name, answer[0], answer[2]))
    return refused


# A short context and a short queue keep answers short and show 429 too.
with (Server(PROGRAM, MODEL, "--api-key", KEY, "--context", "512", "--cache-bytes", "64M", "--max-running", "8",
             "--max-queue", "8") as server, tempfile.TemporaryDirectory() as folder):
    faults = refused_examples(server)
    code = subprocess.run(
        [*SCHEMATHESIS, "run", OPENAPI, "--url", server.url, "--header", "Authorization: Bearer " + KEY,
         "--checks", CHECKS, "--seed", "1", "--request-timeout", "60", "--generation-database", "none",
         "--suppress-health-check", "all", "--no-color", "--continue-on-failure", *sys.argv[4:]],
        cwd=folder).returncode
    if code:
        faults.append(f"schemathesis: {code}")
    if server.request("/health")[0] != 200:
        faults.append("the server is not well")
    exit_code, complaints = server.stop()
    if exit_code:
        faults.append(f"the server's exit code is {exit_code}")
faults += complaints
for fault in faults:
    print(fault)
sys.exit(bool(faults))
