#!/usr/bin/env bash
# Builds and runs the tests. Installs what is missing on Debian and Ubuntu.
#
#   bash test/run.sh                       the default preset
#   bash test/run.sh --all                 and the core under AddressSanitizer and UndefinedBehaviorSanitizer, the parts
#                                          with threads under ThreadSanitizer, and the programs for GPUs, which are
#                                          compiled where there is nvcc and run where there is a GPU; so too where CI is
#                                          set
#   bash test/run.sh --preset P [...]      these presets of CMakePresets.json, whole
#
# On a machine with a GPU, test/gpu.sh does more with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh

under_asan=(tensor device ops graph session data train transport distributed fuzz gpu)
under_tsan=(session transport)

all=${CI:+yes}
presets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --all) all=yes ;;
    --preset)
      [[ $# -ge 2 ]] || { echo "error: --preset needs a name from CMakePresets.json" >&2; exit 2; }
      presets+=("$2")
      shift
      ;;
    *) echo "error: unknown argument $1 (--all, --preset NAME)" >&2; exit 2 ;;
  esac
  shift
done

need_tests
install_missing

failed=()
took=()
jobs=$(nproc)

# run PRESET [FOLDER...]: builds and runs a preset's tests, all of them or those of some folders under test/.
run() {
  local preset=$1 folder targets=() labels=()
  shift
  for folder in "$@"; do
    compgen -G "test/$folder/*.cpp" > /dev/null && targets+=("tests_$folder") && labels+=("$folder")
  done
  local only=()
  if [[ ${#labels[@]} -gt 0 ]]; then only=(-L "^($(IFS='|'; echo "${labels[*]}"))\$"); fi
  # ThreadSanitizer's shadow memory does not go with the widest address randomisation of newer kernels.
  local fixed=()
  if [[ $preset == tsan ]] && setarch -R true 2> /dev/null; then fixed=(setarch -R); fi

  echo "=== $preset ${*:+($*)}"
  local begin=$SECONDS built
  if ! build "$preset" "${targets[@]}"; then
    failed+=("$preset")
    return
  fi
  built=$SECONDS
  "${fixed[@]}" ctest --preset "$preset" -j "$jobs" --no-tests=error "${only[@]}" || failed+=("$preset")
  took+=("$(printf '%-8s built in %5d s, run in %5d s' "$preset" $((built - begin)) $((SECONDS - built)))")
}

if [[ ${#presets[@]} -gt 0 ]]; then
  configure=(-DWEFT_TESTS_EMULATED_GPU=ON)  # which an earlier --all has turned off
  for preset in "${presets[@]}"; do run "$preset"; done
else
  if [[ -n $all ]]; then
    configure=(-DWEFT_BUILD_FUZZERS=ON)
    run asan "${under_asan[@]}"
    configure=()
    run tsan "${under_tsan[@]}"
    # The emulated GPU's tests have just run.
    configure=(-DWEFT_TESTS_EMULATED_GPU=OFF)
  else
    configure=(-DWEFT_TESTS_EMULATED_GPU=ON)
  fi
  run default
  configure=()
  if [[ -n $all ]]; then
    if command -v nvcc > /dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
      run cuda
    else
      echo "=== cuda: there is no nvcc here, the programs for GPUs are not compiled"
    fi
  fi
fi

printf '%s\n' "${took[@]}"
printf '%d minutes in all\n' $(((SECONDS + 59) / 60))
if command -v ccache > /dev/null; then ccache --show-stats | sed -n 's/^ *\(Hits:.*\)/ccache: \1/p' | head -n 1; fi
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
