#!/bin/bash
#SBATCH --gpus-per-node=1
#SBATCH --time=10
echo "$@"
