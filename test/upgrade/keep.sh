#!/usr/bin/env bash
# Keeps the data directory of a small cluster as a program leaves it, for later programs to come
# up on: a job that runs (for a time without end), one that waits, an AppWrapper, and what was
# decided. Keys are left out: they are made anew. "make keep-data" calls it with the program that
# is built; do so when internal/local.schema or the version of Kubernetes grows.
#
#   test/upgrade/keep.sh PROGRAM OUT.tar.gz
set -euo pipefail
program=$(realpath "$1") out=$(realpath -m "$2")
dir=$(mktemp -d)
trap '"$program" down --delete --data-dir "$dir/data" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
export MLBATCH_DATA_DIR=$dir/data KUBECONFIG=$dir/data/kubeconfig

"$program" up --detach --empty --nodes 2
"$program" team create blue --gpus 8 --users alice --create-flavor
submit() { # NAME PODS GPUS
  "$program" kubectl create -f - <<EOF
apiVersion: batch/v1
kind: Job
metadata: {name: $1, namespace: blue, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  parallelism: $2
  completions: $2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, command: [sleep, "1000000000"], resources: {requests: {cpu: 1, nvidia.com/gpu: $3}, limits: {nvidia.com/gpu: $3}}}
EOF
}
submit runs 2 2
"$program" kubectl create -f - <<EOF
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: wrapped, namespace: blue}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: wrapped}
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers:
            - {name: main, image: busybox, command: [sleep, "1000000000"], resources: {requests: {cpu: 1, nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}
EOF
"$program" kubectl wait -n blue --for=jsonpath='{.status.ready}'=2 job/runs --timeout=2m
"$program" kubectl wait -n blue --for=jsonpath='{.status.phase}'=Running appwrapper/wrapped --timeout=2m
submit waits 1 8
"$program" kubectl wait -n blue --for=jsonpath='{.spec.suspend}'=true job/waits --timeout=1m
"$program" kubectl get pods -n blue -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}' | sort >"$dir/pods"
"$program" down --data-dir "$dir/data"
mkdir -p "$dir/keep"
cp -r "$dir/data/etcd" "$dir/data/flights" "$dir/data/mlbatch.json" "$dir/data/cluster.json" "$dir/pods" "$dir/keep/"
mkdir -p "$(dirname "$out")"
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$dir/keep" -cf - . | gzip -9n >"$out"
ls -l "$out"
