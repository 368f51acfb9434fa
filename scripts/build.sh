# SPDX-License-Identifier: BSL-1.0
# Sourced by the run.sh scripts: configures a preset and builds targets, quietly unless something fails.

# forget_if_moved FOLDER: what CMake knows there is of no use where the folder, or the source, was moved or copied: CMake
# refuses it in words of its own. The programs are built anew.
forget_if_moved() {
  local cache=$1/CMakeCache.txt source folder
  [[ -f $cache ]] || return 0
  source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  folder=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$cache")
  [[ $(realpath -m "$source") == "$(realpath .)" && $(realpath -m "$folder") == "$(realpath "$1")" ]] && return 0
  echo "$1 was configured in $folder for $source, so it is configured again"
  rm -rf "$cache" "$1/CMakeFiles"
}

# forget_other_compiler FOLDER: CMake reads CXX only when it configures a folder for the first time. If CXX now names another
# compiler, the folder is configured anew.
forget_other_compiler() {
  local cache=$1/CMakeCache.txt compiler
  [[ -n ${CXX:-} && -f $cache ]] || return 0
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache")
  [[ $(command -v "$compiler") == "$(command -v "$CXX")" ]] && return 0
  echo "$1 was configured for $compiler: it is configured anew for $CXX"
  rm -rf "$cache" "$1/CMakeFiles"
}

# Where there is ccache, cmake/weftDevelopment.cmake compiles with it. What a clone in one folder has compiled is then there
# for one in another, precompiled headers included: names below the source folder count from there, and neither times nor
# the folder of the build take part.
if command -v ccache > /dev/null; then
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G}
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi

# build PRESET TARGET...; the array `configure` holds further arguments for CMake.
configure=()
# Scripts that are started at once build one after the other: none replaces a program that another has begun to run.
build() {
  local preset=$1 log
  shift
  mkdir -p "build/$preset"
  log=build/$preset/configure.log
  (
    if ! flock -n 9; then
      echo "waiting for another build in build/$preset"
      flock 9
    fi
    forget_if_moved "build/$preset"
    # The other presets name their compiler, and CMake ignores CXX.
    case $preset in default | debug | minimal) forget_other_compiler "build/$preset" ;; esac
    if ! cmake --preset "$preset" "${configure[@]}" > "$log" 2>&1; then
      cat "$log" >&2
      exit 1
    fi
    sed -n '/^-- Weft /,/^--   tests/s/^-- //p' "$log"
    cmake --build --preset "$preset" ${1:+--target "$@"}
  ) 9> "build/$preset/.lock"
}
