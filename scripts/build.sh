# Sourced by the run.sh scripts: configures a preset and builds targets, quietly unless something fails.

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
    if ! cmake --preset "$preset" "${configure[@]}" > "$log" 2>&1; then
      cat "$log" >&2
      exit 1
    fi
    sed -n '/^-- Weft /,/^--   tests/s/^-- //p' "$log"
    cmake --build --preset "$preset" ${1:+--target "$@"}
  ) 9> "build/$preset/.lock"
}
