package jobs

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// Operator is what it takes to run jobs of a kind: their pods are made here, by a plan.
type Operator struct {
	// Compile returns what a job asks for. The error is for its author.
	Compile func(Object) (*Plan, error)
	// Others are what images of other controllers for the kind end with, without their
	// tags, such as kubeflow/training-operator. Where one runs, jobs are left to it.
	Others []string
	// Children are the kinds of objects that members can be besides pods; none if all are
	// pods.
	Children []ChildKind
	// Artifacts are the objects that a job has besides its members: Services, ConfigMaps, Secrets,
	// ServiceAccounts. The result depends on the arguments alone, and is computed again whenever they
	// change. nil for kinds without such objects.
	Artifacts func(Object, *Plan, *Progress) ([]Artifact, error)
	// Makes are the resources of Artifacts: the controller gets rights to them in namespaces where
	// jobs run.
	Makes []schema.GroupResource
	// Grants are the rights that ServiceAccounts among Artifacts can get: the controller has them,
	// too, since it can grant only rights that it has itself.
	Grants []rbacv1.PolicyRule
	// StateOfStatus is what a job's status, as Project writes it, says of what is remembered of the job. It is
	// asked only where a job has begun and its memory is lost; see Rebuilt.
	StateOfStatus func(Object) podplan.RetryState
	// Calls are HTTP requests to the job's own pods, such as for the state of a job that Ray runs in
	// one of them. The result depends on the arguments alone; each request in it is repeated as long
	// as it is returned. nil for kinds that send none.
	Calls func(Object, *Plan, *Progress) []Call
	// PostDeleteCalls are HTTP requests after a job was deleted, to pods that go on running without it. They
	// are tried a few times; a controller that starts in the meantime does not repeat them. nil for
	// kinds that send none.
	PostDeleteCalls func(Object, *Progress) []Call
	// Finalization removes what jobs leave behind when they are deleted; nil if they leave nothing.
	Finalization *Finalization
	// Observe adds to the observed members of a job what the answers to Calls say, above all the members
	// of Remote roles, and returns when to look again if nothing happens, 0 for never. nil for kinds
	// whose answers say nothing of members.
	Observe func(Object, *Plan, []podplan.Seen, *Progress) ([]podplan.Seen, time.Duration)
	// Project returns the object with its status computed from the plan and the observed state, in
	// the words of its kind. It depends on its arguments alone, so that every replica writes the same.
	Project func(Object, *Plan, *Progress) Object
	// FailedCreateReason is the reason of events that tell that members could not be made, where users of the
	// kind know it by another word than FailedCreate with the kind of the member; "" is that.
	FailedCreateReason string
	// Rounds say how pods tell in which round they are, of kinds whose plans may be InPlace; nil of others.
	Rounds *RoundKeys
	// StatusEvents are the events that a change of the status is told with, of kinds whose users know
	// them from the kind's own operator. It is asked once the change is written; nil tells nothing.
	StatusEvents func(was, is Object) []Event
}

// RoundKeys are how the pods of members tell in which round they are (podplan.InPlace).
type RoundKeys struct {
	// Round is the annotation that says it, Job the label that has the name of the job.
	Round, Job string
}

// Event is an event of Kubernetes about an object.
type Event struct {
	Reason, Message string
	Warning         bool
}

// Child is the kind of children of a version and kind; nil if there are none.
func (o *Operator) Child(gvk schema.GroupVersionKind) *ChildKind {
	i := slices.IndexFunc(o.Children, func(c ChildKind) bool { return c.GVK == gvk })
	if i < 0 {
		return nil
	}
	return &o.Children[i]
}

// KindOf is the version and kind of a member that is no pod.
func (o *Operator) KindOf(member Object) (schema.GroupVersionKind, error) {
	for i := range o.Children {
		if reflect.TypeOf(o.Children[i].New()) == reflect.TypeOf(member) {
			return o.Children[i].GVK, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%T is of none of the kinds of children", member)
}

// LacksRight reports whether the API server refused something since we may not do it. Limits and policies
// forbid in other words.
func LacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") &&
		strings.Contains(err.Error(), " resource \"")
}

// Refusal is what people are told of an error of the API server. That we lack a right ourselves is so
// where no jobs are queued.
func Refusal(err error) string {
	if LacksRight(err) {
		return "mlbatch has no rights in this namespace, which is no team's and has no LocalQueue: ask an administrator to make it a team's (mlbatch team create) or to give it a LocalQueue. " + err.Error()
	}
	return err.Error()
}

// Plan is a plan with the pods of its roles.
type Plan struct {
	podplan.Plan
	// Templates are the pods of each role, in the order of Roles.
	Templates []*corev1.PodTemplateSpec
	// First are the templates of the member of index 0 of each role, where it is not like the
	// other members, since these look for it by its name. nil, and what is missing at the end, is
	// the role's in Templates.
	First []*corev1.PodTemplateSpec
	// Make makes the members of roles that are no pods, in the order of Roles. nil, and what is
	// missing at the end, are roles whose members are pods.
	Make []Make
	// Own: the job's author said in fields of its kind what is tried again, so that only what its own annotation says of
	// retries goes besides; see Running.Retries.
	Own bool
	// Where are the paths at which an author wrote what the members of roles are made from, in
	// the order of Roles. "", and what is missing at the end, is the path of the pod template that
	// has the role's name.
	Where []string
}

// MakeOf returns what makes the members of a role that are no pods; nil if they are pods.
func (p *Plan) MakeOf(role string) Make {
	for i := range p.Roles {
		if p.Roles[i].Name == role && i < len(p.Make) {
			return p.Make[i]
		}
	}
	return nil
}

// TemplateOf returns the pod template of a member; nil if the plan has no such role.
func (p *Plan) TemplateOf(m podplan.Member) *corev1.PodTemplateSpec {
	for i := range p.Roles {
		if p.Roles[i].Name != m.Role {
			continue
		}
		switch {
		case m.Index == 0 && i < len(p.First) && p.First[i] != nil:
			return p.First[i]
		case i < len(p.Templates):
			return p.Templates[i]
		}
	}
	return nil
}

// Replaceable is how many more of a job's pods can be taken away; see Replaces. Of jobs that
// are operated here each pod that is evicted is made anew, and that is not counted as a
// failure. But the others lose touch with it and may fail, so that all have to be of the
// kind that is made anew.
func (k *Kind) Replaceable(o Object, pods []corev1.Pod) (n int32, open bool) {
	if k.Queueing.Replaces != nil {
		return k.Queueing.Replaces(o, pods)
	}
	if k.Running.Operator == nil || !k.RunHere() {
		return 0, false
	}
	p, err := k.Running.Operator.Compile(o)
	if err != nil || p.Suspended {
		return 0, false
	}
	for i := range p.Roles {
		if f := p.Roles[i].OnFailure; f == podplan.FailJob || f == podplan.ReplaceRetriable {
			return 0, false
		}
	}
	return math.MaxInt32, false
}

// Progress is how far a job is.
type Progress struct {
	podplan.RetryState
	// Suspended: it is, and none of its pods is left.
	Suspended bool
	// Counts are its pods, by role; Ready is true if all are ready or done.
	Counts map[string]podplan.Tally
	Ready  bool
	// Addresses are the addresses of the first pods of roles that have one, by role.
	Addresses map[string]string
	// Restarting: pods failed and are about to be made anew. Disrupted: one of them did because
	// it was evicted or its node was lost.
	Restarting, Disrupted bool
	// Children are its members that are no pods, as the API has them.
	Children []Object
	// Answers are the answers to Calls.
	Answers Answers
	// NotMade is why a member or an artifact could not be made last; "" if all could.
	NotMade string
	// Now is the time of what was seen.
	Now time.Time
}

// outcomes are the API's words for how a plan ended.
func outcomes() map[podplan.Outcome]string {
	return map[podplan.Outcome]string{podplan.JobSucceeded: "Succeeded", podplan.JobFailed: "Failed"}
}

// reasons are the API's words for why a plan ended.
func reasons() map[podplan.Reason]string {
	return map[podplan.Reason]string{
		podplan.MemberFailed:     "PodFailed",
		podplan.RetriesExceeded:  "BackoffLimitExceeded",
		podplan.DeadlineExceeded: "DeadlineExceeded",
	}
}

// ToRecovery is what is remembered of a job as its JobRecovery has it.
func ToRecovery(m *podplan.RetryState) *recovery.Recovery {
	r := &recovery.Recovery{
		StartTime: moment(
			m.Started,
		),
		Attempt:         m.Attempt,
		Failures:        m.Failures,
		FreeFailures:    m.Free,
		Rule:            m.Rule,
		LastFailureTime: moment(m.LastFailure),
		Outcome:         outcomes()[m.Outcome],
		Reason:          reasons()[m.Reason],
		Message:         m.Message,
		EndTime:         moment(m.Ended),
	}
	if is := &m.Rounds; is.Begun {
		r.InPlace = &recovery.InPlace{
			Current: is.Current, Next: is.Next, Since: moment(is.Since), Failures: is.Failures, FreeFailures: is.Free,
		}
		if is.Over > 0 {
			r.InPlace.Previous = new(is.Over - 1)
		}
	}
	for _, id := range m.Counted {
		r.Counted = append(r.Counted, types.UID(id))
	}
	for _, role := range slices.Sorted(maps.Keys(m.Done)) {
		r.Done = append(r.Done, recovery.Done{Role: role, Indexes: m.Done[role].String()})
	}
	return r
}

func moment(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

// Remembered reads what a JobRecovery has; nil is a job of which nothing is remembered yet.
func Remembered(r *recovery.Recovery) podplan.RetryState {
	if r == nil {
		return podplan.RetryState{}
	}
	m := podplan.RetryState{
		Attempt:  r.Attempt,
		Failures: r.Failures,
		Free:     r.FreeFailures,
		Rule:     r.Rule,
		Message:  r.Message,
	}
	if r.StartTime != nil {
		m.Started = r.StartTime.Time
	}
	if r.LastFailureTime != nil {
		m.LastFailure = r.LastFailureTime.Time
	}
	if r.EndTime != nil {
		m.Ended = r.EndTime.Time
	}
	if is := r.InPlace; is != nil {
		m.Rounds = podplan.Rounds{
			Begun: true, Current: is.Current, Next: is.Next, Failures: is.Failures, Free: is.FreeFailures,
		}
		if is.Previous != nil {
			m.Rounds.Over = *is.Previous + 1
		}
		if is.Since != nil {
			m.Rounds.Since = is.Since.Time
		}
	}
	for _, id := range r.Counted {
		m.Counted = append(m.Counted, string(id))
	}
	for _, d := range r.Done {
		if m.Done == nil {
			m.Done = map[string]podplan.Indexes{}
		}
		m.Done[d.Role] = podplan.ParseIndexes(d.Indexes)
	}
	for o, word := range outcomes() { // each has its own word, so order does not matter
		if word == r.Outcome {
			m.Outcome = o
		}
	}
	for why, word := range reasons() { // as above
		if word == r.Reason {
			m.Reason = why
		}
	}
	return m
}
