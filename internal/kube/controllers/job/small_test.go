package job

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// Pods that are done are told as more and more of them, whatever a job says later.
func TestReclaimableOnlyGrows(t *testing.T) {
	said := func(n int32) []kueue.ReclaimablePod {
		return []kueue.ReclaimablePod{{Name: "main", Count: n}}
	}
	for name, tc := range map[string]struct{ was, is, want int32 }{
		"first":    {0, 1, 1},
		"more":     {1, 2, 2},
		"the same": {2, 2, 2},
		"fewer":    {2, 1, 2},
	} {
		s := facts{
			workload: aWorkload(admitted, func(w *kueue.Workload) { w.Spec.PodSets[0].Count = 4 }),
			facts:    jobs.Facts{PodSets: []kueue.PodSet{{Name: "main", Count: 4}}, Reclaimable: said(tc.is)},
		}
		if tc.was > 0 {
			s.workload.Status.ReclaimablePods = said(tc.was)
		}
		got := s.workload.Status.ReclaimablePods
		if next := reclaim(s).status; next != nil {
			got = next.ReclaimablePods
		}
		if diff := cmp.Diff(said(tc.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A job starts when the PodGroup of Kubernetes is there by which others know its pods as one gang, and without if none
// comes or another has its name, which is told.
func TestStartAwaitsThePodGroup(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		group  admission.PodGroup
		waited time.Duration
		starts bool
		says   string
	}{
		"none is written": {admission.NoPodGroup, 0, true, "clusterQueue cq$"},
		"it is there":     {admission.Written, 0, true, "clusterQueue cq$"},
		"it comes":        {admission.Awaited, groupPatience / 2, false, ""},
		"it does not":     {admission.Awaited, groupPatience, true, "was not written within 10s"},
		"another's":       {admission.Taken, 0, true, "there is another one called job-train"},
	} {
		w := aWorkload(admitted)
		for i := range w.Status.Conditions {
			w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-tc.waited))
		}
		s := facts{
			job: aJob(), adapter: restoring(new(batchjob.Kind())), workload: w, group: tc.group, now: now,
			infos: []jobs.PodSetInfo{{Name: "main", Count: 2, Asked: 2}},
		}
		next, err := start(s)
		if err != nil || (next.job != nil) != tc.starts || tc.starts == (next.again > 0) {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
		if tc.starts && !regexp.MustCompile(tc.says).MatchString(next.tell.message) {
			t.Errorf("%s: it says %s", name, next.tell.message)
		}
	}
}

// TestFewer: a running job that asks for fewer pods than it was admitted with says so, and one
// that asks for all of them again takes it back; while it waits nothing is said.
func TestFewer(t *testing.T) {
	two := int32(2)
	for name, tc := range map[string]struct {
		why  string
		asks []kueue.PodSet
		was  string
		want string
	}{
		"All":     {"", []kueue.PodSet{{Name: "main", Count: 2}}, "", ""},
		"Smaller": {"", []kueue.PodSet{{Name: "main", Count: 1}}, "", "main=1"},
		"None":    {"the group was removed", nil, "", "main=0"},
		"Again":   {"", []kueue.PodSet{{Name: "main", Count: 2}}, "main=1", ""},
	} {
		s := facts{
			workload: aWorkload(admitted, func(w *kueue.Workload) {
				w.Spec.PodSets[0].Count, w.Status.Admission.PodSetAssignments[0].Count = two, &two
				if tc.was != "" {
					w.Annotations = map[string]string{kueue.FewerPodsAnnotation: tc.was}
				}
			}),
			facts: jobs.Facts{
				PodSets: tc.asks,
				Ready:   true,
			},
			now:  now,
			pods: admission.Pods{Of: map[kueue.PodSetReference]int{"main": 2}},
		}
		st := run(s)
		got, said := st.notes[kueue.FewerPodsAnnotation]
		if said != (tc.want != tc.was) || got != tc.want {
			t.Errorf("%s: %s: it notes %q (%v)", name, tc.why, got, said)
		}
		if tc.want == "" {
			continue
		}
		s.workload.Annotations = map[string]string{kueue.FewerPodsAnnotation: got}
		if again := run(s); again.notes != nil {
			t.Errorf("%s: it is noted again: %v", name, again.notes)
		}
		if said := convert.Fewer(s.workload); len(said) != 1 || said["main"] >= two {
			t.Errorf("%s: it is read as %v", name, said)
		}
	}
}

// TestNewRolesAsk: a running job that asks for pods of a role that it was not admitted with is
// stopped, and queued again for all of them; a role without pods needs none, and the same pods under the
// names of another controller are the same.
func TestNewRolesAsk(t *testing.T) {
	for name, tc := range map[string]struct {
		asks []kueue.PodSet
		want bool
	}{
		"Added":    {[]kueue.PodSet{{Name: "main", Count: 2}, {Name: "more", Count: 1}}, true},
		"Empty":    {[]kueue.PodSet{{Name: "main", Count: 2}, {Name: "more"}}, false},
		"Replaced": {[]kueue.PodSet{{Name: "more", Count: 2}}, true},
		"Renamed":  {[]kueue.PodSet{renamed("more", aWorkload(admitted).Spec.PodSets[0])}, false},
		"Same":     {[]kueue.PodSet{{Name: "main", Count: 2}}, false},
	} {
		s := facts{
			job:      aJob(running),
			adapter:  batchjob.Adapter{},
			queue:    "default-queue",
			workload: aWorkload(admitted),
			facts: jobs.Facts{
				PodSets: tc.asks,
				Ready:   true,
			},
			now:  now,
			pods: admission.Pods{Live: 2, Of: map[kueue.PodSetReference]int{"main": 2}},
		}
		st, err := decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.tell != nil && st.tell.reason == "Stopped"; got != tc.want {
			t.Errorf("%s: stopped: %v, want %v", name, got, tc.want)
		}
	}
}

// renamed is a pod set under another name.
func renamed(name kueue.PodSetReference, ps kueue.PodSet) kueue.PodSet {
	ps.Name = name
	return ps
}

// TestShrinksByWhatThereIs: quota of pods that are not asked for any more is given back only once
// the API server has none of them, and the job as it was looked at.
func TestShrinksByWhatThereIs(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "p",
			Labels:      map[string]string{kueue.PodSetLabel: "main"},
			Annotations: map[string]string{kueue.WorkloadAnnotation: "job-train"},
		},
		Spec:   corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for name, tc := range map[string]struct {
		why  string
		live []client.Object
		gone bool
		want int32
	}{
		"TheSame":  {"nothing is left", nil, false, 2},
		"OnePod":   {"the cache does not show it yet", []client.Object{pod}, false, 0},
		"Replaced": {"the job is another one by now", nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := aJob(running, inQueue, noPods)
			w := aWorkload(admitted)
			w.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job")),
			}
			w.Labels = map[string]string{kueue.JobUIDLabel: "u1"}
			b := newBench(t, nil, j, w)
			if !tc.gone {
				tc.live = append(tc.live, aJob(running, inQueue, noPods))
			}
			live := newBench(t, nil, tc.live...)
			b.opts.Live = live.opts.Client
			for range 3 {
				if _, err := b.Reconcile(
					t.Context(),
					reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "train"}},
				); err != nil {
					t.Fatal(err)
				}
			}
			is := b.workloads(t)[0]
			if got := pods(is.Status.ReclaimablePods, "main"); got != tc.want {
				t.Errorf("%s: %d pods are given back, want %d", tc.why, got, tc.want)
			}
		})
	}
}

// The pod that was refused first counts: the others may have been made later.
func TestEarliestRefusal(t *testing.T) {
	pod := func(name string, since time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "blue",
				Name:        name,
				Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{
					Type:               corev1.PodScheduled,
					Status:             corev1.ConditionFalse,
					Reason:             corev1.PodReasonUnschedulable,
					Message:            name,
					LastTransitionTime: metav1.NewTime(now.Add(-since)),
				},
			}},
		}
		for _, c := range change {
			c(p)
		}
		return p
	}
	b := newBench(t, nil, pod("a", time.Minute), pod("b", time.Hour), pod("c", time.Second),
		pod("bound", 2*time.Hour, func(p *corev1.Pod) {
			p.Spec.NodeName = "n"
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}),
		pod("another", 3*time.Hour, func(p *corev1.Pod) { p.Annotations[kueue.WorkloadAnnotation] = "x" }))
	got, err := admission.PodsOf(t.Context(), b.opts.Client, "blue", "w")
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(-time.Hour); !got.Refused.Equal(want) || got.Why != "b" || got.Live != 4 {
		t.Errorf("refused since %v (%s), %d live; want %v (b), 4", got.Refused, got.Why, got.Live, want)
	}
}

// A pod leads to the job of its Workload if that is of the kind at hand.
func TestPodsLeadToTheirJob(t *testing.T) {
	owned := func(name, kind string, controller bool) client.Object {
		w := aWorkload()
		w.Name = name
		w.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: kind, Name: "train", UID: "u1", Controller: &controller},
		}
		return w
	}
	b := newBench(
		t,
		nil,
		owned("ours", "Job", true),
		owned("theirs", "AppWrapper", true),
		owned("loose", "Job", false),
	)
	ours := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "train"}}}
	for name, want := range map[string][]reconcile.Request{"ours": ours, "theirs": nil, "loose": nil, "gone": nil, "": nil} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "blue",
				Annotations: map[string]string{kueue.WorkloadAnnotation: name},
			},
		}
		if diff := cmp.Diff(want, b.jobOfPod(t.Context(), pod)); diff != "" {
			t.Errorf("a pod of Workload %q leads to (-want +got):\n%s", name, diff)
		}
	}
}
