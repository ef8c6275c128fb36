package v1beta2

// FrameworkNames are the names that integrations.frameworks may hold, in the
// order in which they are listed to users. The last was dropped by Kueue and is
// still in the files of clusters that were set up with it.
func FrameworkNames() []string {
	return []string{
		"batch/job", "workload.codeflare.dev/appwrapper",
		"jobset.x-k8s.io/jobset", "leaderworkerset.x-k8s.io/leaderworkerset",
		"pod", "deployment", "statefulset", "replicaset",
		"ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice",
		"kubeflow.org/mpijob", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob", "kubeflow.org/xgboostjob",
		"kubeflow.org/paddlejob", "kubeflow.org/jaxjob", "trainer.kubeflow.org/trainjob",
		"sparkoperator.k8s.io/sparkapplication", "kubeflow.org/mxjob",
	}
}
