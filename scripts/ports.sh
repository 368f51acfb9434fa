# SPDX-License-Identifier: BSL-1.0
# Sourced by the run.sh scripts.

# free_ports COUNT: as many ports that are free now.
free_ports() {
  local port found=()
  while [[ ${#found[@]} -lt $1 ]]; do
    port=$((20000 + RANDOM % 12000))
    [[ " ${found[*]-} " == *" $port "* ]] && continue
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || found+=("$port")
  done
  echo "${found[@]}"
}
