#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Builds and runs an example. Installs what is missing on Debian and Ubuntu.
#
#   bash examples/run.sh                   trains a classifier of images on a cluster of this machine's own: one parameter
#                                          server and two workers, each a process, on loopback
#   bash examples/run.sh imagenet          trains a narrow ResNet on such a cluster, on JPEG files that it makes
#   bash examples/run.sh chaos             trains on such clusters while it kills, stops and cuts off their tasks in turn
#   bash examples/run.sh NAME [FLAGS...]   runs one example with its own flags; NAME --help lists them
set -euo pipefail
caller=$PWD  # the flags' paths are relative to it
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prerequisites.sh
. scripts/build.sh

least_accuracy=0.85
longest_seconds=300

name=${1:-mnist}
name=${name%/}
examples=$(cd examples && for each in */; do [[ ! -f $each${each%/}.cpp ]] || printf '%s ' "${each%/}"; done
           for each in gallery/*.cpp; do printf '%s ' "${each%.cpp}"; done)
if [[ $name == --help || $name == -h ]]; then
  sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' examples/run.sh
  echo
  echo "The examples: $examples"
  exit
fi
if [[ $name == *" "* || " $examples" != *" $name "* ]]; then
  echo "error: unknown example ${1:-$name}; choose one of: $examples" >&2
  exit 2
fi
need_examples
need_example "$name"
install_missing
build default "${name/\//_}" >&2  # the example alone writes to the output
program=$PWD/build/default/examples/$name
if [[ $name == imagenet && $# -eq 1 ]]; then
  build default weft_launch >&2
  folder=build/default/tinted-images
  "$program" --make_images --image_dir "$folder"
  echo "training on 12,000 colour images: a parameter server and two workers on loopback"
  exec timeout --foreground 360 build/default/tools/weft_launch -n 3 --ps 1 -- "$program" --strategy sync --threads 1 --decode_threads 1 --batch_size 50 \
    --image_dir "$folder" --least_accuracy "$least_accuracy"
fi
if [[ $# -gt 0 ]]; then
  shift
  cd "$caller"
  exec "$program" "$@"
fi

# ---- the cluster ----

build default weft_launch >&2
echo "training on 60,000 images: a parameter server and two workers on loopback"
exec timeout --foreground "$longest_seconds" build/default/tools/weft_launch -n 3 --ps 1 -- "$program" --strategy async \
  --threads 1 --batch_size 100 --optimizer gradient_descent --schedule constant --learning_rate 0.5 --epochs 20 \
  --least_accuracy "$least_accuracy"
