#!/usr/bin/env bash
# check.sh PYTHON PROGRAM: the emulated instructions against plain C, then the program's logits of the golden
# checkpoints' first tokens on AVX-512 (the bits of AVX2) and AMX (near the reference).
set -euo pipefail
python=$1
program=$(realpath "$2")
cd "$(dirname "$0")/../.."
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

gcc -O1 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mavx512vbmi \
  -mamx-tile -mamx-int8 -mamx-bf16 tests/emulated/instructions.c -lm -o "$temp/instructions"
"$python" tests/emulated/run.py "$temp/instructions"

for layout in native bf16 w8a8; do
  head -c 80 tests/golden/$layout/golden/tokens.i32 >"$temp/tokens"
  logits() { "${@:2}" "$program" logits -m tests/golden/$layout --tokens "$temp/tokens" --out "$temp/$1" --isa "$1" -t 1; }
  logits ref
  logits avx2
  logits avx512 "$python" tests/emulated/run.py
  cmp "$temp/avx2" "$temp/avx512"
  echo "$layout: AVX-512 has the bits of AVX2"
  logits amx "$python" tests/emulated/run.py
  "$python" tests/emulated/compare.py "$temp/amx" "$temp/ref" 4e-3
done
