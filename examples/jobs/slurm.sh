#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Trains the classifier of images on the nodes of a Slurm job: rank 0 is the parameter server, the others are workers.
#
#   sbatch --nodes=2 --ntasks=4 examples/jobs/slurm.sh [FLAGS...]
#
# The program, and ~/.config/weft for the secret, lie where all nodes see them. Data between nodes is
# authenticated, and encrypted where WEFT_TLS_CERT, WEFT_TLS_KEY and WEFT_TLS_CA name certificates.
#SBATCH --job-name=weft
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --time=00:10:00
# A job that a node failure ends is queued again, and goes on from its checkpoint. A minute before the time limit all tasks
# are told to end (SIGTERM), and the chief saves one; the script then queues the job again itself.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
set -euo pipefail

# The secret that the tasks prove to know; a file that nobody else can read, not a word of the environment, which Slurm
# keeps.
export WEFT_SECRET_FILE=${WEFT_SECRET_FILE:-$HOME/.config/weft/secret}
if [[ ! -s $WEFT_SECRET_FILE ]]; then
  mkdir -p "$(dirname "$WEFT_SECRET_FILE")"
  (umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "$WEFT_SECRET_FILE")
fi

# sbatch runs a copy of this script; where it was submitted is where the program is.
program=${WEFT_PROGRAM:-$SLURM_SUBMIT_DIR/build/default/examples/mnist}
checkpoints=${WEFT_CHECKPOINTS:-$SLURM_SUBMIT_DIR/checkpoints.$SLURM_JOB_ID}
# If one task fails, the step ends, for this strategy needs all of them. Where the strategy's on_loss lets the others go
# on, set WEFT_GOES_ON=1: then a task or a node may fail, and the step goes on. --label writes each line's rank in front
# of it.
if [[ -n ${WEFT_GOES_ON:-} ]]; then losses=(--kill-on-bad-exit=0 --no-kill); else losses=(--kill-on-bad-exit=1); fi
srun --label "${losses[@]}" --distribution=block "$program" --strategy sync --checkpoint_dir "$checkpoints" --resume "$@" &
step=$!
told=
trap 'told=yes; kill -TERM "$step"' TERM  # srun sends it to all tasks
wait "$step" && status=0 || status=$?
if [[ -n $told ]]; then
  wait "$step" && status=0 || status=$?  # the first wait has ended with the signal
  # A job that was cancelled does not run any more, and stays so.
  if [[ $status -ne 0 && ${SLURM_RESTART_COUNT:-0} -lt ${WEFT_REQUEUES:-10} &&
    $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
    echo "received SIGTERM: the job is requeued and continues from $checkpoints"
    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$status"
