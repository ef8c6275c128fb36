// Package admission reads what a job was given: its Workload, the pods that count
// against it, and what its admission adds to pods that are made. Controllers of jobs
// share it.
package admission
