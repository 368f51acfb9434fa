#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Builds and runs the tests. Installs what is missing on Debian and Ubuntu.
#
#   bash test/run.sh                       the default preset
#   bash test/run.sh --all                 and the core under AddressSanitizer and UndefinedBehaviorSanitizer, the parts
#                                          with threads under ThreadSanitizer, and the programs for GPUs, which are
#                                          compiled where there is nvcc and run where there is a GPU; so too where CI is
#                                          set
#   bash test/run.sh --all --long          and what --all leaves out: what it has run already, under another preset, and all
#                                          programs for GPUs, emulated ones too, instead of one for each family of kernels
#                                          and each library
#   bash test/run.sh --preset P [...]      these presets of CMakePresets.json, whole
#   CXX=clang++-16 bash test/run.sh [...]  another compiler, for presets that name none: default, debug and minimal
#
# The last lines say how long each preset took, and how much of it ccache had compiled before: its folder (CCACHE_DIR) may
# be shared by clones. On a machine with a GPU, test/gpu.sh does more with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh

under_asan=(tensor device ops graph plan session data summary checkpoint train queue transport distributed fuzz gpu)
under_tsan=(session summary checkpoint train.supervised_session queue transport distributed.hostile_peers)
# Tests under AddressSanitizer whose kernels others have too, and which other presets run on the CPU.
others_have=(session.random_float_graphs ops.every_operation emulated.ops.{dropout,extents,scan,storage_types}
  emulated.oracle.{mixed_precision,rows} emulated.session.{control_flow,control_flow_scan,session}
  emulated.train.{minimize,optimizers})
# Tests that are compiled unoptimised in any preset, and have run under AddressSanitizer.
not_after_asan=(data graph plan checkpoint train queue transport distributed session.{control_flow,control_flow_scan})
# Programs of doubles, which run under both sanitizers; those of floats are optimised by the default preset.
not_after_asan+=(session.random_graphs)

all=${CI:+yes}
long=
presets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --all) all=yes ;;
    --long) long=yes ;;
    --preset)
      [[ $# -ge 2 ]] || { echo "error: --preset needs a name from CMakePresets.json" >&2; exit 2; }
      presets+=("$2")
      shift
      ;;
    *) echo "error: unknown argument $1 (--all, --long, --preset NAME)" >&2; exit 2 ;;
  esac
  shift
done

need_tests
if [[ " ${presets[*]} " == *" aarch64 "* ]]; then
  need g++-aarch64-linux-gnu "compiles for 64-bit ARM" command -v aarch64-linux-gnu-g++
  need qemu-user-static "runs programs for 64-bit ARM" command -v qemu-aarch64-static
fi
install_missing
# Packages from PyPI that checks need and no distribution has in the right version. They stay in build/. pip runs while the
# first preset is built.
install_packages() {
  python_packages build/clang-format clang-format==19.1.7 ||
    echo "packaging.formatting is skipped: pip could not install clang-format (see build/clang-format.log)"
  [[ -z ${WEFT_PYTHON:-} ]] || return 0
  if python_packages build/python 'tensorboard>=2.19,<3' 'safetensors>=0.5,<1' 'numpy<3'; then
    printf '#!/bin/sh\nPYTHONPATH="${0%%/*}" exec python3 "$@"\n' > build/python/interpreter
    chmod +x build/python/interpreter
  else
    echo "checks by safetensors and tensorboard are skipped: pip could not install them (see build/python.log)"
  fi
}
mkdir -p build
install_packages > build/packages.log &
packages=$!

await_packages() {
  [[ -n $packages ]] || return 0
  wait "$packages" || true
  packages=
  cat build/packages.log
  if [[ -z ${WEFT_PYTHON:-} && -x build/python/interpreter ]]; then export WEFT_PYTHON=$PWD/build/python/interpreter; fi
}

failed=()
report=
took=()
# failures PRESET: the tests that failed, each with the end of its output. Logs of CI keep their last lines only.
failures() {
  awk -v preset="$1" '
    /^[0-9]+\/[0-9]+ Test: / { name = $3; count = 0 }
    /^<end of output>$/ { reading = 0 }
    reading { lines[count++] = substr($0, 1, 300) }
    /^Output:$/ { reading = 1 }
    /^Test .*\.$/ && !/^Test (Passed|Skipped)\.$/ && !reading {
      print "--- " preset ": " name ": " $0
      if (++tests > 5) next
      for (i = count > 15 ? count - 15 : 1; i < count; ++i) print lines[i]
    }' "build/$1/Testing/Temporary/LastTest.log" || true
}
jobs=$(nproc)

# Tests that mostly wait use none of these (test/CMakeLists.txt), so more tests than processors run at once.
printf '{"version": {"major": 1, "minor": 0}, "local": [{"processors": [{"id": "0", "slots": %d}]}]}\n' $((jobs > 1 ? jobs : 2)) \
  > build/processors.json

# run PRESET [TESTS...]: builds and runs a preset's tests, all of them or those of some folders under test/, or single ones,
# FOLDER.NAME.
run() {
  local preset=$1 tests targets=() names=() only=()
  shift
  for tests in "$@"; do
    case $tests in
      *.*) targets+=("test_${tests/./_}") names+=("$tests\$") ;;
      *) compgen -G "test/$tests/*.cpp" > /dev/null && targets+=("tests_$tests") && names+=("$tests[.]") ;;
    esac
    if [[ $tests == gpu ]]; then names+=("emulated[.]"); fi
  done
  if [[ ${#names[@]} -gt 0 ]]; then only=(-R "^($(IFS='|'; echo "${names[*]}"))"); fi
  # ThreadSanitizer's shadow memory does not go with the widest address randomisation of newer kernels.
  local fixed=()
  if [[ $preset == tsan ]] && setarch -R true 2> /dev/null; then fixed=(setarch -R); fi

  # A machine that begins with nothing compiled gains more by Clang's precompiled headers, which do not go with ccache. CI
  # that keeps ccache's folder sets WEFT_KEEP_CCACHE.
  if [[ -n ${CI:-} && -z ${WEFT_KEEP_CCACHE:-} ]]; then configure+=(-DWEFT_CCACHE=OFF); fi
  echo "=== $preset ${*:+($*)}"
  local begin=$SECONDS built
  if ! build "$preset" "${targets[@]}"; then
    failed+=("$preset")
    return
  fi
  built=$SECONDS
  await_packages
  local at_once=(-j $((jobs + 4)) --resource-spec-file "$PWD/build/processors.json")
  if [[ $preset == cuda ]]; then at_once=(-j "$jobs"); fi
  if ! "${fixed[@]}" ctest --preset "$preset" "${at_once[@]}" --no-tests=error "${only[@]}"; then
    failed+=("$preset")
    report+=$(failures "$preset")$'\n'
  fi
  took+=("$(printf '%-8s %5s minutes: %4d s to build, %4d s to run' "$preset" \
    "$(((SECONDS - begin) / 60)).$(((SECONDS - begin) % 60 / 6))" $((built - begin)) $((SECONDS - built)))")
}

export CCACHE_STATSLOG=$PWD/build/ccache.log
: > "$CCACHE_STATSLOG"
if [[ ${#presets[@]} -gt 0 ]]; then
  # An earlier --all has set these otherwise.
  configure=(-DWEFT_TESTS_EMULATED_GPU=ON -DWEFT_TESTS_LEAVE_OUT= -DWEFT_TESTS_LINE_NUMBERS=ON -DWEFT_CUDA_FEW=OFF)
  for preset in "${presets[@]}"; do run "$preset"; done
elif [[ -z $all ]]; then
  # Benchmarks are no tests; --all compiles them too.
  configure=(-DWEFT_TESTS_EMULATED_GPU=ON -DWEFT_TESTS_LEAVE_OUT= -DWEFT_BUILD_BENCHMARKS=OFF)
  run default
else
  leave_out=
  if [[ -z $long ]]; then leave_out=$(IFS=';'; echo "${others_have[*]}"); fi
  # `--preset asan` repeats a failure with line numbers.
  configure=(-DWEFT_BUILD_FUZZERS=ON -DWEFT_TESTS_LINE_NUMBERS="${long:+ON}" "-DWEFT_TESTS_LEAVE_OUT=$leave_out")
  run asan "${under_asan[@]}"
  if [[ -z $long ]]; then leave_out=session.random_float_graphs; fi
  configure=("-DWEFT_TESTS_LEAVE_OUT=$leave_out")
  run tsan "${under_tsan[@]}"
  # The emulated GPU's tests have just run.
  leave_out=
  if [[ -z $long ]]; then leave_out=$(IFS=';'; echo "${not_after_asan[*]}"); fi
  configure=(-DWEFT_TESTS_EMULATED_GPU=OFF "-DWEFT_TESTS_LEAVE_OUT=$leave_out" -DWEFT_BUILD_BENCHMARKS=ON
             "-DWEFT_TESTS_EVERY_ISA=${long:+ON}")
  run default
  if command -v nvcc > /dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
    configure=(-DWEFT_CUDA_FEW="$([[ -n $long ]] && echo OFF || echo ON)")
    run cuda
  else
    echo "=== cuda: nvcc is not installed, so the programs for GPUs are not compiled"
  fi
fi

printf '%s' "$report"
printf '%s\n' "${took[@]}"
printf '%d minutes in total\n' $(((SECONDS + 59) / 60))
awk '/^(direct|preprocessed)_cache_hit$/ { ++hits } /^cache_miss$/ { ++misses }
  END { printf "ccache: %d of %d files were in the cache\n", hits, hits + misses }' "$CCACHE_STATSLOG"
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
