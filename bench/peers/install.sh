#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Installs the Python peers of the benchmarks from PyPI into two environments, about 8 GB together:
#
#   bash bench/peers/install.sh [torch] [tf]
#
# build/peers/torch has PyTorch, ONNX Runtime, OpenVINO, pandas and safetensors; build/peers/tf has TensorFlow and JAX.
# They are separate because their packages require different versions of common dependencies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

known=(torch tf)
for name in "$@"; do
  [[ " ${known[*]} " == *" $name "* ]] || { echo "error: unknown environment $name; choose from: ${known[*]}" >&2; exit 2; }
done
[[ $# -gt 0 ]] || set -- "${known[@]}"
python3 -m venv --help > /dev/null 2>&1 || { echo "error: python3 has no module venv; install python3-venv" >&2; exit 1; }
for name in "$@"; do
  python3 -m venv "build/peers/$name"
  "build/peers/$name/bin/python" -m pip install --quiet --disable-pip-version-check -r "bench/peers/requirements-$name.txt"
done
