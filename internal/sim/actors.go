package sim

// Who acts in a world besides the engine, and who counts. Each is the run, seen by what one of them does to it.

// podLife is what becomes of pods that exist one by one: who makes and binds them, kubelets, and who collects them.
type podLife struct{ *Run }

// nodeLife is what becomes of nodes.
type nodeLife struct{ *Run }

// workloads are the controllers' writes to the Workloads of jobs.
type workloads struct{ *Run }

// watches are what a process is shown of objects, and when.
type watches struct{ *Run }

// tenants do to jobs of theirs what they may.
type tenants struct{ *Run }

// faults are what fails under jobs, and how they go on.
type faults struct{ *Run }

// results are what a run comes to.
type results struct{ *Run }

func (r *Run) podLife() podLife     { return podLife{r} }
func (r *Run) nodeLife() nodeLife   { return nodeLife{r} }
func (r *Run) workloads() workloads { return workloads{r} }
func (r *Run) watches() watches     { return watches{r} }
func (r *Run) tenants() tenants     { return tenants{r} }
func (r *Run) faults() faults       { return faults{r} }
func (r *Run) results() results     { return results{r} }
