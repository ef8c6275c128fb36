// Package submit turns what people type into manifests. A Request is what they want, whoever
// says it: options of a command line, #SBATCH and #MLBATCH lines of a script, a task file, a
// profile. Render makes of it the object of a kind of job, and needs no cluster. Creating it,
// and staying with it until it ends, are here, too; what people see of jobs is in package cli.
package submit
