// Package actions is what people do with jobs that are there: read their logs, run commands in
// their pods, hold them back, stop, resize and await them. It uses the rights of the user and
// nothing else, and changes the object of the job itself or, to hold it, spec.active of its
// Workload. How a job stands is said by facts; flags and printing are the commands'.
package actions
