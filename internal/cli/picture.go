package cli

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// Kind is a kind of object that can be asked about.
type Kind string

// The kinds, in the order in which they are looked for.
const (
	AppWrapper Kind = "AppWrapper"
	Job        Kind = "Job"
	Workload   Kind = "Workload"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{AppWrapper, Job, Workload} }

// Ref names what is asked about.
type Ref struct {
	Kind      Kind // "" if any
	Namespace string
	Name      string
}

// ParseRef reads NAMESPACE/NAME and the name of a kind, which may be empty, in
// any case, plural or short.
func ParseRef(arg, kind string) (Ref, error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Ref{}, fmt.Errorf("%q is not NAMESPACE/NAME, for example blue/short-x7k2p", arg)
	}
	ref := Ref{Namespace: namespace, Name: name}
	switch strings.ToLower(kind) {
	case "":
	case "appwrapper", "appwrappers", "aw":
		ref.Kind = AppWrapper
	case "job", "jobs":
		ref.Kind = Job
	case "workload", "workloads", "wl":
		ref.Kind = Workload
	default:
		return Ref{}, fmt.Errorf("--kind %s is not known: use AppWrapper, Job or Workload", kind)
	}
	return ref, nil
}

// String is KIND NAMESPACE/NAME.
func (r Ref) String() string {
	return strings.TrimSpace(string(r.Kind) + " " + r.Namespace + "/" + r.Name)
}

// Picture is everything that an explanation is made from. Objects that do not
// exist, or that the user may not read, are nil.
type Picture struct {
	// Asked is the job of the question: the topmost of its objects.
	Asked Ref
	// Through is the object that was named, if that was another one.
	Through    Ref
	AppWrapper *appwrapper.AppWrapper
	Job        *batchv1.Job // nil if it is part of an AppWrapper
	Workload   *kueue.Workload
	// LocalQueue of the workload.
	LocalQueue *kueue.LocalQueue
	// Team is true in namespaces where only queued jobs may run.
	Team bool
	// Pods of the job, sorted by name.
	Pods []corev1.Pod
	// Answer is what a controller says of a waiting workload, Unanswered why none does.
	Answer     *visibility.Explanation
	Unanswered error
	// Jobs leads from workloads that the user may read to their jobs, both as
	// NAMESPACE/NAME. People know the names of jobs.
	Jobs map[string]string
	Now  time.Time
}
