#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends python3-venv
fi
python3 tools/set_up.py instructor --torch cpu
