#!/usr/bin/env bash
# run.sh BUILD SECONDS: every fuzz target for so long, two at a time; stops at the first finding.
set -euo pipefail
build=$1
seconds=$2
corpus=$build/corpus
seeds=$(dirname "$0")/seeds
export build seconds corpus seeds
ls "$build" | grep '_fuzz$' | xargs -P 2 -I{} bash -c '
  mkdir -p "$corpus/{}"
  "$build/{}" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 -artifact_prefix="$corpus/{}." "$corpus/{}" "$seeds/{}" >"$corpus/{}.log" 2>&1 \
    && echo "{}: $(grep -oE "^Done [0-9]+ runs in [0-9]+ second" "$corpus/{}.log")" \
    || { tail -n 40 "$corpus/{}.log"; exit 255; }'
