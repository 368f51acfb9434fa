#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Builds, tests and times everything that is for GPUs, on a machine that has one, and writes the table to a file.
#
#   bash test/gpu.sh [FILE] [--quick]        FILE: build/gpu-table.txt unless said
#
# Installs nothing and needs no network: the machine's own CUDA toolkit, CMake and a C++20 compiler are enough. Ninja,
# Boost, compute-sanitizer, and a python3 with PyTorch are used where they are there. --quick leaves out the sanitizers
# and PyTorch. Takes less than 8 minutes: what is not done by then is ended, and the table says so. Ends with 1 if
# anything failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table=build/gpu-table.txt
quick=
for argument in "$@"; do
  case $argument in
    --quick) quick=yes ;;
    -*) echo "error: unknown argument $argument (--quick)" >&2; exit 2 ;;
    *) table=$argument ;;
  esac
done
begun=$SECONDS
mkdir -p build "$(dirname "$table")"
folder=build/gpu
failures=()

# bounded SECONDS COMMAND...: ends it after so many seconds (124, or 137), or when the 8 minutes are over.
bounded() {
  local most=$1 left=$((470 - SECONDS + begun))
  shift
  ((left < most)) && most=$((left > 1 ? left : 1))
  timeout --kill-after=5 "$most" "$@"
}

# Toolkits outside of PATH: the usual place.
command -v nvcc > /dev/null || export PATH=$PATH:/usr/local/cuda/bin
command -v nvcc > /dev/null || { echo "error: nvcc is not installed" >&2; exit 1; }
command -v nvidia-smi > /dev/null && nvidia-smi -L > /dev/null 2>&1 ||
  { echo "error: nvidia-smi finds no GPU; bash test/run.sh --preset cuda compiles the tests without one" >&2; exit 1; }
card=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
echo "$card, compute capability $capability, driver $driver"

# say LINE...: to the terminal and into the table.
say() { printf '%s\n' "$@" | tee -a "$table"; }
: > "$table"
toolkit=$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
commit=$(git rev-parse --short HEAD 2> /dev/null || echo 'no git')
say "$(date -u +%F), $card, driver $driver, CUDA $toolkit, $commit" ""

# ---- build, for this card alone: 200 s; then times 60, PyTorch 60, tests 90, sanitizers 55, together 465 of 470 ----

options=(-DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" "-DCMAKE_CUDA_FLAGS_RELEASE=-O2 -DNDEBUG"
  "-DCMAKE_CUDA_COMPILER=$(command -v nvcc)" "-DCMAKE_CUDA_ARCHITECTURES=${capability/./}-real"
  -DWEFT_WITH_CUDA=ON -DWEFT_BUILD_CUDA_PROGRAMS=ON -DWEFT_CUDA_TEST_SECONDS=20 -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_BENCHMARKS=OFF)
command -v ninja > /dev/null && [[ ! -e $folder/Makefile ]] && options+=(-G Ninja)
# The examples need Boost.
if ! echo 'int main() {}' | g++ -x c++ - -lboost_program_options -o /dev/null 2> /dev/null; then
  options+=(-DWEFT_BUILD_EXAMPLES=OFF)
  echo "the examples are not built: Boost.Program_options is not installed"
fi
# cuDNN and NCCL as Python packages, where they are not beside the toolkit.
python=$(command -v python3 || true)
package() { [[ -n $python ]] && "$python" -c "import nvidia.$1 as p; print(list(p.__path__)[0])" 2> /dev/null; }
for library in cudnn nccl; do
  if [[ ! -e $(dirname "$(command -v nvcc)")/../include/$library.h && ! -e /usr/include/$library.h ]]; then
    root=$(package $library) && options+=("-D${library^^}_ROOT=$root")
  fi
done

# nvcc takes up to 4 GB for a file.
jobs=$(nproc)
room=$(awk '/^MemAvailable/ { print int($2 / 4000000) }' /proc/meminfo)
((room < jobs)) && jobs=$((room > 1 ? room : 1))
start=$SECONDS
if ! cmake -S . -B "$folder" "${options[@]}" > "$folder.configure.log" 2>&1; then
  cat "$folder.configure.log" >&2
  exit 1
fi
sed -n '/^-- Weft /,/^--   tests/s/^-- //p' "$folder.configure.log"
# Programs that do not compile are told; the others run.
go_on=(-k)
[[ -e $folder/build.ninja ]] && go_on+=(0)
if ! bounded 200 cmake --build "$folder" --target cuda_programs -j "$jobs" -- "${go_on[@]}" > "$folder.build.log" 2>&1
then
  failures+=("build")
  grep -E 'error|FAILED' "$folder.build.log" | head -n 20 >&2
fi
say "build: $((SECONDS - start)) s with $jobs jobs"

# ---- times, while nothing else runs ----

rows=$folder.rows.jsonl # and what `explain` says between them
: > "$rows"
seconds=$([[ -n $quick ]] && echo 0.5 || echo 1.2)
if [[ -x $folder/bench/bench_gpu ]]; then
  bounded 60 "$folder/bench/bench_gpu" --explain --seconds "$seconds" >> "$rows" 2> "$folder.bench.log" ||
    failures+=("bench_gpu")
  grep . "$folder.bench.log" >&2
  # Right values, but far too slow: only `explain` tells.
  if grep -q 'graphics cards.*, cuDNN [0-9]' "$folder.configure.log" && grep -m 3 'conv2d.*plain kernel' "$rows" >&2; then
    failures+=("a convolution of LeNet does not use cuDNN")
  fi
  grep -q 'cannot be recorded' "$rows" && failures+=("a step cannot be recorded")
fi
if [[ -z $quick && -n $python ]] && "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  bounded 60 "$python" bench/gpu_torch.py --seconds 1 >> "$rows" 2> "$folder.torch.log" || say "PyTorch: failed"
  say "PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
else
  say "PyTorch: not installed, or skipped"
fi
say ""
if [[ -n $python ]]; then
  "$python" bench/gpu_table.py "$rows" | tee -a "$table"
else
  grep '^{' "$rows" | tee -a "$table"
fi
say ""

# ---- tests: those that run; deep_models only compiles, for a minute or more ----

start=$SECONDS
bounded 90 ctest --test-dir "$folder" -L cuda -E '^cuda[.]deep_models$' --output-on-failure \
  > "$folder.ctest.log" 2>&1
case $? in
  0) ;;
  124 | 137) failures+=("ctest: timed out") ;;
  *) failures+=("ctest") ;;
esac
grep -E '% tests passed|\(Failed\)|\(Timeout\)|Not Run|Skipped' "$folder.ctest.log" |
  while read -r line; do say "$line"; done
say "tests: $((SECONDS - start)) s"

# ---- sanitizers, side by side ----

running=()
# sanitize TOOL PROGRAM OPTION...: what compute-sanitizer says of a test, in the background.
sanitize() {
  local tool=$1 program=$folder/test/cuda/test_cuda_$2
  [[ -x $program ]] || return
  bounded 55 compute-sanitizer --tool "$tool" "${@:3}" --error-exitcode 9 "$program" > "$folder.$tool.$2.log" 2>&1 &
  running+=("$! $tool $2")
}
if [[ -n $quick ]]; then
  say "sanitizers: skipped"
elif command -v compute-sanitizer > /dev/null; then
  start=$SECONDS
  # Libraries ask CUDA for what it may refuse; only accesses to memory are looked at.
  for program in session_session oracle_oracle gpu_products; do
    sanitize memcheck $program --report-api-errors no
  done
  sanitize racecheck session_session --kernel-regex kns=weft # libraries' kernels synchronise in ways of their own
  sanitize initcheck session_session
  for each in "${running[@]}"; do
    read -r pid tool program <<< "$each"
    wait "$pid"
    status=$?
    log=$folder.$tool.$program.log
    if [[ $status == 0 ]]; then
      say "$tool $program: clean"
    elif [[ $status == 124 || $status == 137 ]]; then
      say "$tool $program: timed out"
    elif grep -q 'Device not supported' "$log"; then
      say "$tool $program: compute-sanitizer does not support this machine"
    else
      say "$tool $program: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|failed' "$log" | tail -n 1)"
      failures+=("$tool $program")
    fi
  done
  say "sanitizers: $((SECONDS - start)) s"
else
  say "sanitizers: compute-sanitizer is not installed"
fi

say "" "$((SECONDS - begun)) s in total"
if [[ ${#failures[@]} -gt 0 ]]; then
  say "failed: $(IFS=,; echo "${failures[*]}")"
  exit 1
fi
