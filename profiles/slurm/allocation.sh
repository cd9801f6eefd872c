#!/bin/bash
# Many small trainings in one allocation: snakemake runs inside it and shares its GPUs out. From the project's folder:
#
#   sbatch profiles/slurm/allocation.sh tables --configfile config/paper.yaml
#
# Put the names of your cluster here; options of sbatch override them.
#SBATCH --job-name=stcl
#SBATCH --account=lab
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus=4
#SBATCH --cpus-per-task=16
#SBATCH --mem=160G
#SBATCH --time=12:00:00
# Five minutes before the limit: every training finishes its epoch and saves, snakemake ends. The same command continues.
#SBATCH --signal=TERM@300
set -euo pipefail

JOBS_PER_GPU=${JOBS_PER_GPU:-2} # small networks leave a GPU idle; watch its memory

# As a step, because the warning goes to steps.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    snakemake --cores "$SLURM_CPUS_PER_TASK" --resources gpu=$((JOBS_PER_GPU * SLURM_GPUS_ON_NODE)) "$@"
