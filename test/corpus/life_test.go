package corpus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// tester is a test, or one of many that rapid makes of one.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// life is a cluster with one job of any kind, which nobody but its kind knows: its object as
// it is stored, what is remembered of it, its members, and time. Its controller is killed at any moment,
// since nothing else is kept.
type life struct {
	t     tester
	kinds jobs.Kinds // all that there are
	kind  *jobs.Kind
	job   jobs.Object
	// memory is what is stored beside the job; said: this controller knows that the status says so.
	memory *recovery.Recovery
	said   bool
	// others are what is remembered of members that are jobs, by their names.
	others  map[string]podplan.RetryState
	members []jobs.Object
	now     time.Time
	made    int
	// ray is what is asked of the job's own pods, and what they know.
	ray ray
	// killed: the controller dies after so many more writes; -1 is never.
	killed int
}

// newLife submits a manifest where it is queued. bases are what jobs may be based on.
func newLife(t tester, all jobs.Kinds, m corpus.Manifest, bases map[string]jobs.Object) *life {
	t.Helper()
	k := &all[slices.IndexFunc(all, func(k jobs.Kind) bool { return k.GVK().Kind == m.Kind })]
	w := &life{
		t:      t,
		kinds:  all,
		kind:   k,
		now:    time.Unix(1_700_000_000, 0),
		killed: -1,
		others: map[string]podplan.RetryState{},
	}
	w.job = k.New()
	if err := yaml.Unmarshal([]byte(m.Text), w.job); err != nil {
		t.Fatalf("%v", err)
	}
	w.job.SetNamespace("blue")
	w.job.SetName(m.Name)
	w.job.SetUID("job")
	w.job.SetCreationTimestamp(metav1.NewTime(w.now))
	_, version := kindOf(t, jobs.Kinds{*k}, m.Text)
	stamp(k, w.job, version)
	if k.Queueing.Basis != nil {
		ref := k.Queueing.Basis.Of(w.job)
		w.store(k.Queueing.Basis.With(w.job, bases[ref.Kind+" "+ref.Name], jobs.Schedulers{}))
	}
	w.store(w.stopped())
	return w
}

// store is what the API server does with an object: what has no place in JSON is gone.
func (w *life) store(o jobs.Object) {
	w.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	again := w.kind.New()
	if err := json.Unmarshal(text, again); err != nil {
		w.t.Fatalf("%v", err)
	}
	w.job = again
}

// remember stores what is to be remembered, as the API server does.
func (w *life) remember(m *podplan.RetryState) {
	w.t.Helper()
	text, err := json.Marshal(jobs.ToRecovery(m))
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.memory, w.said = &recovery.Recovery{}, false
	if err := json.Unmarshal(text, w.memory); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// lose is the loss of all that is remembered: what can be told of it is stored again.
func (w *life) lose() {
	w.t.Helper()
	plan, err := w.kind.Running.Operator.Compile(w.job)
	if err != nil {
		w.t.Fatalf("compile: %v", err)
	}
	all := make([]metav1.Object, len(w.members))
	for i := range w.members {
		all[i] = w.members[i]
	}
	m := w.kind.Running.Operator.Rebuilt(w.job, all, w.seen(plan))
	w.remember(&m)
}

func (w *life) facts() jobs.Facts {
	w.t.Helper()
	f, err := w.kind.Read(w.job)
	if err != nil {
		w.t.Fatalf("it cannot be read: %v", err)
	}
	return f
}

func (w *life) stopped() jobs.Object {
	out, err := w.kind.Stop(w.job, w.facts().PodSets)
	if err != nil {
		w.t.Fatalf("stop: %v", err)
	}
	return out
}

func (w *life) admitted() jobs.Admitted {
	out := jobs.Admitted{}
	for _, p := range w.facts().PodSets {
		out[string(p.Name)] = jobs.PodSetInfo{
			Name:         string(p.Name),
			Count:        p.Count,
			Asked:        p.Count,
			NodeSelector: map[string]string{"pool": "a"},
			Labels: map[string]string{
				kueue.PodSetLabel: string(p.Name),
			},
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		}
	}
	return out
}

func (w *life) admit() {
	w.t.Helper()
	infos := w.admitted()
	var list []jobs.PodSetInfo
	for _, p := range w.facts().PodSets {
		list = append(list, infos[string(p.Name)])
	}
	out, err := w.kind.Start(w.job, list)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	w.store(out)
}

// seen reads the members as the controller does.
func (w *life) seen(p *jobs.Plan) []podplan.Seen {
	out := make([]podplan.Seen, len(w.members))
	for i, o := range w.members {
		if pod, is := o.(*corev1.Pod); is {
			out[i] = p.See([]*corev1.Pod{pod})[0]
			out[i].Over = out[i].Leaving
			continue
		}
		for j := range w.kind.Running.Operator.Children {
			if c := &w.kind.Running.Operator.Children[j]; reflect.TypeOf(c.New()) == reflect.TypeOf(o) {
				out[i] = p.SeeChild(c, o)
			}
		}
	}
	return out
}

// dies reports whether the controller was killed before its next write.
func (w *life) dies() bool {
	if w.killed < 0 {
		return false
	}
	w.killed--
	w.said = w.said && w.killed >= 0
	return w.killed < 0
}

// step lets the controller look once. It reports whether there was anything to do.
func (w *life) step() bool {
	w.t.Helper()
	before := w.facts()
	plan, err := w.kind.Running.Operator.Compile(w.job)
	if err != nil {
		w.t.Fatalf("compile: %v", err)
	}
	kept := jobs.Remembered(w.memory)
	seen := w.seen(plan)
	if !w.said && w.memory != nil { // the status comes first
		as := w.kind.Running.Operator.Project(w.job, plan, w.standing(plan, seen, &kept))
		if differs := !equality.Semantic.DeepEqual(as, w.job); differs && w.dies() {
			w.killed = -1
			return true
		} else if differs {
			w.store(as)
			w.said = true
			w.check(&before, plan)
			return true
		}
	}
	w.said = true
	seen = w.ask(plan, seen, &kept)
	s := plan.Next(seen, &kept, w.now)
	did := s.Changed || s.Remove
	if !s.Changed {
		did = w.do(plan, &s) || did
	}
	if w.killed == -2 || s.Changed && w.dies() {
		w.killed = -1
		return true
	}
	if s.Changed {
		w.remember(&s.RetryState)
	}
	as := w.kind.Running.Operator.Project(w.job, plan, w.standing(plan, seen, &s.RetryState))
	if again := w.kind.Running.Operator.Project(
		as,
		plan,
		w.standing(plan, seen, &s.RetryState),
	); !equality.Semantic.DeepEqual(
		as,
		again,
	) {
		w.t.Fatalf("the same look gives another status:\n%s", cmp.Diff(as, again))
	}
	if w.dies() {
		w.killed = -1
		return true
	}
	did = did || !equality.Semantic.DeepEqual(as, w.job)
	w.store(as)
	w.said = true
	w.check(&before, plan)
	return did
}

func (w *life) standing(p *jobs.Plan, seen []podplan.Seen, m *podplan.RetryState) *jobs.Progress {
	s := jobs.Progress{
		RetryState: *m,
		Counts:     p.Count(seen, m),
		Now:        w.now,
		Answers:    w.ray.answers,
		Children:   w.children(p),
	}
	s.Suspended = p.Suspended && m.Started.IsZero() && m.Outcome == podplan.Open
	s.Ready = m.Outcome == podplan.Open && !m.Started.IsZero() && p.AllReady(s.Counts)
	s.Restarting = slices.ContainsFunc(seen, func(x podplan.Seen) bool {
		return x.Life == podplan.Failed && (x.Disrupted || slices.Contains(m.Counted, x.ID))
	})
	return &s
}

// do does what a step says, unless the controller dies in the middle.
func (w *life) do(p *jobs.Plan, s *podplan.Actions) (did bool) {
	w.t.Helper()
	died := func() bool {
		if w.dies() {
			w.killed = -2
			return true
		}
		return false
	}
	for _, i := range s.Delete {
		if died() {
			return true
		}
		w.members[i].SetDeletionTimestamp(&metav1.Time{Time: w.now})
		did = true
	}
	for _, i := range slices.Concat(s.Hold, s.Release) {
		if died() {
			return true
		}
		w.hold(p, i, slices.Contains(s.Hold, i), &s.RetryState)
		did = true
	}
	for _, x := range s.Create {
		if died() {
			return true
		}
		did = w.create(p, x, &s.RetryState) || did
	}
	return did
}

func (w *life) hold( //nolint:revive // what is done to it
	p *jobs.Plan,
	i int,
	on bool,
	m *podplan.RetryState,
) {
	w.t.Helper()
	o := w.members[i]
	for j := range w.kind.Running.Operator.Children {
		c := &w.kind.Running.Operator.Children[j]
		if reflect.TypeOf(c.New()) != reflect.TypeOf(o) {
			continue
		}
		if on {
			w.members[i] = c.Hold(o)
			continue
		}
		x := p.SeeChild(c, o)
		wanted, err := p.Child(w.job, w.kind.GVK(), x.Member, m, w.admitted())
		if err != nil {
			w.t.Fatalf("make %v: %v", x.Member, err)
		}
		w.members[i] = c.Release(o, wanted)
	}
}

// create makes a member as the API server would: a name is taken once.
func (w *life) create(p *jobs.Plan, x podplan.Member, m *podplan.RetryState) bool {
	w.t.Helper()
	infos := w.admitted()
	var o jobs.Object
	var err error
	if p.MakeOf(x.Role) != nil {
		o, err = p.Child(w.job, w.kind.GVK(), x, m, infos)
	} else {
		info, known := infos[jobs.PodSetName(x.Role)]
		if !known {
			w.t.Fatalf("role %s has no pod set in %v", x.Role, slices.Collect(maps.Keys(infos)))
		}
		o, err = p.Pod(w.job, w.kind.GVK(), x, m, &info)
	}
	if err != nil {
		w.t.Fatalf("make %v: %v", x, err)
	}
	if slices.ContainsFunc(w.members, func(is jobs.Object) bool {
		return is.GetName() == o.GetName() && reflect.TypeOf(is) == reflect.TypeOf(o)
	}) {
		return false
	}
	w.made++
	o.SetUID(types.UID(fmt.Sprint("uid-", w.made)))
	w.members = append(w.members, o)
	return true
}

// check is what holds after every look.
func (w *life) check(before *jobs.Facts, p *jobs.Plan) {
	w.t.Helper()
	f := w.facts()
	if before.Finished != nil && (f.Finished == nil || f.Finished.Success != before.Finished.Success) {
		w.t.Fatalf("it ended with %+v, and now %+v", before.Finished, f.Finished)
	}
	kept := jobs.Remembered(w.memory)
	if p.Retries != nil && kept.Outcome == podplan.Open && kept.Failures > *p.Retries {
		w.t.Fatalf("it goes on after %d failures, and %d are allowed", kept.Failures, *p.Retries)
	}
	for _, o := range w.members {
		if w.lives(o) && !f.Active && f.Finished == nil {
			w.t.Fatalf("%s runs, and the job says that it has no pods", o.GetName())
		}
	}
	counts := w.pods()
	for _, s := range f.PodSets {
		if n := counts[string(s.Name)]; n > s.Count && !f.Suspended {
			w.t.Fatalf("pod set %s has %d pods, and was admitted with %d", s.Name, n, s.Count)
		}
	}
}

// pods are those that may run, by pod set.
func (w *life) pods() map[string]int32 {
	out := map[string]int32{}
	for _, o := range w.members {
		switch m := o.(type) {
		case *corev1.Pod:
			if w.lives(m) {
				out[m.Labels[kueue.PodSetLabel]]++
			}
		case *batchv1.Job:
			if w.lives(m) {
				n := ptr.Deref(m.Spec.Parallelism, 1)
				out[m.Spec.Template.Labels[kueue.PodSetLabel]] += min(n, ptr.Deref(m.Spec.Completions, n))
			}
		default: // a job of another kind, whose pod sets are those of the whole
			if _, f := w.other(o); w.lives(o) {
				for _, s := range f.PodSets {
					out[string(s.Name)] += s.Count
				}
			}
		}
	}
	return out
}

// other is the kind of a member that is a job of another kind, and what it says.
func (w *life) other(o jobs.Object) (*jobs.Kind, jobs.Facts) {
	w.t.Helper()
	for i := range w.kinds {
		if k := &w.kinds[i]; reflect.TypeOf(k.New()) == reflect.TypeOf(o) {
			f, err := k.Read(o)
			if err != nil {
				w.t.Fatalf(
					"%s %s, which was made of %s, cannot be read: %v",
					k.GVK().Kind,
					o.GetName(),
					w.job.GetName(),
					err,
				)
			}
			return k, f
		}
	}
	w.t.Fatalf("%T is no kind of job", o)
	return nil, jobs.Facts{}
}

// lives reports whether pods of a member may run. Here what is being deleted runs no more.
func (w *life) lives(o jobs.Object) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	switch m := o.(type) {
	case *corev1.Pod:
		return m.Status.Phase != corev1.PodSucceeded && m.Status.Phase != corev1.PodFailed
	case *batchv1.Job:
		ended := slices.ContainsFunc(m.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobSuspended
		})
		return !ended
	}
	_, f := w.other(o)
	return f.Finished == nil && (f.Active || !f.Suspended)
}

// Lives of members.
const (
	runs     = "runs"
	succeeds = "succeeds"
	fails    = "fails"
	crashes  = "crashes" // in a way that may pass
	lost     = "lost"
)

// become lets a member live on. It reports whether it could.
func (w *life) become(o jobs.Object, how string) bool {
	switch m := o.(type) {
	case *corev1.Pod:
		if !w.lives(m) {
			return false
		}
		becomePod(m, how)
		return true
	case *batchv1.Job:
		if !w.lives(m) {
			return false
		}
		w.becomeJob(m, how)
		return true
	}
	return w.becomeOther(o, how)
}

func becomePod(m *corev1.Pod, how string) {
	code := map[string]int32{fails: 1, crashes: 137}[how]
	ended := func(code int32) {
		m.Status.ContainerStatuses = nil
		for _, c := range m.Spec.Containers {
			m.Status.ContainerStatuses = append(m.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
			})
		}
	}
	switch how {
	case runs:
		m.Status.Phase = corev1.PodRunning
		m.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case succeeds:
		m.Status.Phase = corev1.PodSucceeded
		ended(0)
	case lost:
		m.Status.Phase = corev1.PodFailed
		m.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	default:
		m.Status.Phase = corev1.PodFailed
		ended(code)
	}
}

// becomeJob: Kubernetes makes lost pods of a Job anew, so that it never fails of that.
func (w *life) becomeJob(m *batchv1.Job, how string) {
	n := ptr.Deref(m.Spec.Parallelism, 1)
	end := func(c batchv1.JobConditionType, reason string) {
		m.Status.Active, m.Status.Ready = 0, new(int32)
		m.Status.Conditions = append(
			m.Status.Conditions,
			batchv1.JobCondition{
				Type:               c,
				Status:             corev1.ConditionTrue,
				Reason:             reason,
				LastTransitionTime: metav1.Time{Time: w.now},
			},
		)
	}
	switch {
	case ptr.Deref(m.Spec.Suspend, false):
		end(batchv1.JobSuspended, "JobSuspended")
		return
	case how == runs:
		m.Status.StartTime = &metav1.Time{Time: w.now}
		m.Status.Active, m.Status.Ready = n, &n
	case how == succeeds:
		m.Status.Succeeded = ptr.Deref(m.Spec.Completions, n)
		end(batchv1.JobComplete, "CompletionsReached")
	case how != lost:
		m.Status.Failed = 1
		end(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	}
}

// becomeOther is for members that are jobs of another kind: how one stands is told in its own
// words.
func (w *life) becomeOther(o jobs.Object, how string) bool {
	w.t.Helper()
	k, f := w.other(o)
	plan, err := k.Running.Operator.Compile(o)
	if err != nil {
		w.t.Fatalf("compile %s: %v", o.GetName(), err)
	}
	s := jobs.Progress{RetryState: w.others[o.GetName()], Now: w.now, Counts: map[string]podplan.Tally{}}
	endless := len(plan.Success) == 0 // whatever happens to others, it runs
	switch {
	case f.Suspended:
		s.RetryState, s.Suspended = podplan.RetryState{}, true
	case !w.lives(o) || how == lost:
		return false
	case how == runs || endless:
		s.Started, s.Ready = w.now, true
		for i := range plan.Roles {
			n := plan.Roles[i].Count
			s.Counts[plan.Roles[i].Name] = podplan.Tally{Active: n, Ready: n}
		}
	case how == succeeds:
		s.Outcome, s.Ended = podplan.JobSucceeded, w.now
	default:
		s.Outcome, s.Reason, s.Message, s.Ended = podplan.JobFailed, podplan.MemberFailed, "one failed", w.now
	}
	for i := range w.members {
		if w.members[i] == o {
			w.members[i] = k.Running.Operator.Project(o, plan, &s)
			w.others[o.GetName()] = s.RetryState
		}
	}
	return true
}

// gone lets members go that are being deleted, and others' controllers see what is to be
// suspended and what is not any more.
func (w *life) gone() {
	for _, o := range w.members {
		if o.GetDeletionTimestamp() != nil {
			w.ray.forget(o.GetName())
		}
	}
	w.members = slices.DeleteFunc(w.members, func(o jobs.Object) bool { return o.GetDeletionTimestamp() != nil })
	for _, o := range slices.Clone(w.members) {
		j, is := o.(*batchv1.Job)
		if _, pod := o.(*corev1.Pod); !is && !pod {
			if _, f := w.other(o); f.Suspended && f.Active {
				w.becomeOther(o, "")
			}
		}
		if !is {
			continue
		}
		says := func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }
		switch held := ptr.Deref(j.Spec.Suspend, false); {
		case held && w.lives(j):
			w.becomeJob(j, "")
		case !held:
			j.Status.Conditions = slices.DeleteFunc(j.Status.Conditions, says)
		}
	}
}

// rest lets the controller work until nothing is left to do.
func (w *life) rest() {
	w.t.Helper()
	for range 200 {
		w.gone()
		if !w.step() {
			plan, _ := w.kind.Running.Operator.Compile(w.job)
			kept := jobs.Remembered(w.memory)
			if s := plan.Next(
				w.ask(plan, w.seen(plan), &kept),
				&kept,
				w.now,
			); s.Again > 0 && kept.Outcome == podplan.Open &&
				plan.Deadline == 0 {
				w.now = w.now.Add(s.Again)
				continue
			}
			return
		}
	}
	w.t.Fatalf("it never comes to rest")
}

// all lets all members live on until no further ones come.
func (w *life) all(how string) {
	w.t.Helper()
	for range 20 {
		some := false
		for _, o := range slices.Clone(w.members) {
			some = w.become(o, how) || some
		}
		some = w.ray.become(how) || some
		before := w.made
		w.rest()
		if w.ray.become(how) && how == runs { // what was asked for by now
			w.rest()
		}
		if !some || w.made == before || how == fails || how == crashes || how == lost {
			return
		}
	}
}

// played are the manifests whose lives are played, and their kinds.
func played() ([]corpus.Manifest, jobs.Kinds) {
	kinds := native.All().Where(func(k *jobs.Kind) bool { return k.Running.Operator != nil })
	all := slices.DeleteFunc(
		slices.Concat(corpus.All(), corpus.Ray(), corpus.TrainJobs()),
		func(m corpus.Manifest) bool {
			return !slices.ContainsFunc(kinds, func(k jobs.Kind) bool { return k.GVK().Kind == m.Kind })
		},
	)
	return all, kinds
}

// TestLives: whatever happens to a job of whatever kind, in a scripted order: it runs, its
// nodes go, it is evicted and admitted again, it succeeds or fails; and each time once more
// with the controller killed after each of its writes.
func TestLives(t *testing.T) {
	all, kinds := played()
	bases, shown := runtimesOf(t), map[string]bool{}
	for _, m := range all {
		shown[m.Kind] = true
		t.Run(m.Kind+"/"+m.Name, func(t *testing.T) {
			for _, killed := range []int{-1, 0, 1, 3} {
				script(newLife(t, kinds, m, bases), killed)
			}
		})
	}
	for i := range kinds {
		if kind := kinds[i].GVK().Kind; !shown[kind] {
			t.Errorf("no %s lives", kind)
		}
	}
}

func script(w *life, killed int) {
	t := w.t
	t.Helper()
	fresh := *w
	fresh.others = map[string]podplan.RetryState{}
	w.rest()
	if f := w.facts(); !f.Suspended || f.Active || len(w.members) > 0 {
		t.Fatalf("it waits, and has %d members: %+v", len(w.members), f)
	}
	w.killed = killed
	w.admit()
	w.rest()
	w.killed = -1
	w.all(runs)
	if f := w.facts(); !f.Active || f.Finished != nil ||
		!f.Ready { // what begins when others have ended is not awaited
		t.Fatalf("all run: active %v, ready %v, ended %v", f.Active, f.Ready, f.Finished)
	}
	made, failures := w.made, jobs.Remembered(w.memory).Failures
	w.killed = killed
	w.all(lost)
	w.killed = -1
	if f := w.facts(); f.Finished != nil || jobs.Remembered(w.memory).Failures != failures {
		t.Fatalf("its nodes were lost, for which it is blamed: %+v", f.Finished)
	}
	if pods := w.pods(); w.made == made && len(w.kind.Running.Operator.Children) == 0 || len(pods) == 0 {
		t.Fatalf("its nodes were lost, and its pods are not made anew")
	}
	w.all(runs)
	w.killed = killed
	w.store(w.stopped())
	w.rest()
	w.killed = -1
	w.rest()
	if f := w.facts(); f.Active || f.Finished != nil || len(w.pods()) > 0 {
		t.Fatalf("it was evicted: active %v, ended %v, pods %v", f.Active, f.Finished, w.pods())
	}
	w.admit()
	w.rest()
	w.all(runs)
	w.killed = killed
	w.all(succeeds)
	w.killed = -1
	w.rest()
	switch f := w.facts(); {
	case w.endless():
		if f.Finished != nil || len(w.pods()) == 0 {
			t.Fatalf("it never ends, and its pods ended: ended with %+v, pods %v", f.Finished, w.pods())
		}
	case f.Finished == nil || !f.Finished.Success:
		t.Fatalf("all succeeded, and it ended with %+v", f.Finished)
	}

	// Another one fails for good, however often it is tried again.
	x := &fresh
	x.admit()
	x.rest()
	x.killed = killed
	for range 400 {
		x.all(fails)
		if f := x.facts(); f.Finished != nil {
			break
		}
		plan, err := x.kind.Running.Operator.Compile(x.job)
		if err != nil ||
			plan.Retries == nil &&
				!slices.ContainsFunc(plan.Roles, func(r podplan.Role) bool { return r.OnFailure == podplan.FailJob }) {
			return // it is tried again for ever
		}
	}
	x.killed = -1
	x.rest()
	if f := x.facts(); f.Finished == nil || f.Finished.Success {
		t.Fatalf("all failed, and it ended with %+v", f.Finished)
	}
}

// endless reports whether the job has no end.
func (w *life) endless() bool {
	plan, err := w.kind.Running.Operator.Compile(w.job)
	return err == nil && len(plan.Success) == 0
}

// TestMemoryIsRebuilt: of a job that runs, whose memory is lost, as it is where it was kept elsewhere by an
// earlier version, nothing is made anew, nothing is said that was not said before, and it ends as any other.
// So does one that was made anew before.
func TestMemoryIsRebuilt(t *testing.T) {
	all, kinds := played()
	bases := runtimesOf(t)
	for _, m := range all {
		t.Run(m.Kind+"/"+m.Name, func(t *testing.T) {
			w := newLife(t, kinds, m, bases)
			w.rest()
			w.lose()
			if diff := cmp.Diff(&recovery.Recovery{}, w.memory); diff != "" {
				t.Fatalf("it has not begun, and this is remembered:\n%s", diff)
			}
			w.admit()
			w.rest()
			for _, failed := range []bool{false, true} {
				if failed {
					w.some(fails)
				}
				w.all(runs)
				if f := w.facts(); f.Finished != nil {
					continue
				}
				was, before, made := *w.memory, w.job.DeepCopyObject(), w.made
				w.lose()
				w.rest()
				forgot := []cmp.Option{
					cmpopts.IgnoreFields(recovery.Recovery{}, "StartTime", "LastFailureTime", "Rule", "Counted"),
				}
				if diff := cmp.Diff(&was, w.memory, forgot...); diff != "" {
					t.Errorf("failed before: %v: it is remembered otherwise (-was +is):\n%s", failed, diff)
				}
				if f := w.facts(); !f.Active || !f.Ready || w.made != made ||
					(was.StartTime == nil) != (w.memory.StartTime == nil) {
					t.Errorf("failed before: %v: active %v, ready %v, made %d more", failed, f.Active, f.Ready, w.made-made)
				}
				if kind := w.kind.GVK().Kind; kind != "RayService" && !failed {
					if diff := cmp.Diff(before, runtime.Object(w.job)); diff != "" {
						t.Errorf("it says something else (-was +is):\n%s", diff)
					}
				}
			}
			w.all(succeeds)
			w.rest()
			if f := w.facts(); !w.endless() && f.Finished == nil {
				t.Error("it never ends")
			}
		})
	}
}

// some lets the first of the members that run live on.
func (w *life) some(how string) {
	w.t.Helper()
	for _, o := range slices.Clone(w.members) {
		if w.become(o, how) {
			break
		}
	}
	w.rest()
}

// TestRandomLives: anything happens to a job of any kind in any order.
func TestRandomLives(t *testing.T) {
	all, kinds := played()
	bases := runtimesOf(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(all).Draw(t, "manifest")
		w := newLife(t, kinds, m, bases)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			w.happen(t)
		}
		w.killed = -1
		w.rest()
		if f := w.facts(); f.Suspended && f.Finished == nil && (f.Active || len(w.pods()) > 0) {
			t.Fatalf("it is suspended, and has pods: %v", w.pods())
		}
	})
}

func (w *life) happen(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
	switch what := rapid.SampledFrom([]string{"look", "look", "look", "killed", "forgotten", "admit", "evict", "gone", runs, runs, succeeds, fails, crashes, lost}).Draw(t, "what"); what {
	case "look":
		w.step()
	case "killed":
		w.killed = rapid.IntRange(0, 3).Draw(t, "after writes")
		w.step()
		w.killed = -1
	case "forgotten":
		w.lose()
	case "admit":
		if f := w.facts(); f.Suspended && !f.Active && f.Finished == nil {
			w.admit()
		}
	case "evict":
		if w.facts().Finished == nil {
			w.store(w.stopped())
		}
	case "gone":
		w.gone()
	default:
		if rapid.IntRange(0, 3).Draw(t, "of Ray") == 0 {
			w.ray.become(what)
		}
		if len(w.members) > 0 {
			w.become(w.members[rapid.IntRange(0, len(w.members)-1).Draw(t, "which")], what)
		}
	}
}
