# Sourced by the run.sh scripts: configures a preset and builds targets, quietly unless something fails.

# build PRESET TARGET...
build() {
  local preset=$1 log
  shift
  mkdir -p "build/$preset"
  log=build/$preset/configure.log
  if ! cmake --preset "$preset" > "$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  sed -n '/^-- Weft /,/^--   tests/s/^-- //p' "$log"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
