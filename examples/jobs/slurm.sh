#!/usr/bin/env bash
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
# If one task fails, the step ends. --label writes each line's rank in front of it.
exec srun --label --kill-on-bad-exit=1 --distribution=block "$program" --strategy sync "$@"
