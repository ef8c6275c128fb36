// Package slurm shows jobs and nodes as squeue, sacct and sinfo do: their columns, formats and
// words for states. What it shows is what package cli has read; it asks no cluster itself, and
// submits nothing.
package slurm
