#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Measures Weft and the installed peers. Installs missing packages on Debian and Ubuntu, except for the peers.
#
#   bash bench/run.sh [SUITE...] [--peers DIR] [--rounds N] [--quick | --publish]
#
# A suite is bench/SUITE.cpp or SUITE.py: without an argument it prints one JSON object a line, "peer": "weft" among its
# keys. `bash bench/peers/install.sh` installs the Python peers into build/peers; --peers names another folder with the
# environments `torch` and `tf`. Weft and the peers run in turn, case by case, in N rounds (3 by default), since
# machines are noisy. The table at the end has medians over the rounds, ratios and goals. --quick runs one round of short
# measurements without the slowest peers; its figures are not for publication. --publish writes
# docs/explanation/results.json and README.md's table of results, except for figures that vary by more than 20 % between
# the rounds, which it names.
# All rows: build/bench/rows.jsonl; `python3 bench/table.py build/bench/rows.jsonl` prints them again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh
. scripts/ports.sh

known=(step models loops optimizers checkpoint overhead serving queues data planner elementwise operations imported normalization matmul allreduce mpi parameter_server transfer trust spanning scale failures compile)
suites=()
environments=build/peers
rounds=
quick=
publish=
while [[ $# -gt 0 ]]; do
  case $1 in
    --peers | --rounds)
      [[ $# -ge 2 ]] || { echo "error: $1 needs a value" >&2; exit 2; }
      case $1 in
        --peers) environments=$2; [[ -d $2 ]] || { echo "error: folder $2 does not exist" >&2; exit 2; } ;;
        --rounds) rounds=$2 ;;
      esac
      shift
      ;;
    --quick) quick=yes ;;
    --publish) publish=yes ;;
    -*) echo "error: unknown argument $1 (--peers, --rounds, --quick, --publish)" >&2; exit 2 ;;
    *)
      [[ " ${known[*]} " == *" $1 "* ]] || { echo "error: unknown suite $1; choose from: ${known[*]}" >&2; exit 2; }
      suites+=("$1")
      ;;
  esac
  shift
done
[[ ${#suites[@]} -gt 0 ]] || suites=("${known[@]}")
if [[ -n $quick && -n $publish ]]; then echo "error: --quick measures too little to --publish" >&2; exit 2; fi
rounds=${rounds:-${quick:+1}}
rounds=${rounds:-3}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "error: --rounds must be a positive number, but is $rounds" >&2; exit 2; }
if [[ -n $publish && $rounds -lt 2 ]]; then echo "error: --publish requires at least 2 rounds" >&2; exit 2; fi
if [[ ! -d $environments ]]; then
  echo "the Python peers are not installed, so only Weft is measured; install them with bash bench/peers/install.sh" >&2
fi

need_benchmarks
if [[ " ${suites[*]} " == *" transfer "* ]]; then need iperf3 "what a stream between two programs can carry" command -v iperf3; fi
install_missing

folder=build/bench
rows=$folder/rows.jsonl
mkdir -p "$folder"
: > "$rows"

# The link that the following rows use, if the suite sets one.
over=

# measure COMMAND...: runs the command and keeps the JSON objects that it prints. Reports a failure and continues.
measure() {
  if ! timeout 1200 "$@" 2> "$folder/stderr" | tee >(cat >&2) |
    sed -n "s/^{/{\"suite\": \"$suite\", \"round\": $round, ${over:+\"over\": \"$over\", }/p" >> "$rows"; then
    echo "failed: $*" >&2
    tail -n 3 "$folder/stderr" >&2
  fi
}

# weft ARGUMENT...: the suite's own program.
weft() {
  if [[ -e bench/$suite.cpp ]]; then
    measure "build/default/bench/bench_$suite" "$@"
  else
    measure python3 "bench/$suite.py" "$@"
  fi
}

# peer ENVIRONMENT PROGRAM ARGUMENT...: runs a Python program of bench/peers if the environment is installed.
peer() {
  local python=$environments/$1/bin/python program=bench/peers/$2
  shift 2
  if [[ -x $python ]]; then measure "$python" "$program" "$@"; fi
}

# compiled NAME COMPILER...: compiles bench/peers/NAME.cpp to $folder/NAME_peer. Returns 1 without the compiler.
compiled() {
  local source=bench/peers/$1.cpp program=$folder/$1_peer
  shift
  command -v "$1" > /dev/null || return 1
  [[ $program -nt $source ]] || "$@" "$source" -o "$program"
}

# rtneural NAME: compiles and runs bench/peers/NAME.cpp if RTNeural's folder is among the environments.
rtneural() {
  if [[ -d $environments/rtneural ]] && header eigen3/Eigen/Dense &&
    compiled "$1" g++ -O3 -march=native -std=c++20 -DNDEBUG -I"$environments/rtneural" -isystem /usr/include/eigen3; then
    measure "$folder/$1_peer"
  fi
}

# ---- the cases of each suite; Weft and the peers run in turn ----

step_case() {
  weft mlp "$@" ${quick:+--seconds 1}
  peer torch mnist_step.py torch "$@"
  if [[ -z $quick && $* != *--infer* ]]; then
    peer torch mnist_step.py torch_compile "$@"
    peer tf mnist_step.py tf_graph "$@"
    peer tf mnist_step.py tf_xla "$@"
  fi
  peer tf mnist_step.py jax "$@"
  # JAX's single thread is fastest on a core of its own.
  if [[ "$*" == *"--threads 1"* ]]; then peer tf mnist_step.py jax "$@" --pin; fi
  if [[ $* == *--infer* ]]; then
    peer torch inference_peers.py mlp ${*/--infer/}
  fi
}

suite_step() {
  local batch
  for batch in 1 10 100; do step_case --batch "$batch" --threads 1; done
  step_case --batch 100 --threads 2
  for batch in 1 100; do step_case --batch "$batch" --threads 1 --infer; done
  weft deep_mlp --batch 16 --threads 2 ${quick:+--seconds 2}
  weft deep_mlp --batch 16 --threads 2 --inter-op ${quick:+--seconds 2}
  peer torch model_step.py deep_mlp --batch 16 --threads 2 ${quick:+--seconds 2}
  if [[ -z $quick ]]; then peer torch model_step.py deep_mlp --batch 16 --threads 2 --compile; fi
}

# Training and inference of whole networks. The fastest peer counts: PyTorch in each layout and compiled, ONNX Runtime,
# OpenVINO.
suite_models() {
  local case
  for case in "--batch 64 --threads 2" "--batch 1 --threads 2 --infer"; do
    weft lenet $case --seconds $((${#quick} ? 2 : 8))
    peer torch model_step.py lenet $case --channels-last --seconds $((${#quick} ? 2 : 8))
    peer torch model_step.py lenet $case --seconds $((${#quick} ? 2 : 8))
    if [[ -z $quick ]]; then peer torch model_step.py lenet $case --channels-last --compile --seconds 8; fi
    if [[ $case == *--infer* ]]; then
      peer torch inference_peers.py lenet ${case/--infer/} --seconds $((${#quick} ? 2 : 8))
    fi
  done
  weft gpt --seconds $((${#quick} ? 2 : 8))
  peer torch model_step.py gpt --batch 8 --seconds $((${#quick} ? 2 : 8))
  if [[ -z $quick ]]; then peer torch model_step.py gpt --batch 8 --compile --seconds 8; fi
}

# Networks of torchvision that PyTorch exports to ONNX.
suite_imported() {
  local model
  [[ -x $environments/torch/bin/python ]] || return 0
  for model in resnet50 mobilenet_v2 vit_b_16; do
    weft "$model" --python "$environments/torch/bin/python" --seconds $((${#quick} ? 2 : 8))
    peer torch inference_peers.py "$model" --seconds $((${#quick} ? 2 : 8))
  done
}

# Recurrent networks, one step of a small LSTM, and reading the rows of an array in a loop with its gradient. The program
# itself alternates the small step with a loop by hand.
suite_loops() {
  local model
  for model in lstm gru tagger; do
    weft "$model" --batch 32 --threads 2 --seconds $((${#quick} ? 2 : 8))
    peer torch model_step.py "$model" --batch 32 --threads 2 --seconds $((${#quick} ? 2 : 8))
    if [[ -z $quick ]]; then peer torch model_step.py "$model" --batch 32 --threads 2 --compile --seconds 8; fi
  done
  weft lstm_step --seconds $((${#quick} ? 1 : 4))
  rtneural lstm_step
  weft scan --threads 1 --seconds $((${#quick} ? 1 : 4))
  weft gather --threads 1 --seconds $((${#quick} ? 1 : 4))
}

# Clusters of many tasks, and servers that start and stop.
suite_scale() {
  local case
  for case in "start 200" "workers 64" "restarts 1000"; do weft $case; done
}

# Losses of workers, and the recovery.
suite_failures() { weft $((${#quick} ? 10 : 100)) $((${#quick} ? 3 : 100)) $((${#quick} ? 3 : 30)) $((${#quick} ? 5 : 60)); }

# Updates of 25 million parameters, and of a chain of 2,000 small layers.
suite_optimizers() {
  weft --threads 2 --seconds $((${#quick} ? 1 : 4))
  peer torch optimizer_torch.py --threads 2 --seconds $((${#quick} ? 1 : 4))
}

# Files of weights of 1 GB, a checkpoint in the background, a scalar summary.
suite_checkpoint() {
  weft ${quick:+--times 1}
  peer torch input_peers.py safetensors
}

suite_overhead() { weft ${quick:+--seconds 0.2}; }

# Inference on threads that share the variables.
suite_serving() {
  weft ${quick:+--seconds 0.5}
  weft --frozen ${quick:+--seconds 0.5}
  peer torch frozen_peers.py
  rtneural frozen_rtneural
}

suite_queues() {
  weft ${quick:+--seconds 0.2}
  peer tf queues_tf.py ${quick:+--seconds 0.2}
}

# The cost of authentication and of TLS between tasks.
suite_trust() {
  weft ${quick:+--rounds 3}
}

# Values between tasks of one graph.
suite_spanning() { weft ${quick:+--rounds 2}; }

# Readers, from files in the system's cache, shuffled batches from memory, and images.
suite_data() {
  local threads
  weft csv
  peer torch input_peers.py csv
  weft tfrecord
  peer tf input_peers.py tfrecord
  weft shuffle
  for threads in 1 2; do
    weft jpeg --threads "$threads"
    peer torch input_peers.py jpeg --threads "$threads"
  done
  weft prefetch
}

suite_planner() { weft ${quick:+--seconds 0.2}; }

suite_elementwise() {
  local elements peer=
  if header eigen3/Eigen/Dense && header xtensor/xtensor.hpp &&
    compiled elementwise g++ -O3 -march=native -std=c++20 -DNDEBUG -isystem /usr/include/eigen3; then
    peer=$folder/elementwise_peer
  fi
  for elements in 1000 100000 10000000; do
    weft --elements "$elements"
    if [[ -n $peer ]]; then measure "$peer" "$elements"; fi
  done
}

# Operations of each family. For factorizations, the program itself alternates with LAPACK.
suite_operations() {
  local kind seconds=${quick:+0.2}
  for kind in einsum index reduce fft linear_algebra images attention; do
    weft "$kind" --seconds "${seconds:-1}"
    case $kind in
      fft) peer tf operations_peers.py scipy fft --threads 1 --seconds "${seconds:-1}" ;;
      linear_algebra) ;;
      *) peer torch operations_peers.py torch "$kind" --seconds "${seconds:-1}" ;;
    esac
    if [[ $kind = index ]]; then peer tf operations_peers.py tensorflow index --seconds "${seconds:-1}"; fi
  done
}

# The program itself alternates with a copy.
suite_normalization() { weft ${quick:+--seconds 0.5}; }

# The program itself alternates with dnnl_sgemm.
suite_matmul() { weft ${quick:+--seconds 0.1}; }

# Over TCP and over shared memory. With fewer cores than ranks, Open MPI yields its cores, as Weft does.
suite_allreduce() {
  local ranks
  local -A links=([tcp]="--mca btl tcp,self" [memory]="")
  for ranks in 2 3 4; do
    for over in tcp memory; do
      weft "$ranks" "$over"
      if [[ $over = tcp ]]; then peer torch allreduce_torch.py --ranks "$ranks" --port "$(free_ports 1)"; fi
      if command -v mpirun > /dev/null && compiled mpi_allreduce mpicxx -O3; then
        measure mpirun --allow-run-as-root --oversubscribe -np "$ranks" ${links[$over]} --mca mpi_yield_when_idle \
          $((ranks > $(nproc))) "$folder/mpi_allreduce_peer"
      fi
    done
  done
  over=
}

# The program itself alternates with MPI_Allreduce, for each library.
suite_mpi() {
  local library ranks
  for library in openmpi mpich; do
    [[ -x build/default/bench/bench_mpi_$library ]] || continue
    for ranks in 2 3 4; do
      measure env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_mpi_yield_when_idle=1 "mpiexec.$library" -n "$ranks" "build/default/bench/bench_mpi_$library" ${quick:+--seconds 0.1}
    done
  done
}

suite_parameter_server() {
  local hidden long
  for hidden in 100 2000; do
    if [[ -n $quick && $hidden -eq 2000 ]]; then continue; fi
    long=$((hidden == 100))
    weft --mode async --hidden "$hidden"
    peer tf mnist_ps_tf.py --hidden "$hidden" --steps $((long ? 3000 : 600)) --port "$(free_ports 1)"
    weft --mode sync --hidden "$hidden"
    peer tf mnist_ps_tf.py --hidden "$hidden" --steps $((long ? 1500 : 300)) --sync --port "$(free_ports 1)"
    weft --mode allreduce --hidden "$hidden"
    peer torch mnist_ddp_torch.py --hidden "$hidden" --steps $((long ? 3000 : 300)) --port "$(free_ports 1)"
  done
}

# The program itself alternates with iperf3.
suite_transfer() {
  weft ${quick:+--rounds 3}
  peer tf transfer_tf.py --ports $(free_ports 2) ${quick:+--rounds 3}
}

suite_compile() { weft ${quick:+--compilers g++ --nodes 125,250}; }

# ---- main ----

targets=()
for suite in "${suites[@]}"; do
  if [[ -e bench/$suite.cpp ]]; then targets+=("bench_$suite"); fi
  if [[ $suite == parameter_server ]]; then targets+=(mnist); fi
  if [[ $suite == imported ]]; then targets+=(weft_command weft_compiled bench_models); fi
done
configure=(-DWEFT_BUILD_BENCHMARKS=ON)  # test/run.sh leaves them out
if [[ ${#targets[@]} -gt 0 ]]; then build default "${targets[@]}"; fi

read -r load _ < /proc/loadavg
if awk -v load="$load" -v cores="$(nproc)" 'BEGIN { exit !(load > cores / 4) }'; then
  echo "the load of this machine is $load: the ratios are not reliable, because load slows peers with several threads most" >&2
fi
for ((round = 1; round <= rounds; ++round)); do
  for suite in "${suites[@]}"; do
    echo "=== $suite, round $round of $rounds" >&2
    "suite_$suite"
  done
done

echo
echo "$(date +%F), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(g++ --version | head -n 1)," \
  "load $(cut -d' ' -f1 /proc/loadavg) at the end${quick:+, a quick look}"
python3 bench/table.py "$rows"
if [[ -n $publish ]]; then
  steady=yes
  python3 bench/table.py "$rows" --results docs/explanation/results.json \
    "$(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(g++ --version | head -n 1) -O2" \
    "$(git describe --always --dirty 2> /dev/null || true)" || steady=
  python3 bench/table.py --readme README.md docs/explanation/results.json
  [[ -n $steady ]]
fi
