#!/bin/bash
# One plan on a Slurm cluster, sixteen jobs of one graphics card each:
#     sbatch examples/bench_slurm.sh configs/watermark.toml /shared/results
# Jobs share the folder of results. A job that was killed is submitted again; what it had claimed is taken over.
#SBATCH --job-name=yoro-bench
#SBATCH --array=1-16
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail
exec yoro bench run "$1" --results "${2:-results}" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" "${@:3}"
