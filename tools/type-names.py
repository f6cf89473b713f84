#!/usr/bin/python3
"""No two types of one namespace have one name.

Of two such the linker keeps one set of functions for both, and which is luck. Types of unnamed namespaces and of classes are
their own.
"""

import collections
import pathlib
import re
import sys

TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: :[^{;]*)?\s*\{", re.MULTILINE)
UNNAMED = re.compile(r"^namespace \{.*?^\}  // namespace\n", re.MULTILINE | re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)

places = collections.defaultdict(set)
for path in sorted(pathlib.Path("src").rglob("*")):
    if path.suffix in (".h", ".cc") and not path.name.endswith("_test.cc"):
        text = UNNAMED.sub("", path.read_text(encoding="utf-8"))
        namespace = NAMESPACE.search(text)
        for name in TYPE.findall(text):
            places[(namespace.group(1) if namespace else "", name)].add(str(path))
doubles = {name: paths for (_, name), paths in places.items() if len(paths) > 1}
for name, paths in doubles.items():
    print(f"{name} is a type in {' and in '.join(sorted(paths))}", file=sys.stderr)
sys.exit(1 if doubles else 0)
