// Package admission reads what a job asks for and what it was given: the name, priority
// and limits of its Workload, the pods that count against it, and what its admission
// adds to pods that are made. Controllers of jobs share it.
package admission
