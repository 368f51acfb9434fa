#!/usr/bin/env bash
# Measures Weft, beside its peers where those are installed. Installs what is missing on Debian and Ubuntu, peers excepted.
#
#   bash bench/run.sh [SUITE...] [--peers DIR] [--peer-programs DIR] [--rounds N]
#
# A suite is bench/SUITE.cpp, .py or .sh: without an argument it prints one JSON object a line, "peer": "weft" among its
# keys. --peers names a folder of Python environments, `torch` (PyTorch) and `tf` (TensorFlow and JAX); --peer-programs
# that of the programs which time them. Weft and the peers run in turn, N times (2 unless said), since machines are noisy;
# the table at the end has medians over the rounds and ratios. All rows: build/bench/rows.jsonl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh

suites=()
environments=
programs=
rounds=2
while [[ $# -gt 0 ]]; do
  case $1 in
    --peers | --peer-programs | --rounds)
      [[ $# -ge 2 ]] || { echo "error: $1 needs a value" >&2; exit 2; }
      case $1 in
        --peers) environments=$2 ;;
        --peer-programs) programs=$2 ;;
        --rounds) rounds=$2 ;;
      esac
      shift
      ;;
    -*) echo "error: unknown argument $1 (--peers, --peer-programs, --rounds)" >&2; exit 2 ;;
    *)
      [[ -n $(compgen -G "bench/$1.*") ]] || { echo "error: there is no suite $1" >&2; exit 2; }
      suites+=("$1")
      ;;
  esac
  shift
done
if [[ ${#suites[@]} -eq 0 ]]; then
  for suite in step overhead elementwise matmul allreduce parameter_server compile; do
    if [[ -n $(compgen -G "bench/$suite.*") ]]; then suites+=("$suite"); fi
  done
fi

need_benchmarks
install_missing

rows=build/bench/rows.jsonl
mkdir -p build/bench
: > "$rows"

# measure SUITE COMMAND...: runs it and keeps the JSON objects that it prints. One that fails is told and passed over.
measure() {
  local suite=$1
  shift
  if ! "$@" 2> build/bench/stderr | tee >(cat >&2) | sed -n "s/^{/{\"suite\": \"$suite\", /p" >> "$rows"; then
    echo "failed: $*" >&2
    tail -n 3 build/bench/stderr >&2
  fi
}

# peer ENVIRONMENT PROGRAM ARGUMENT...: a peer's Python program, where both are there.
peer() {
  local python=$environments/$1/bin/python program=$programs/$2
  shift 2
  if [[ -n $environments && -n $programs && -x $python && -e $program ]]; then measure "$suite" "$python" "$program" "$@"; fi
}

peers_of_step() {
  local batch
  for batch in 1 10 100; do
    for name in torch torch_compile; do peer torch mnist_step.py "$name" --batch "$batch" --threads 1; done
    for name in tf_graph tf_xla jax; do peer tf mnist_step.py "$name" --batch "$batch" --threads 1; done
  done
  peer torch mnist_step.py torch --batch 100 --threads 2
  peer tf mnist_step.py jax --batch 100 --threads 2
  for batch in 1 100; do peer torch mnist_step.py torch --batch "$batch" --threads 1 --infer; done
  peer torch model_step.py deep_mlp --batch 16 --threads 2
}

peers_of_elementwise() {
  [[ -n $programs ]] && header eigen3/Eigen/Dense && header xtensor/xtensor.hpp || return 0
  local program=build/bench/elementwise_peers
  if [[ ! -x $program ]]; then
    g++ -O3 -march=native -std=c++20 -DNDEBUG -isystem /usr/include/eigen3 "$programs/elementwise.cpp" -o "$program"
  fi
  measure "$suite" "$program"
}

peers_of_allreduce() {
  peer torch allreduce_torch.py --ranks 2
  [[ -n $programs ]] && command -v mpicxx > /dev/null || return 0
  local program=build/bench/mpi_allreduce
  if [[ ! -x $program ]]; then mpicxx -O3 "$programs/mpi_allreduce.cpp" -o "$program"; fi
  measure "$suite" mpirun --allow-run-as-root --oversubscribe -np 2 --mca btl tcp,self "$program"
}

peers_of_parameter_server() {
  local hidden
  for hidden in 100 2000; do
    peer tf mnist_ps_tf.py --hidden "$hidden" --steps $((hidden == 100 ? 3000 : 600))
    peer tf mnist_ps_tf.py --hidden "$hidden" --steps $((hidden == 100 ? 1500 : 300)) --sync
    peer torch mnist_ddp_torch.py --hidden "$hidden" --steps $((hidden == 100 ? 3000 : 300))
  done
}

targets=()
for suite in "${suites[@]}"; do
  if [[ -e bench/$suite.cpp ]]; then targets+=("bench_$suite"); fi
done
# Suites of several processes measure the example program.
build default "${targets[@]}" mnist

for ((round = 1; round <= rounds; ++round)); do
  for suite in "${suites[@]}"; do
    echo "=== $suite, round $round of $rounds" >&2
    if [[ -e bench/$suite.cpp ]]; then measure "$suite" "build/default/bench/bench_$suite"; fi
    if [[ -e bench/$suite.py ]]; then measure "$suite" python3 "bench/$suite.py"; fi
    if [[ -e bench/$suite.sh ]]; then measure "$suite" bash "bench/$suite.sh"; fi
    if declare -F "peers_of_$suite" > /dev/null; then "peers_of_$suite"; fi
  done
done

python3 bench/table.py "$rows"
