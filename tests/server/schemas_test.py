"""Answers to 300 JSON schemas, each by a real server and held against a validator that knows nothing of ours.

Run: schemas_test.py PROGRAM MODEL, with a Python that has the package jsonschema. CACHALOT_SCHEMAS sets how many,
CACHALOT_SCHEMA_SEED which.
"""

import collections
import concurrent.futures
import json
import os
import random
import sys
import unittest

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_http import Raw, request  # noqa: E402
from server import Server  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]
COUNT = int(os.environ.get("CACHALOT_SCHEMAS", "300"))
SEED = int(os.environ.get("CACHALOT_SCHEMA_SEED", "1"))
AT_ONCE = 16
NAMES = ["name", "age", "tags", "a", "b", "x y", "ünï", "type", "émile", "q\"uote", "back\\slash", "0", "", "日本"]
PATTERNS = ["^[a-z]{1,6}$", "^(red|green|blue)$", "^\\d{3}-\\d{4}$", "^[A-Z][a-z]{0,5}( [A-Z][a-z]{0,5})?$",
            "^[^\\s]{1,4}$", "^(a|bc){1,3}$", "^\\w+$", "^.{0,3}$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email"]


class Schemas:
    """Of the kinds that docs/structured-output.md lists, each with a bound on how long an answer may be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.definitions = {}

    def whole(self):
        self.definitions = {}
        if self.random.random() < 0.2:
            self.definitions["leaf"] = self.leaf()
            self.definitions["node"] = {"type": "object", "properties": {"value": {"$ref": "#/$defs/leaf"}},
                                        "required": ["value"], "additionalProperties": False}
        schema = self.object(2) if self.random.random() < 0.8 else self.any(2)
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def any(self, depth):
        kinds = [self.leaf] * 3
        if depth > 0:
            kinds += [lambda: self.object(depth - 1), lambda: self.array(depth - 1), lambda: self.tuple(depth - 1),
                      lambda: self.alternatives(depth - 1), lambda: self.joined()]
        if self.definitions:
            kinds.append(lambda: {"$ref": self.random.choice(["#/$defs/leaf", "#/$defs/node"])})
        return self.random.choice(kinds)()

    def leaf(self):
        return self.random.choice([self.string, self.string, self.text, self.integer, self.number, self.choice,
                                   lambda: {"type": "boolean"}, lambda: {"type": "null"},
                                   lambda: {"type": ["integer", "null"], "minimum": -3, "maximum": 99},
                                   lambda: {"const": self.random.choice(["c", 3, True, None, [1, "x"], {"k": 1.5}])}])()

    def string(self):
        low = self.random.randrange(4)
        return {"type": "string", "minLength": low, "maxLength": low + self.random.randrange(12)}

    def text(self):
        if self.random.random() < 0.5:
            return {"type": "string", "format": self.random.choice(FORMATS), "maxLength": 48}
        return {"type": "string", "pattern": self.random.choice(PATTERNS), "maxLength": 24}

    def integer(self):
        low = self.random.choice([-1000, -7, 0, 1, 17, 10**9])
        bounds = [{"minimum": low, "maximum": low + self.random.choice([0, 1, 9, 12345])},
                  {"exclusiveMinimum": low, "exclusiveMaximum": low + 2 + self.random.randrange(500)}, {}]
        return {"type": "integer", **self.random.choice(bounds)}

    def number(self):
        low = self.random.choice([-2.5, 0, 0.125, 99])
        return {"type": "number", **self.random.choice([{"minimum": low, "maximum": low + 10}, {"exclusiveMinimum": low}, {}])}

    def choice(self):
        return {"enum": self.random.sample(["red", "green", "b\"lue", 1, 2.5, None, False, "ünï", ["x"], {"a": 1}], 3)}

    def array(self, depth):
        low = self.random.randrange(3)
        return {"type": "array", "items": self.any(depth), "minItems": low, "maxItems": low + self.random.randrange(4)}

    def tuple(self, depth):
        return {"type": "array", "prefixItems": [self.any(depth), self.leaf()], "items": False, "minItems": 1}

    def alternatives(self, depth):
        if self.random.random() < 0.5:
            return {"anyOf": [self.any(depth) for _ in range(2 + self.random.randrange(2))]}
        tagged = [{"type": "object", "properties": {"kind": {"const": kind}, "value": self.any(depth)},
                   "required": ["kind", "value"], "additionalProperties": False} for kind in ("one", "two")]
        return {"oneOf": [*tagged, {"type": "null"}]}

    def joined(self):
        return {"allOf": [{"type": "object", "properties": {"a": self.leaf()}, "required": ["a"]},
                          {"properties": {"b": self.leaf()}}], "additionalProperties": True, "maxProperties": 2}

    def object(self, depth):
        names = self.random.sample(NAMES, 1 + self.random.randrange(4))
        schema = {"type": "object", "properties": {name: self.any(depth) for name in names},
                  "required": [name for name in names if self.random.random() < 0.6]}
        others = self.random.random()
        if others < 0.6:
            schema["additionalProperties"] = False
        elif others < 0.75:
            schema.update(additionalProperties={"type": "integer", "minimum": 0, "maximum": 9}, maxProperties=len(names) + 1)
        return schema


def setUpModule():
    unittest.addModuleCleanup(lambda: server.__exit__())
    global server
    server = Server(PROGRAM, MODEL, "--context", "8192", "--cache-bytes", "256M", "--max-running", str(AT_ONCE))


def tearDownModule():
    code, complaints = server.stop()
    assert code == 0, code
    assert not complaints, complaints


def ask(schema, **fields):
    body = {"messages": [{"role": "user", "content": "Who are you?"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}, **fields}
    with Raw(server.url, request("POST", "/v1/chat/completions", body), timeout=300) as raw:
        answer = raw.answer()
        return answer.status, answer.json()


class SchemasTest(unittest.TestCase):
    def test_answers_are_valid(self):
        schemas = Schemas(SEED)
        jobs = []
        for number in range(COUNT):
            thinking = {"reasoning_effort": "low", "thinking_budget": 16} if number % 3 == 0 else {"reasoning_effort": "none"}
            jobs.append((schemas.whole(), {"seed": number, "temperature": 1, "max_tokens": 1500, **thinking}))

        def judge(job):
            schema, fields = job
            status, body = ask(schema, **fields)
            if status != 200:
                return "refused", 0, f"{json.dumps(schema)}: {body}"
            (choice,), usage = body["choices"], body["usage"]
            text = choice["message"]["content"]
            if choice["finish_reason"] != "stop":  # the names of further properties have no bound
                return choice["finish_reason"], usage["completion_tokens"], f"{json.dumps(schema)}: {text[:500]}"
            try:
                jsonschema.Draft202012Validator(
                    schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(json.loads(text))
            except ValueError as error:
                return "no JSON", usage["completion_tokens"], f"{json.dumps(schema)}: {text}: {error}"
            except jsonschema.ValidationError as error:
                return "invalid", usage["completion_tokens"], f"{json.dumps(schema)}: {text}: {error.message}"
            return "valid", usage["completion_tokens"], ""

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            verdicts = list(pool.map(judge, jobs))
        counts = collections.Counter(verdict for verdict, _, _ in verdicts)
        lengths = sorted(tokens for _, tokens, _ in verdicts)
        print(f"\n{dict(counts)}; tokens of an answer: median {lengths[len(lengths) // 2]}, most {lengths[-1]}", file=sys.stderr)
        self.assertEqual([text for verdict, _, text in verdicts if verdict not in ("valid", "length")][:5], [], dict(counts))
        self.assertGreaterEqual(counts["valid"], 0.9 * COUNT, [text for verdict, _, text in verdicts if verdict == "length"])

    def test_what_cannot_be_enforced_is_refused_by_name(self):
        for schema, named in (({"properties": {"a": {"not": {"type": "string"}}}}, "#/properties/a/not"),
                              ({"type": "array", "uniqueItems": True}, "uniqueItems"),
                              ({"type": "array", "contains": {"type": "integer"}}, "contains"),
                              ({"type": "object", "patternProperties": {"^x": {}}}, "patternProperties"),
                              ({"type": "number", "multipleOf": 0.1}, "multipleOf"),
                              ({"type": "string", "pattern": "(?=x)y"}, "pattern"),
                              ({"$ref": "https://example.org/schema"}, "$ref"),
                              ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
                              ({"type": "integer", "minimum": 3, "maximum": 2}, "#"),
                              ({"type": "string", "pattern": "a{9999}{9999}"}, "pattern"),
                              ({"if": {}, "then": {}}, "if")):
            status, body = ask(schema, max_tokens=5)
            self.assertEqual(status, 400, schema)
            self.assertIn(named, body["error"]["message"], schema)
            self.assertEqual(body["error"]["type"], "invalid_request_error")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
