# SPDX-License-Identifier: BSL-1.0
# Sourced by the run.sh scripts: says what is missing on this machine and why it is needed, and installs it where the
# machine is a Debian or an Ubuntu. Where everything is there it does nothing and asks nobody.

missing_packages=()

# need PACKAGE WHY TEST...: notes the Debian package as missing unless the test, a command of the shell, succeeds.
need() {
  local package=$1 why=$2
  shift 2
  "$@" > /dev/null 2>&1 && return
  missing_packages+=("$package")
  echo "missing: $package ($why)"
}

# header NAME: whether the compilers' default folders have it.
header() {
  local folder
  for folder in /usr/include /usr/local/include /usr/include/*-linux-*; do
    [ -e "$folder/$1" ] && return
  done
  return 1
}

# library NAME: whether the linker finds it.
library() { echo 'int main() {}' | g++ -x c++ - -l"$1" -o /dev/null; }

# sanitizers: whether clang++ has the run-time libraries of its own.
sanitizers() { echo 'int main() {}' | clang++ -fsanitize=address -x c++ - -o /dev/null; }

# install_missing: installs what `need` has noted.
install_missing() {
  [ ${#missing_packages[@]} -eq 0 ] && return
  if ! command -v apt-get > /dev/null; then
    echo "error: this script installs packages only on Debian and Ubuntu; install those listed above and run it again" >&2
    return 1
  fi
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || { echo "error: run as root, or install sudo, to install: ${missing_packages[*]}" >&2; return 1; }
    sudo=(sudo)
  fi
  local apt=("${sudo[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q)
  local install=("${apt[@]}" install -y --no-install-recommends "${missing_packages[@]}")
  local said status=0
  said=$(mktemp)
  echo "installing: ${missing_packages[*]}"
  # The lists of packages may be absent or old: they are fetched only where the first attempt fails.
  when_unlocked "$said" "${install[@]}" ||
    { when_unlocked "$said" "${apt[@]}" update && when_unlocked "$said" "${install[@]}"; } || status=1
  if [ $status -ne 0 ]; then
    echo "error: apt-get could not install ${missing_packages[*]}; its output:" >&2
    tail -n 15 "$said" | sed 's/^/  /' >&2
  fi
  rm -f "$said"
  return $status
}

# when_unlocked LOG APT-GET...: runs apt-get while no other program has its locks, and waits for at most ten minutes: a
# fresh Ubuntu upgrades itself at boot. (DPkg::Lock::Timeout is for one lock of several, and not of apt-get update.)
when_unlocked() {
  local said=$1 end=$((SECONDS + ${WEFT_APT_WAIT:-600})) told=
  shift
  until "$@" > "$said" 2>&1; do
    grep -q "get lock" "$said" && [ $SECONDS -lt $end ] || return 1
    [ -n "$told" ] || echo "waiting for another program that installs packages: $(grep -m 1 "get lock" "$said")"
    told=yes
    sleep 3
  done
}

# python_packages FOLDER REQUIREMENT...: installs packages from PyPI into the folder, once for each version of Python.
# Returns 1 if pip is missing or fails; FOLDER.log then has its output.
python_packages() {
  local folder=$1 wanted
  shift
  wanted="$(python3 -V 2>&1): $*"
  [ "$(cat "$folder/.requirements" 2> /dev/null)" != "$wanted" ] || return 0
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  timeout 300 python3 -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 --target "$folder" "$@" \
    > "$folder.log" 2>&1 || { rm -rf "$folder"; return 1; }
  echo "$wanted" > "$folder/.requirements"
}

need_build_tools() {
  need g++ "the compiler" command -v g++
  need cmake "configures the build" command -v cmake
  need ninja-build "runs the build" command -v ninja
  need libboost-dev "Boost.Asio, the network transport" header boost/asio.hpp
  need libdnnl-dev "oneDNN, matrix products" header oneapi/dnnl/dnnl.hpp
  need libssl-dev "OpenSSL, for clusters of several hosts" header openssl/ssl.h
  need zlib1g-dev "reads compressed data files" header zlib.h
  need libjpeg-dev "reads and writes JPEG files" header jpeglib.h
  need libpng-dev "reads PNG files" header png.h
}

need_examples() {
  need_build_tools
  need libboost-program-options-dev "the examples' flags" library boost_program_options
  need libboost-serialization-dev "checkpoints" library boost_serialization
  need dataset-fashion-mnist "70,000 images for training and tests" [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]
}

# need_example NAME: what one example needs beyond that.
need_example() {
  [ "$1" != char_gpt ] || need wordnet-base "82,000 definitions, a text to learn from" [ -e /usr/share/wordnet/data.noun ]
}

need_tests() {
  need_examples
  need libboost-test-dev "runs the tests" library boost_unit_test_framework
  need clang "the second compiler for all checks" command -v clang++
  need libclang-rt-dev "clang's sanitizers" sanitizers
  need libopenblas-dev "a CBLAS, the alternative to oneDNN" header cblas.h
  need python3 "runs the checks of headers and error messages" command -v python3
  need libopenmpi-dev "Open MPI, for sums by MPI" command -v mpicxx.openmpi
  need openmpi-bin "starts programs of Open MPI" command -v mpiexec.openmpi
  need libmpich-dev "MPICH, the other MPI library" command -v mpicxx.mpich
  need mpich "starts programs of MPICH" command -v mpiexec.mpich
  # Daemons, which nobody wants to find on his machine after he has run tests.
  if [ -n "${CI:-}" ]; then
    need slurmctld "Slurm's controller, for the job scripts" command -v slurmctld
    need slurmd "Slurm's daemon of a node" command -v slurmd
    need slurm-client "submits jobs to Slurm" command -v sbatch
    need munge "authenticates users to Slurm" command -v munged
    need python3-pip "installs clang-format, safetensors and tensorboard for the tests" python3 -m pip --version
  fi
  need doxygen "builds the API reference" command -v doxygen
  need ccache "caches compilations" command -v ccache
}

need_benchmarks() {
  need_examples
  need python3 "makes the tables" command -v python3
}
