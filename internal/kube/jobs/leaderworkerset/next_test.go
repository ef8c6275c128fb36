package leaderworkerset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// parse reads a set from its spec.
func parse(t testing.TB, spec string) *api.LeaderWorkerSet {
	t.Helper()
	l := &api.LeaderWorkerSet{}
	if err := yaml.UnmarshalStrict(
		[]byte(
			"{metadata: {name: s, namespace: blue, uid: set, generation: 1, labels: {kueue.x-k8s.io/queue-name: q}}, spec: "+spec+"}",
		),
		l,
	); err != nil {
		t.Fatal(err)
	}
	return l
}

// fake is a cluster as far as sets go: StatefulSets make pods at once, pods that go are
// gone at once, and what was made for a leader goes with it.
type fake struct {
	t     testing.TB
	world *Observed
	uids  int
	// held: no new pod gets ready.
	held bool
	// all has what a StatefulSet made its older pods of.
	old map[string]*corev1.PodTemplateSpec
	// done is what was done, in words.
	done []string
	// answers is the webhook that tells pods their places; nil is that of this program.
	answers func(p *corev1.Pod) *Identity
}

func newFake(t testing.TB, l *api.LeaderWorkerSet) *fake {
	t.Helper()
	return &fake{t: t, old: map[string]*corev1.PodTemplateSpec{}, world: &Observed{
		Object: l, Sets: map[string]*appsv1.StatefulSet{}, Services: map[string]bool{}, Now: time.Unix(0, 0),
	}}
}

func (f *fake) uid() types.UID {
	f.uids++
	return types.UID(fmt.Sprint("uid-", f.uids))
}

func (f *fake) say(format string, args ...any) { f.done = append(f.done, fmt.Sprintf(format, args...)) }

// step does what comes next, and reports whether there was anything.
func (f *fake) step() bool {
	f.t.Helper()
	s, err := Next(f.world)
	if err != nil {
		f.t.Fatal(err)
	}
	before := len(f.done)
	for _, o := range s.Create {
		f.create(o)
	}
	if s.Leaders != nil {
		was := f.world.Leaders
		if revisionOf(&was.Spec.Template) != revisionOf(&s.Leaders.Spec.Template) {
			if f.old[was.Name] == nil {
				f.old[was.Name] = &was.Spec.Template
			}
		}
		f.say("leaders: %d from %d", *s.Leaders.Spec.Replicas, partitionOf(s.Leaders))
		f.world.Leaders = s.Leaders.DeepCopy()
		f.world.Leaders.Generation++
	}
	for _, set := range s.Workers {
		f.say("workers of %s: %d", set.Name, *set.Spec.Replicas)
		f.world.Sets[set.Name] = set.DeepCopy()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Complete)) {
		f.world.Sets[name] = f.world.Sets[name].DeepCopy()
		metav1.SetMetaDataAnnotation(&f.world.Sets[name].ObjectMeta, MembersAnnotation, s.Complete[name])
		f.say("complete %s", name)
	}
	for _, g := range s.Recreate {
		f.say("recreate %s: %s", g.Leader.Name, g.Message)
		f.remove(g.Leader.Name)
	}
	for _, p := range s.Replace {
		f.say("replace %s", p.Name)
		f.remove(p.Name)
	}
	for _, r := range s.Forget {
		f.say("forget a template")
		f.world.Revisions = slices.DeleteFunc(
			f.world.Revisions,
			func(x *appsv1.ControllerRevision) bool { return x.Name == r.Name },
		)
	}
	f.world.Object.Status = s.Status
	return len(f.done) > before
}

func (f *fake) create(o any) {
	switch o := o.(type) {
	case *appsv1.ControllerRevision:
		f.world.Revisions = append(f.world.Revisions, o)
		f.say("template %d", o.Revision)
	case *corev1.Service:
		f.world.Services[o.Name] = true
		f.say("service %s", o.Name)
	case *appsv1.StatefulSet:
		o.UID = f.uid()
		if o.Name == f.world.Object.Name {
			f.world.Leaders = o
		} else {
			f.world.Sets[o.Name] = o
		}
		f.say("set %s", o.Name)
	default:
		f.t.Fatalf("create %T", o)
	}
}

// remove takes a pod away, and with a leader what is its own.
func (f *fake) remove(name string) {
	f.world.Pods = slices.DeleteFunc(f.world.Pods, func(p *corev1.Pod) bool { return p.Name == name })
	if set := f.world.Sets[name]; set != nil {
		delete(f.world.Sets, name)
		f.world.Pods = slices.DeleteFunc(
			f.world.Pods,
			func(p *corev1.Pod) bool { return metav1.IsControlledBy(p, set) },
		)
	}
	if f.world.Object.Spec.NetworkConfig != nil {
		delete(f.world.Services, name)
	}
}

// statefulSets makes the pods that are missing, and takes away those that are too many.
func (f *fake) statefulSets() bool {
	all := []*appsv1.StatefulSet{}
	if f.world.Leaders != nil {
		all = append(all, f.world.Leaders)
	}
	for _, s := range f.world.Sets {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *appsv1.StatefulSet) int { return strings.Compare(a.Name, b.Name) })
	acted := f.observe()
	for _, s := range all {
		if s != f.world.Leaders && f.world.Sets[s.Name] != s {
			continue // it went with its leader
		}
		start := int32(0)
		if s.Spec.Ordinals != nil {
			start = s.Spec.Ordinals.Start
		}
		wanted := map[string]bool{}
		for i := start; i < start+*s.Spec.Replicas; i++ {
			name := fmt.Sprintf("%s-%d", s.Name, i)
			wanted[name] = true
			if f.pod(name) != nil {
				continue
			}
			template := &s.Spec.Template
			if old := f.old[s.Name]; s == f.world.Leaders && i < partitionOf(s) && old != nil {
				template = old
			}
			f.world.Pods = append(f.world.Pods, f.podOf(s, name, template))
			acted = true
		}
		for _, p := range slices.Clone(f.world.Pods) {
			if metav1.IsControlledBy(p, s) && !wanted[p.Name] {
				f.remove(p.Name)
				acted = true
			}
		}
	}
	return acted
}

// observe writes the status of the set of leaders: once all are of its template it makes
// no others.
func (f *fake) observe() bool {
	l := f.world.Leaders
	if l == nil {
		return false
	}
	was := l.Status
	l.Status.ObservedGeneration, l.Status.UpdateRevision = l.Generation, revisionOf(&l.Spec.Template)
	if l.Status.CurrentRevision == "" {
		l.Status.CurrentRevision = l.Status.UpdateRevision
	}
	n := int32(0)
	for _, p := range f.world.Pods {
		if metav1.IsControlledBy(p, l) && revisionOf(p) == l.Status.UpdateRevision && isReady(p) {
			n++
		}
	}
	if n == *l.Spec.Replicas {
		l.Status.CurrentRevision = l.Status.UpdateRevision
		delete(f.old, l.Name)
	}
	return was.CurrentRevision != l.Status.CurrentRevision ||
		was.ObservedGeneration != l.Status.ObservedGeneration
}

func (f *fake) podOf(s *appsv1.StatefulSet, name string, template *corev1.PodTemplateSpec) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Namespace, p.Name, p.UID = s.Namespace, name, f.uid()
	p.OwnerReferences = ownedBy(s, "apps/v1", "StatefulSet")
	id := Identify(p, s.Namespace)
	if id == nil {
		f.t.Fatalf("pod %s has no place", name)
	}
	if f.answers != nil {
		id = f.answers(p)
	}
	if id != nil {
		p.Labels = merged(p.Labels, id.Labels)
	}
	p.Status.Phase = corev1.PodPending
	return p
}

func (f *fake) pod(name string) *corev1.Pod {
	i := slices.IndexFunc(f.world.Pods, func(p *corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return f.world.Pods[i]
}

// run makes the pods that wait ready.
func (f *fake) run() bool {
	acted := false
	for _, p := range f.world.Pods {
		if p.Status.Phase == corev1.PodPending && !f.held {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			acted = true
		}
	}
	return acted
}

// settle goes on until nothing is left to do.
func (f *fake) settle() {
	f.t.Helper()
	for range 200 {
		a := f.step()
		b := f.statefulSets()
		c := f.run()
		if !a && !b && !c {
			return
		}
	}
	f.t.Fatalf("it comes to no end: %v", f.done[len(f.done)-10:])
}

func (f *fake) names() []string {
	var out []string
	for _, p := range f.world.Pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

const workerOnly = "workerTemplate: {spec: {containers: [{name: c, image: i}]}}"

func template(more string) string {
	return "{replicas: 2, leaderWorkerTemplate: {size: 3, " + workerOnly + "}" + more + "}"
}

// TestNext tells stories: what happens, and what is done about it.
func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		why, spec string
		then      func(f *fake)
		want      []string
	}{
		"new": {
			"a set of leaders, a set of workers for each", template(""), nil,
			[]string{"template 1", "service s", "set s", "set s-0", "set s-1", "complete s-0", "complete s-1"},
		},
		"alone": {
			"a leader without workers", "{leaderWorkerTemplate: {" + workerOnly + "}}", nil, []string{"template 1", "service s", "set s"},
		},
		"own subdomains": {
			"each group has a service of its own", "{replicas: 1, networkConfig: {subdomainPolicy: UniquePerReplica}, leaderWorkerTemplate: {size: 2, " + workerOnly + "}}", nil,
			[]string{"template 1", "set s", "service s-0", "set s-0", "complete s-0"},
		},
		"worker lost": {
			"the group is one", template(""), func(f *fake) { f.remove("s-1-2") },
			[]string{"recreate s-1: A pod of group 1 was replaced", "set s-1", "complete s-1"},
		},
		"worker replaced meanwhile": {
			"whoever looked away then", template(""), func(f *fake) {
				f.remove("s-0-1")
				f.statefulSets()
				f.run()
			},
			[]string{"recreate s-0: A pod of group 0 was replaced", "set s-0", "complete s-0"},
		},
		"worker going": {
			"it need not be waited for", template(""), func(f *fake) { f.pod("s-0-1").DeletionTimestamp = &metav1.Time{} },
			[]string{"recreate s-0: A pod of group 0 has ended", "set s-0", "complete s-0"},
		},
		"leader going": {
			"its group goes with it", template(""), func(f *fake) { f.pod("s-0").DeletionTimestamp = &metav1.Time{} }, nil,
		},
		"container restarted": {
			"its others would wait for it", template(""), func(f *fake) {
				f.pod("s-0-2").Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
			},
			[]string{"recreate s-0: A container of group 0 has started again", "set s-0", "complete s-0"},
		},
		"init container restarted": {
			"it counts, too", template(""), func(f *fake) {
				f.pod("s-0").Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}}
			},
			[]string{"recreate s-0: A container of group 0 has started again", "set s-0", "complete s-0"},
		},
		"policy None": {
			"its author wants it so", strings.Replace(template(""), "size: 3", "size: 3, restartPolicy: None", 1), func(f *fake) { f.remove("s-1-2") }, nil,
		},
		"policy Default": {
			"an older name of None", strings.Replace(template(""), "size: 3", "size: 3, restartPolicy: Default", 1), func(f *fake) { f.remove("s-1-2") }, nil,
		},
		"scaled up":   {"another group", template(""), func(f *fake) { f.world.Object.Spec.Replicas = new(int32(3)) }, []string{"leaders: 3 from 0", "set s-2", "complete s-2"}},
		"scaled down": {"the last goes", template(""), func(f *fake) { f.world.Object.Spec.Replicas = new(int32(1)) }, []string{"leaders: 1 from 0"}},
		"set of workers deleted": {
			"its pods went with it", template(""), func(f *fake) {
				f.world.Pods = slices.DeleteFunc(f.world.Pods, func(p *corev1.Pod) bool { return metav1.IsControlledBy(p, f.world.Sets["s-0"]) })
				delete(f.world.Sets, "s-0")
			},
			[]string{"set s-0", "complete s-0"},
		},
		"changed": {
			"one group after the other, the last first", template(""), change,
			[]string{
				"template 2", "leaders: 2 from 1", "recreate s-1: The template of group 1 has changed", "set s-1",
				"leaders: 2 from 0", "complete s-1", "recreate s-0: The template of group 0 has changed", "set s-0", "complete s-0", "forget a template",
			},
		},
		"restart policy changed": {
			"nothing is made anew for it", template(""), func(f *fake) { f.world.Object.Spec.LeaderWorkerTemplate.RestartPolicy = api.NoRestart }, nil,
		},
		"retention of volumes": {
			"it is for those that there are, too", strings.Replace(template(""), "size: 3", "size: 3, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}", 1), func(f *fake) {
				if p := f.world.Leaders.Spec.PersistentVolumeClaimRetentionPolicy; p == nil || p.WhenDeleted != "Delete" {
					f.t.Errorf("the leaders' volumes: %v", p)
				}
				f.world.Object.Spec.LeaderWorkerTemplate.PersistentVolumeClaimRetentionPolicy.WhenDeleted = "Retain"
			},
			[]string{"leaders: 2 from 0"},
		},
		"changed, partition": {
			"those below stay, and come again as they were", template(", rolloutStrategy: {rollingUpdateConfiguration: {partition: 1}}"), func(f *fake) {
				change(f)
				f.settle()
				f.done = nil
				f.remove("s-0")
			},
			[]string{"set s-0", "complete s-0"},
		},
		"changed, surge": {
			"no group is missing meanwhile", template(", rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 1, maxUnavailable: 0}}"), change,
			[]string{
				"template 2", "leaders: 3 from 2", "set s-2", "leaders: 3 from 1", "complete s-2", "recreate s-1: The template of group 1 has changed", "set s-1",
				"leaders: 3 from 0", "complete s-1", "recreate s-0: The template of group 0 has changed", "set s-0", "leaders: 2 from 0", "complete s-0", "forget a template",
			},
		},
		"changed while broken": {
			"what does not serve is replaced at once", template(""), func(f *fake) {
				for _, p := range f.world.Pods {
					p.Status.Conditions = nil
				}
				change(f)
			},
			[]string{
				"template 2", "leaders: 2 from 0", "recreate s-0: The template of group 0 has changed", "recreate s-1: The template of group 1 has changed",
				"set s-0", "set s-1", "complete s-0", "complete s-1", "forget a template",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, parse(t, tc.spec))
			f.settle()
			if tc.then != nil {
				f.done = nil
				tc.then(f)
				f.settle()
			}
			if diff := cmp.Diff(tc.want, f.done); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// change gives the set another image.
func change(f *fake) {
	f.uids++
	f.world.Object.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = fmt.Sprint(
		"image-",
		f.uids,
	)
	f.world.Object.Generation++
}

// TestMembers: who a group consists of is remembered whatever order they are seen in, and how
// often they had started again.
func TestMembers(t *testing.T) {
	one, two := &corev1.Pod{}, &corev1.Pod{}
	one.UID, two.UID = "1", "2"
	all := []*corev1.Pod{one, two}
	is := members(all, 3)
	if again := members(
		[]*corev1.Pod{two, one},
		4,
	); !sameMembers(is, again) || remembered(is) != 3 ||
		remembered(again) != 4 {
		t.Errorf("remembered are %q, and then %q", is, again)
	}
	if sameMembers(is, members(all[:1], 3)) {
		t.Error("one is gone, and nobody notices")
	}
	for _, odd := range []string{"", "abc", "abc x"} {
		if n := remembered(odd); n != 0 {
			t.Errorf("of %q %d starts are remembered", odd, n)
		}
	}
	odd := &appsv1.ControllerRevision{}
	odd.Data.Raw = []byte("{")
	if _, _, err := (&Observed{Revisions: []*appsv1.ControllerRevision{odd}}).templates(); err == nil {
		t.Error("a record that cannot be read is none of those that are there")
	}
	if n := Replicas(&api.LeaderWorkerSet{}); n != 1 {
		t.Errorf("without a number a set has %d groups", n)
	}
}

// TestLeaderReady: workers come once their leader is ready.
func TestLeaderReady(t *testing.T) {
	f := newFake(t, parse(t, template(", startupPolicy: LeaderReady")))
	f.held = true
	f.settle()
	if diff := cmp.Diff([]string{"s-0", "s-1"}, f.names()); diff != "" {
		t.Errorf("leaders first (-want +got):\n%s", diff)
	}
	f.held = false
	f.settle()
	if diff := cmp.Diff([]string{"s-0", "s-0-1", "s-0-2", "s-1", "s-1-1", "s-1-2"}, f.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The workers of a group are as many as it has, whoever scales their StatefulSet: its quota is for
// all of them.
func TestWorkersStayAsMany(t *testing.T) {
	f := newFake(t, parse(t, template("")))
	f.settle()
	all := f.names()
	for _, n := range []int32{0, 9} {
		f.done = nil
		f.world.Sets["s-1"] = f.world.Sets["s-1"].DeepCopy()
		f.world.Sets["s-1"].Spec.Replicas = &n
		f.settle()
		if !slices.Contains(f.done, "workers of s-1: 2") || slices.Contains(f.done, "workers of s-0: 2") ||
			*f.world.Sets["s-1"].Spec.Replicas != 2 {
			t.Errorf("scaled to %d, done: %v", n, f.done)
		}
		if diff := cmp.Diff(all, f.names()); diff != "" {
			t.Errorf("scaled to %d (-want +got):\n%s", n, diff)
		}
	}
}

// TestAfterStart: a group that never ran as a whole is not made anew.
func TestAfterStart(t *testing.T) {
	f := newFake(
		t,
		parse(t, strings.Replace(template(""), "size: 3", "size: 3, restartPolicy: RecreateGroupAfterStart", 1)),
	)
	f.held = true
	f.settle()
	f.pod("s-0-1").Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}}
	f.remove("s-1-1")
	f.done = nil
	f.settle()
	if len(f.done) > 0 {
		t.Errorf("while it starts, done: %v", f.done)
	}
	f.held = false
	f.settle()
	f.done = nil
	f.settle()
	if len(f.done) > 0 {
		t.Errorf("what started again before is forgiven, done: %v", f.done)
	}
	f.pod("s-0-1").Status.ContainerStatuses[0].RestartCount++
	f.settle()
	if !slices.Contains(f.done, "recreate s-0: A container of group 0 has started again") {
		t.Errorf("it has started, done: %v", f.done)
	}
}

// TestStatus is what people see.
func TestStatus(t *testing.T) {
	f := newFake(t, parse(t, template("")))
	check := func(when string, replicas, ready, updated int32, conditions ...string) {
		t.Helper()
		f.step()
		s := f.world.Object.Status
		var holds []string
		for _, c := range s.Conditions {
			if c.ObservedGeneration != f.world.Object.Generation && c.Status == metav1.ConditionTrue {
				t.Errorf("%s: %s is of generation %d", when, c.Type, c.ObservedGeneration)
			}
			if c.Status == metav1.ConditionTrue {
				holds = append(holds, c.Type+" "+c.Reason)
			}
		}
		if s.Replicas != replicas || s.ReadyReplicas != ready || s.UpdatedReplicas != updated ||
			!slices.Equal(holds, conditions) {
			t.Errorf(
				"%s: %d groups, %d ready, %d updated, %v",
				when,
				s.Replicas,
				s.ReadyReplicas,
				s.UpdatedReplicas,
				holds,
			)
		}
	}
	check("new", 0, 0, 0, "Progressing GroupsProgressing")
	f.settle()
	check("settled", 2, 2, 2, "Available AllGroupsReady")
	if want := "leaderworkerset.sigs.k8s.io/name=s,leaderworkerset.sigs.k8s.io/worker-index=0"; f.world.Object.Status.HPAPodSelector != want ||
		f.world.Object.Status.ObservedGeneration != 1 {
		t.Errorf("status %+v", f.world.Object.Status)
	}
	f.pod("s-1-1").Status.Conditions = nil
	check("a worker is not ready", 2, 1, 2, "Progressing GroupsProgressing")
	f.run()
	f.pod("s-1-1").Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	change(f)
	check("changed", 2, 2, 0, "Progressing GroupsProgressing", "UpdateInProgress GroupsUpdating")
	f.held = true
	f.settle()
	check(
		"its first successor starts",
		2,
		1,
		1,
		"Progressing GroupsProgressing",
		"UpdateInProgress GroupsUpdating",
	)
	f.held = false
	f.settle()
	check("updated", 2, 2, 2, "Available AllGroupsReady")
	if meta.FindStatusCondition(f.world.Object.Status.Conditions, api.UpdateInProgress) == nil {
		t.Error("UpdateInProgress is False, and not gone")
	}
	f.world.Object.Spec.Replicas = new(int32(1))
	f.pod("s-0-1").Status.Conditions = nil
	check("scaled down, and the group that stays is not ready", 2, 1, 2, "Progressing GroupsProgressing")
}

// TestLimits: shares are of replicas.
func TestLimits(t *testing.T) {
	share := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	for name, tc := range map[string]struct {
		c                         *api.RollingUpdateConfiguration
		first, unavailable, surge int32
	}{
		"nothing said":  {nil, 0, 1, 0},
		"defaults":      {&api.RollingUpdateConfiguration{}, 0, 1, 0},
		"numbers":       {&api.RollingUpdateConfiguration{MaxUnavailable: share("2"), MaxSurge: share("3"), Partition: new(int32(4))}, 4, 2, 3},
		"shares":        {&api.RollingUpdateConfiguration{MaxUnavailable: share("25%"), MaxSurge: share("25%")}, 0, 2, 3},
		"a small share": {&api.RollingUpdateConfiguration{MaxUnavailable: share("1%")}, 0, 1, 0},
		"beyond":        {&api.RollingUpdateConfiguration{Partition: new(int32(40))}, 10, 1, 0},
	} {
		l := &api.LeaderWorkerSet{}
		l.Spec.Replicas, l.Spec.RolloutStrategy.RollingUpdateConfiguration = new(int32(10)), tc.c
		if first, unavailable, surge := limits(
			l,
		); first != tc.first || unavailable != tc.unavailable ||
			surge != tc.surge {
			t.Errorf("%s: from %d, %d missing, %d more", name, first, unavailable, surge)
		}
	}
}

// TestQueueing: each group is one pod group of all its pods.
func TestQueueing(t *testing.T) {
	f := newFake(
		t,
		parse(
			t,
			"{replicas: 2, leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {containers: [{name: c}]}}, "+workerOnly+"}}",
		),
	)
	f.settle()
	groups := map[string]int{}
	for _, p := range f.world.Pods {
		groups[p.Labels[kueue.PodGroupNameLabel]]++
		if p.Labels[kueue.QueueNameLabel] != "q" || p.Annotations[kueue.PodGroupTotalCountAnnotation] != "3" ||
			p.Annotations[kueue.PodGroupServingAnnotation] != "true" ||
			p.Annotations[kueue.PodSuspendingParentAnnotation] != Framework {
			t.Errorf("pod %s: labels %v, annotations %v", p.Name, p.Labels, p.Annotations)
		}
		role := map[bool]string{true: "leader", false: "worker"}[p.Labels[api.WorkerIndexLabel] == "0"]
		if p.Annotations[kueue.RoleHashAnnotation] != role {
			t.Errorf("pod %s has the role %s, want %s", p.Name, p.Annotations[kueue.RoleHashAnnotation], role)
		}
	}
	if diff := cmp.Diff(map[string]int{GroupName("s", 0): 3, GroupName("s", 1): 3}, groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPartOfAJob: what is counted with an AppWrapper is not queued again.
func TestPartOfAJob(t *testing.T) {
	l := parse(t, template(""))
	l.Spec.LeaderWorkerTemplate.WorkerTemplate.Annotations = map[string]string{kueue.WorkloadAnnotation: "w"}
	f := newFake(t, l)
	f.settle()
	for _, p := range f.world.Pods {
		if p.Labels[kueue.PodGroupNameLabel] != "" || p.Labels[kueue.QueueNameLabel] != "" ||
			p.Annotations[kueue.WorkloadAnnotation] != "w" ||
			p.Labels[api.GroupKeyLabel] == "" {
			t.Errorf("pod %s: labels %v, annotations %v", p.Name, p.Labels, p.Annotations)
		}
	}
}

// TestTemplatesHaveTheLabelsThatPeopleKnow: labels of pod templates are the author's and those that
// the original gives them; what mlbatch has to know besides is in annotations, whatever the author
// wrote there.
func TestTemplatesHaveTheLabelsThatPeopleKnow(t *testing.T) {
	const spec = "{replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {labels: {app: a, mlbatch.dev/user: mallory}, annotations: {mlbatch.dev/user: mallory}}, spec: {containers: [{name: c}]}}}}"
	for user, want := range map[string]string{"alice": "alice", "system:serviceaccount:blue:ci": "system:serviceaccount:blue:ci", "": ""} {
		l := parse(t, spec)
		l.Labels = nil
		jobs.SetUser(l, user)
		f := newFake(t, l)
		f.settle()
		hash := Of(l).Hash()
		for of, labels := range map[*appsv1.StatefulSet]map[string]string{
			f.world.Leaders:     {"app": "a", api.NameLabel: "s", api.WorkerIndexLabel: "0", api.RevisionLabel: hash},
			f.world.Sets["s-0"]: {"app": "a", api.NameLabel: "s", api.GroupIndexLabel: "0", api.GroupKeyLabel: groupKey("blue", "s-0"), api.RevisionLabel: hash},
		} {
			if diff := cmp.Diff(labels, of.Spec.Template.Labels); diff != "" {
				t.Errorf("%s of %q (-want +got):\n%s", of.Name, user, diff)
			}
			if notes := of.Spec.Template.Annotations; notes[Ours] != "true" || notes[jobs.UserLabel] != want {
				t.Errorf("%s of %q: annotations %v", of.Name, user, notes)
			}
		}
	}
}

// earlier is an object as earlier programs write it: what is in annotations now is in labels.
func earlier(o metav1.Object) {
	notes := maps.Clone(o.GetAnnotations())
	delete(notes, Ours)
	delete(notes, jobs.UserLabel)
	o.SetAnnotations(notes)
	o.SetLabels(merged(o.GetLabels(), map[string]string{Ours: "true", jobs.UserLabel: "alice"}))
}

// TestPodsHaveTheirPlacesWhileProgramsAreReplaced: whichever of two programs wrote a template, and whichever
// answers for the pods at first, all pods of a set have their places in the end.
func TestPodsHaveTheirPlacesWhileProgramsAreReplaced(t *testing.T) {
	webhooks := map[string]func(p *corev1.Pod) *Identity{
		"new": nil,
		"old": func(p *corev1.Pod) *Identity { // it knows the pods of sets by a label
			if p.Labels[Ours] != "true" {
				return nil
			}
			return Identify(p, p.Namespace)
		},
	}
	for _, templates := range []string{"new", "old"} {
		for answers, webhook := range webhooks {
			for _, policy := range []string{"RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"} {
				t.Run(templates+" templates, "+answers+" webhooks, "+policy, func(t *testing.T) {
					f := newFake(
						t,
						parse(
							t,
							"{replicas: 2, leaderWorkerTemplate: {size: 3, restartPolicy: "+policy+", workerTemplate: {spec: {containers: [{name: c}]}}}}",
						),
					)
					f.answers = webhook
					for range 5 {
						f.step()
						if templates == "old" && f.world.Leaders != nil {
							earlier(&f.world.Leaders.Spec.Template)
							for _, s := range f.world.Sets {
								earlier(&s.Spec.Template)
							}
						}
						f.statefulSets()
						f.run()
					}
					f.answers = nil // the last of the old ones has ended
					f.settle()
					if len(f.world.Pods) != 6 {
						t.Fatalf("there are %v", f.names())
					}
					for _, p := range f.world.Pods {
						for key, want := range Identify(p, "blue").Labels {
							if p.Labels[key] != want {
								t.Errorf("%s has %s=%q, want %q", p.Name, key, p.Labels[key], want)
							}
						}
					}
				})
			}
		}
	}
}

// TestTemplatesOfAnEarlierProgramStay: groups whose templates say in labels what is in annotations
// now are as they should be, and not made anew.
func TestTemplatesOfAnEarlierProgramStay(t *testing.T) {
	f := newFake(t, parse(t, template("")))
	jobs.SetUser(f.world.Object, "alice")
	f.settle()
	earlier(&f.world.Leaders.Spec.Template)
	for _, s := range f.world.Sets {
		earlier(&s.Spec.Template)
	}
	for _, p := range f.world.Pods {
		earlier(p)
	}
	f.done = nil
	if f.step() {
		t.Fatalf("with templates of an earlier program: %v", f.done)
	}
	gone := f.world.Pods[0].Name
	f.remove(gone)
	f.settle() // what is made of such a template has its place
	if p := f.pod(gone); p == nil || p.Labels[Ours] != "true" || p.Labels[api.GroupKeyLabel] == "" {
		t.Errorf("%s is not there again: %+v", gone, p)
	}
	change(f)
	f.settle()
	if is := f.world.Leaders.Spec.Template.Labels; is[Ours] != "" || is[jobs.UserLabel] != "" {
		t.Errorf("a new template has the labels %v", is)
	}
}

// TestMoreGroupsAreMadeForThoseThatMayNotBeMissing: as many groups as maxUnavailable says are
// replaced without others in their stead.
func TestMoreGroupsAreMadeForThoseThatMayNotBeMissing(t *testing.T) {
	for _, tc := range []struct{ replicas, unavailable, surge, want int }{
		{4, 1, 4, 7}, {4, 0, 4, 8}, {4, 1, 1, 5}, {4, 0, 1, 5}, {3, 2, 2, 4}, {2, 2, 1, 2}, {1, 1, 1, 1}, {4, 1, 0, 4},
	} {
		f := newFake(t, parse(t, template("")))
		l := f.world.Object
		l.Spec.Replicas = new(int32(tc.replicas))
		l.Spec.RolloutStrategy.RollingUpdateConfiguration = &api.RollingUpdateConfiguration{
			MaxUnavailable: new(intstr.FromInt(tc.unavailable)),
			MaxSurge:       new(intstr.FromInt(tc.surge)),
		}
		f.settle()
		change(f)
		most := int32(0)
		for range 100 {
			if !f.step() && !f.statefulSets() && !f.run() {
				break
			}
			most = max(most, *f.world.Leaders.Spec.Replicas)
		}
		if most != int32(tc.want) {
			t.Errorf("of %+v there are %d groups at most", tc, most)
		}
	}
}

// TestStatefulSetsThatSomebodyWroteToAreQueuedWithTheirGroups: a webhook puts into a StatefulSet that
// a user writes to by what those of users are queued; its pods would be of no group of the set.
func TestStatefulSetsThatSomebodyWroteToAreQueuedWithTheirGroups(t *testing.T) {
	f := newFake(
		t,
		parse(t, "{replicas: 2, leaderWorkerTemplate: {size: 2, restartPolicy: None, "+workerOnly+"}}"),
	)
	f.settle()
	for of, is := range map[string]func() *appsv1.StatefulSet{
		"the leaders": func() *appsv1.StatefulSet { return f.world.Leaders }, "workers": func() *appsv1.StatefulSet { return f.world.Sets["s-1"] },
	} {
		for what, write := range map[string]func(*corev1.PodTemplateSpec){
			"parent": func(p *corev1.PodTemplateSpec) { p.Annotations[kueue.PodSuspendingParentAnnotation] = "statefulset" },
			"group":  func(p *corev1.PodTemplateSpec) { p.Labels[kueue.PodGroupNameLabel] = "statefulset-s" },
		} {
			was := is().Spec.Template.DeepCopy()
			write(&is().Spec.Template)
			f.done = nil
			f.step()
			if diff := cmp.Diff(was, &is().Spec.Template); diff != "" {
				t.Errorf("%s, %s (-was +is):\n%s", of, what, diff)
			}
			if f.step() {
				t.Errorf("%s, %s: then %v", of, what, f.done)
			}
		}
	}
}
