#!/usr/bin/env bash
# Builds and runs an example. Installs what is missing on Debian and Ubuntu.
#
#   bash examples/run.sh                   trains a classifier of images on a cluster of this machine's own: one parameter
#                                          server and two workers, each a process, on loopback
#   bash examples/run.sh NAME [FLAGS...]   runs one example with its own flags; NAME --help lists them
set -euo pipefail
caller=$PWD  # the flags' paths are relative to it
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh
. scripts/ports.sh

least_accuracy=0.85
longest_seconds=300

name=${1:-mnist}
name=${name%/}
examples=$(cd examples && echo */ | tr -d /)
if [[ $name == --help || $name == -h ]]; then
  sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' examples/run.sh
  echo
  echo "The examples: $examples"
  exit
fi
if [[ $name == */* || $name == .* || ! -f examples/$name/$name.cpp ]]; then
  echo "error: there is no example ${1:-$name}; there are: $examples" >&2
  exit 2
fi
need_examples
install_missing
build default "$name" >&2  # the example alone writes to the output
program=$PWD/build/default/examples/$name
if [[ $# -gt 0 ]]; then
  shift
  cd "$caller"
  exec "$program" "$@"
fi

# ---- the cluster ----

folder=$(mktemp -d)
tasks=()
# However this script ends, its processes end with it.
end_all() {
  trap '' INT TERM
  [[ ${#tasks[@]} -eq 0 ]] || kill "${tasks[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
  rm -rf "$folder"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

read -r ps_port first_port second_port <<< "$(free_ports 3)"
cluster=(--strategy async --ps_hosts "127.0.0.1:$ps_port" --worker_hosts "127.0.0.1:$first_port,127.0.0.1:$second_port"
         --threads 1 --batch_size 100 --optimizer gradient_descent --schedule constant --learning_rate 0.5 --epochs 20)

# A process of the cluster, bounded in time; what the silent ones have to say is kept.
start() {
  local log=$1
  shift
  timeout "$longest_seconds" "$program" "${cluster[@]}" "$@" > "$log" 2>&1 &
  tasks+=($!)
}

echo "training on 60,000 images: a parameter server and two workers on loopback"
start "$folder/ps" --job_name ps --task_index 0
start "$folder/worker1" --job_name worker --task_index 1 --progress none
# Worker 0 draws its progress on the terminal. It is waited for, not run in the foreground, so that a signal to this script
# is heeded at once.
status=0
timeout --foreground "$longest_seconds" "$program" "${cluster[@]}" --job_name worker --task_index 0 \
  --json "$folder/result.json" &
tasks+=($!)
wait $! || status=$?
if [[ $status -ne 0 ]]; then
  echo "error: worker 0 ended with code $status" >&2
  tail -n 5 "$folder/ps" "$folder/worker1" >&2
  exit 1
fi

accuracy=$(sed -n 's/.*"test_accuracy": *\([0-9.]*\).*/\1/p' "$folder/result.json" 2> /dev/null || true)
if ! awk -v a="${accuracy:-0}" -v least="$least_accuracy" 'BEGIN { exit !(a >= least) }'; then
  echo "error: the test accuracy is ${accuracy:-unknown}, below $least_accuracy" >&2
  exit 1
fi
