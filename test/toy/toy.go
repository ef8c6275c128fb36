// Package toy is a kind of job for tests, as small as one can be: a number of equal
// pods that start together. It shows what a new kind touches, which is its folder and
// a line in a list of kinds. The program does not have it: tests add it to the list.
package toy

import (
	"fmt"
	"io"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// GroupVersion is that of toys.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "toys.example.com", Version: "v1"}
}

// Role is that of all its pods.
const Role = "main"

// Toy is a number of equal pods.
type Toy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Status is how far it is.
type Status struct {
	Done bool `json:"done,omitempty"`
	// Runs: it may have pods. Ready: all are.
	Runs  bool `json:"runs,omitempty"`
	Ready bool `json:"ready,omitempty"`
}

// Spec says which pods.
type Spec struct {
	Hold    bool   `json:"hold,omitempty"`
	Pods    int32  `json:"pods,omitempty"`
	Retries *int32 `json:"retries,omitempty"`
	// Jobs makes a Job of each pod, which stays while the toy is held, and Key a list of who
	// takes part and a Secret. Yields and Outlives make the list alone, of these kinds.
	Jobs     bool                   `json:"jobs,omitempty"`
	Key      bool                   `json:"key,omitempty"`
	Yields   bool                   `json:"yields,omitempty"`
	Outlives bool                   `json:"outlives,omitempty"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// ToyList is a list of toys.
type ToyList struct { //nolint:revive // the API server's name for it
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Toy `json:"items"`
}

func (t *Toy) copied() *Toy {
	out := *t
	t.DeepCopyInto(&out.ObjectMeta)
	t.Spec.Template.DeepCopyInto(&out.Spec.Template)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (t *Toy) DeepCopyObject() runtime.Object { return t.copied() }

// DeepCopyObject implements runtime.Object.
func (l *ToyList) DeepCopyObject() runtime.Object {
	out := &ToyList{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].copied())
	}
	return out
}

// Kind is all that there is to know of toys.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "toys",
			ShortNames:  []string{"ty"},
			Framework:   "toys.example.com/toy",
			AddToScheme: addToScheme,
		},
		Queueing: jobs.Queueing{
			Wrapped:     &jobs.Wrapping{PodSets: podSets, Direct: true},
			SuspendPath: []string{"spec", "hold"},
			Suspended:   jobs.Of(func(t *Toy) bool { return t.Spec.Hold }),
			Templates: jobs.Of(func(t *Toy) []jobs.PodTemplate {
				return []jobs.PodTemplate{{Path: "spec.template", Template: &t.Spec.Template}}
			}),
		},
		Running: jobs.Running{
			Operator: &jobs.Operator{
				Compile:       compile,
				StateOfStatus: jobs.Of(told),
				Project:       project,
				Children:      []jobs.ChildKind{job.Child()},
				Artifacts:     artifacts,
				Makes:         []schema.GroupResource{{Resource: "configmaps"}, {Resource: "secrets"}},
				Others:        []string{"toys/toy-operator"},
			},
		},
		Admission: jobs.Admission{
			Bulk:     "spec.template",
			Validate: jobs.Of(validate),
			Keep: jobs.Keeping(func(was, is *Toy, _ []kueue.PodSet) *Toy {
				out := is.copied()
				out.Spec.Hold = was.Spec.Hold
				return out
			}),
		},
	}
}

func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Toy{}, &ToyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

func validate(t *Toy) field.ErrorList {
	if t.Spec.Pods < 1 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "pods"), t.Spec.Pods, "use at least 1")}
	}
	return nil
}

// compile plans equal pods, each with a service. They are made anew when they fail, and all
// have to succeed.
func compile(o jobs.Object) (*jobs.Plan, error) {
	t, ok := o.(*Toy)
	if !ok {
		return nil, fmt.Errorf("compile toy: %T is none", o)
	}
	p := &jobs.Plan{
		Plan: podplan.Plan{
			Suspended: t.Spec.Hold,
			Retries:   t.Spec.Retries,
			CleanUp:   podplan.RemoveRunning,
			Success:   podplan.Success{{Roles: []string{Role}}},
			Roles: []podplan.Role{{
				Name: Role, Count: t.Spec.Pods, Member: t.Name + "-{index}", OnFailure: podplan.Replace,
				Env: []podplan.Env{{Name: "RANK", Value: "{rank}"}}, Ports: []podplan.Port{{Name: "talk", Port: 1234}},
			}},
		},
		Templates: []*corev1.PodTemplateSpec{&t.Spec.Template},
	}
	if t.Spec.Jobs {
		p.Roles[0].Holds, p.Roles[0].OnFailure, p.Roles[0].Ports = true, podplan.RestartJob, nil
		p.Make = []jobs.Make{
			func(_ podplan.Member, _ *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
				j := &batchv1.Job{Spec: batchv1.JobSpec{Template: *t.Spec.Template.DeepCopy()}}
				if j.Spec.Template.Spec.RestartPolicy == "" {
					j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				}
				info, found := admitted[Role]
				if !found {
					return j, nil
				}
				if t.Spec.Pods > info.Asked {
					return nil, jobs.ErrOutgrown
				}
				return j, info.Inject(&j.Spec.Template)
			},
		}
	}
	return p, nil
}

// artifacts are a list of who takes part and a key.
func artifacts(o jobs.Object, p *jobs.Plan, s *jobs.Progress) ([]jobs.Artifact, error) {
	t, ok := o.(*Toy)
	if !ok || !t.Spec.Key && !t.Spec.Yields && !t.Spec.Outlives {
		return nil, nil
	}
	list := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name + "-list"},
		Data:       map[string]string{"active": strconv.Itoa(int(s.Counts[Role].Active))},
	}
	if !t.Spec.Key {
		return []jobs.Artifact{{Object: list, Yields: t.Spec.Yields, Outlives: t.Spec.Outlives}}, nil
	}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: t.Name + "-key"}}
	return []jobs.Artifact{
		{Object: list},
		{Object: key, Stays: true, Fill: func(random io.Reader, o jobs.Object) error {
			secret, _ := o.(*corev1.Secret)
			text := make([]byte, 8)
			_, err := io.ReadFull(random, text)
			secret.Data = map[string][]byte{"key": text}
			return err
		}},
	}, nil
}

// told is what a status says of what is remembered.
func told(t *Toy) podplan.RetryState {
	if t.Status.Done {
		return jobs.EndedAs(&jobs.Outcome{Success: true}, nil)
	}
	return podplan.RetryState{Started: jobs.Begun(t, nil, t.Status.Runs)}
}

func project(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) jobs.Object {
	t, _ := o.(*Toy)
	out := t.copied()
	out.Status = Status{
		Done:  s.Outcome != podplan.Open,
		Runs:  s.Outcome == podplan.Open && !s.Started.IsZero(),
		Ready: s.Ready,
	}
	return out
}

func podSets(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	n, err := jobs.Number(t, 1, "spec", "pods")
	return []aw.AppWrapperPodSet{{Path: "template.spec.template", Replicas: &n}}, err
}

type adapter struct{}

func (adapter) GVK() schema.GroupVersionKind { return GroupVersion().WithKind("Toy") }
func (adapter) New() jobs.Object             { return &Toy{} }
func (adapter) Ours(jobs.Object) bool        { return true }

func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	t, ok := o.(*Toy)
	if !ok {
		return jobs.Facts{}, fmt.Errorf("read toy: %T is none", o)
	}
	f := jobs.Facts{
		Suspended: t.Spec.Hold, Active: t.Status.Runs,
		PodSets: []kueue.PodSet{{Name: Role, Count: t.Spec.Pods, Template: *t.Spec.Template.DeepCopy()}},
	}
	if t.Status.Done {
		f.Finished = &jobs.Outcome{Success: true}
	}
	return f, nil
}

func (adapter) Maker(o jobs.Object) core.MakerState {
	t, _ := o.(*Toy)
	return core.MakerState{Stopped: t.Spec.Hold, Ended: t.Status.Done, Deleting: t.DeletionTimestamp != nil}
}

func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	t, _ := o.(*Toy)
	out := t.copied()
	out.Spec.Hold = false
	meta := &out.Spec.Template.ObjectMeta
	if err := jobs.Merge("annotation", &meta.Annotations, infos[0].Annotations); err != nil {
		return nil, err
	}
	return out, jobs.Merge("label", &meta.Labels, infos[0].Labels)
}

func (adapter) Stop(o jobs.Object, original []kueue.PodSet) (jobs.Object, error) {
	t, _ := o.(*Toy)
	out := t.copied()
	out.Spec.Hold = true
	if len(original) == 1 {
		out.Spec.Template = *original[0].Template.DeepCopy()
	}
	return out, nil
}
