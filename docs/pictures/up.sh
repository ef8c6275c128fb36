#!/usr/bin/env bash
# Draws up.svg: what `mlbatch up` shows on a terminal, once alice has submitted four
# jobs of 8 GPUs. Run by `make pictures`.
set -euo pipefail
cd "$(dirname "$0")/../.."

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
export MLBATCH_DATA_DIR=$data/mlbatch PATH=$PWD/bin:$PATH

submit='for i in 1 2 3 4; do mlbatch kubectl create -n blue --as alice -f examples/tutorial/normal.yaml; done'
"${GO:-go}" run ./tools/terminal -columns 80 -replace "$MLBATCH_DATA_DIR=~/.local/share/mlbatch" \
	-when 'Ctrl-C stops' -do "$submit" -until 'blue-cluster-queue +yes +1 +3 ' \
	-o docs/pictures/up.svg -- mlbatch up
