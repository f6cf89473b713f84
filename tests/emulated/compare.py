"""compare.py FOUND WANTED BOUND: the median relative error of rows of 256 float32 logits."""

import array
import math
import statistics
import sys

WIDTH = 256


def rows(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return [values[i : i + WIDTH] for i in range(0, len(values), WIDTH)]


found, wanted, bound = rows(sys.argv[1]), rows(sys.argv[2]), float(sys.argv[3])
assert len(found) == len(wanted) > 0
median = statistics.median(math.dist(f, w) / math.hypot(*w) for f, w in zip(found, wanted))
print(f"AMX: median row error {median:.1e}, at most {bound:.0e}")
sys.exit(median > bound)
