package bench_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const (
	// inPlacePods is how many pods a JobSet has that recovers, each on a node of its own.
	inPlacePods = 64
	// crashes is how many of them are killed one after the other, of each of recoveries JobSets: after more, Jobs are made
	// anew after a pause.
	crashes, recoveries = 3, 4
	// restartCode is with what an agent ends to have its pod restart.
	restartCode = 42
)

// BenchmarkInPlace measures in one cluster how long a JobSet of 64 pods takes from the crash of one container until all
// workers run again: with the agent as the container that runs the worker, with the agent as a sidecar, whose startup
// probe comes once a second, and with all pods made anew.
func BenchmarkInPlace(b *testing.B) {
	bd := start(b, inPlacePods)
	for _, k := range []struct {
		name  string
		shape func(*jobset.JobSet)
	}{{"agent", agentIsWorker}, {"sidecar", agentBeside}, {"recreate", madeAnew}} {
		b.Run(k.name, func(b *testing.B) {
			var took []time.Duration
			once(b, func() {
				took = nil
				for i := range recoveries {
					took = append(took, bd.recover(b, fmt.Sprintf("%s-%d", k.name, i), k.shape)...)
				}
			})
			b.ReportMetric(percentile(took, 50), "s-p50")
			b.ReportMetric(percentile(took, 99), "s-p99")
		})
	}
}

// recover runs one JobSet, and kills a container of it some times.
func (bd bed) recover(b *testing.B, name string, shape func(*jobset.JobSet)) (took []time.Duration) {
	b.Helper()
	js := workers(name)
	shape(js)
	pods, sets := bd.watch(b, &corev1.PodList{}, team), bd.watch(b, &jobset.JobSetList{}, team)
	w := &workersSeen{pods: map[types.UID]*corev1.Pod{}}
	if err := bd.client.Create(b.Context(), js); err != nil {
		b.Fatal(err)
	}
	inPlace := js.Spec.FailurePolicy.RestartStrategy == jobset.InPlaceRestart
	w.await(b, pods, sets, func() bool { return w.ready() && (!inPlace || w.current == 0) })
	for i := range int32(crashes) {
		before := w.uids()
		victim := w.any()
		began := time.Now()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"mlbatch.dev/crash-run":"%d"}}}`, runs(victim))
		if err := bd.client.Patch(b.Context(), victim, client.RawPatch(types.MergePatchType, patch)); err != nil {
			b.Fatal(err)
		}
		w.await(b, pods, sets, func() bool {
			if inPlace {
				return w.current == i+1 && w.ready()
			}
			return w.ready() && w.none(before)
		})
		took = append(took, time.Since(began))
		if inPlace && !w.all(before) {
			b.Error("a pod was made anew")
		}
	}
	bd.remove(b, js)
	bd.empty(b)
	return took
}

// workersSeen is what watches show of a JobSet.
type workersSeen struct {
	pods    map[types.UID]*corev1.Pod
	current int32
}

func (w *workersSeen) await(b *testing.B, pods, sets <-chan watch.Event, done func() bool) {
	b.Helper()
	late := time.After(patience)
	for !done() {
		select {
		case e := <-pods:
			p, is := e.Object.(*corev1.Pod)
			switch {
			case !is:
			case e.Type == watch.Deleted:
				delete(w.pods, p.UID)
			default:
				w.pods[p.UID] = p
			}
		case e := <-sets:
			if js, is := e.Object.(*jobset.JobSet); is {
				w.current = -1
				if n := js.Status.CurrentInPlaceRestartAttempt; n != nil {
					w.current = *n
				}
			}
		case <-late:
			b.Fatalf("%d pods, in-place restart attempt %d", len(w.pods), w.current)
		}
	}
}

// ready reports whether all pods are, and no other is left.
func (w *workersSeen) ready() bool {
	for _, p := range w.pods {
		ready := false
		for _, c := range p.Status.Conditions {
			ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		if !ready || p.DeletionTimestamp != nil {
			return false
		}
	}
	return len(w.pods) == inPlacePods
}

func (w *workersSeen) uids() map[types.UID]bool {
	out := map[types.UID]bool{}
	for uid := range w.pods {
		out[uid] = true
	}
	return out
}

func (w *workersSeen) all(before map[types.UID]bool) bool {
	for uid := range w.pods {
		if !before[uid] {
			return false
		}
	}
	return true
}

func (w *workersSeen) none(before map[types.UID]bool) bool {
	for uid := range w.pods {
		if before[uid] {
			return false
		}
	}
	return true
}

func (w *workersSeen) any() *corev1.Pod {
	for _, p := range w.pods {
		return p
	}
	return nil
}

// runs is the number of the run of a pod's worker.
func runs(p *corev1.Pod) int32 { return p.Status.ContainerStatuses[0].RestartCount + 1 }

// workers is a JobSet of one role.
func workers(name string) *jobset.JobSet {
	return &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team,
			Name:      name,
			Labels:    map[string]string{kueue.QueueNameLabel: queue},
		},
		Spec: jobset.JobSetSpec{
			FailurePolicy: &jobset.FailurePolicy{MaxRestarts: 100},
			ReplicatedJobs: []jobset.ReplicatedJob{{
				Name: "w",
				Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
					Parallelism: new(int32(inPlacePods)), Completions: new(int32(inPlacePods)), BackoffLimit: new(int32(0)),
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
						RestartPolicy: corev1.RestartPolicyNever,
						Containers: []corev1.Container{{
							Name: "worker", Image: "busybox:1.36", Command: []string{"sleep", "1000000"},
							Resources: corev1.ResourceRequirements{
								Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(8, resource.DecimalSI)},
							},
						}},
					}},
				}},
			}},
		},
	}
}

func madeAnew(*jobset.JobSet) {}

// restartsInPlace has the pods of a JobSet restart in place, and returns their template.
func restartsInPlace(js *jobset.JobSet) *corev1.PodSpec {
	js.Spec.FailurePolicy.RestartStrategy = jobset.InPlaceRestart
	s := &js.Spec.ReplicatedJobs[0].Template.Spec
	s.BackoffLimit, s.PodReplacementPolicy = new(int32(math.MaxInt32)), new(batchv1.Failed)
	pod := &s.Template.Spec
	pod.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
	pod.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0},
		},
	}}
	return pod
}

// agentVariables are what an agent is told.
func agentVariables() []corev1.EnvVar {
	of := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{
			Name:      name,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		}
	}
	return []corev1.EnvVar{
		of("JOBSET_NAME", "metadata.labels['"+jobset.JobSetNameKey+"']"), of("POD_NAME", "metadata.name"),
		{Name: "IN_PLACE_RESTART_EXIT_CODE", Value: fmt.Sprint(restartCode)},
	}
}

func agentIsWorker(js *jobset.JobSet) {
	c := &restartsInPlace(js).Containers[0]
	c.Command = nil
	c.Env = append(agentVariables(), corev1.EnvVar{Name: "WORKER_COMMAND", Value: "sleep 1000000"})
}

func agentBeside(js *jobset.JobSet) {
	pod := restartsInPlace(js)
	pod.InitContainers = []corev1.Container{{
		Name: "agent", Image: "registry.example.com/in-place-restart-agent", Env: agentVariables(),
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		RestartPolicyRules: []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{restartCode},
			},
		}},
		StartupProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/barrier-is-down", Port: intstr.FromInt32(8081)},
			},
			PeriodSeconds: 1, FailureThreshold: 600,
		},
	}}
}
