#!/usr/bin/env bash
# run.sh BUILD SECONDS: every fuzz target for so long, two at a time; stops at the first finding.
set -euo pipefail
build=$1
seconds=$2
corpus=$build/corpus
export build seconds corpus
ls "$build" | grep '_fuzz$' | xargs -P 2 -I{} bash -c '
  mkdir -p "$corpus/{}"
  "$build/{}" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 -artifact_prefix="$corpus/{}." "$corpus/{}" >"$corpus/{}.log" 2>&1 \
    && echo "{}: $(grep -oE "^Done [0-9]+ runs in [0-9]+ second" "$corpus/{}.log")" \
    || { tail -n 40 "$corpus/{}.log"; exit 255; }'
