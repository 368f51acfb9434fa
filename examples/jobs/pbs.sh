#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Trains the classifier of images on the nodes of a PBS job (PBS Professional, OpenPBS or Torque): the task at the first line
# of PBS_NODEFILE is the parameter server, the others are workers.
#
#   qsub -l select=2:ncpus=2:mpiprocs=2 examples/jobs/pbs.sh      (Torque: -l nodes=2:ppn=2)
#
# The program, and ~/.config/weft for the secret, lie where all nodes see them. Data between nodes is
# authenticated, and encrypted where WEFT_TLS_CERT, WEFT_TLS_KEY and WEFT_TLS_CA name certificates.
#PBS -N weft
#PBS -l walltime=00:10:00
#PBS -j oe
# A job that a node failure ends is queued again, and goes on from its checkpoint.
#PBS -r y
set -euo pipefail
cd "$PBS_O_WORKDIR"

secret=${WEFT_SECRET_FILE:-$HOME/.config/weft/secret}
if [[ ! -s $secret ]]; then
  mkdir -p "$(dirname "$secret")"
  (umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "$secret")
fi

# The list of nodes lies on the first of them alone.
nodes=$PWD/nodes.$PBS_JOBID
cp "$PBS_NODEFILE" "$nodes"
program=${WEFT_PROGRAM:-$PWD/build/default/examples/mnist}
tasks=()
end_all() {
  [[ ${#tasks[@]} -eq 0 ]] || kill "${tasks[@]}" 2> /dev/null || true
  wait  # worker 0 may save a checkpoint, and the parameter server waits for it
  rm -f "$nodes"
}
trap end_all EXIT
trap 'exit 143' TERM  # at the end of the walltime
# A job that is queued again has the same number, and so the same checkpoints.
checkpoints=${WEFT_CHECKPOINTS:-$PWD/checkpoints.$PBS_JOBID}
# One task for each line of the file; pbsdsh passes no environment on.
for ((rank = 0; rank < $(wc -l < "$nodes"); ++rank)); do
  pbsdsh -n "$rank" -- /usr/bin/env RANK="$rank" PBS_NODEFILE="$nodes" PBS_JOBID="$PBS_JOBID" \
    WEFT_SECRET_FILE="$secret" HOME="$HOME" "$program" --strategy sync \
    --checkpoint_dir "$checkpoints" --resume "$@" &
  tasks+=($!)
done
# If one fails, the trap ends the others.
for ((ended = 0; ended < ${#tasks[@]}; ++ended)); do wait -n; done
