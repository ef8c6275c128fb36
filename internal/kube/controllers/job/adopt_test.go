package job

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// deed is a step in words, as far as it chooses among Workloads.
type deed struct {
	Job       bool // the job is written
	Create    bool
	Adopt     bool
	Remove    string // name of the Workload
	Unpin     bool
	Queue     kueue.LocalQueueName // of the Workload's new spec
	Gates     *string
	OutOfSync bool
	Event     string
}

func deedOf(st step) deed {
	d := deed{Job: st.job != nil, Create: st.create, Adopt: st.adopt, Unpin: st.unpin}
	if g, ok := st.notes[kueue.AdmissionGatedByAnnotation]; ok {
		d.Gates = &g
	}
	if st.remove != nil {
		d.Remove = st.remove.Name
	}
	if st.spec != nil {
		d.Queue = st.spec.QueueName
	}
	if st.status != nil {
		c := apimeta.FindStatusCondition(st.status.Conditions, kueue.WorkloadFinished)
		d.OutOfSync = c != nil && c.Reason == kueue.ReasonOutOfSync
	}
	if st.tell != nil {
		d.Event = st.tell.reason
	}
	return d
}

func ownedBy(name, uid string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, UID: "", Controller: new(true)}}
		w.OwnerReferences[0].UID = aJob().UID
		if uid != "" {
			w.OwnerReferences[0].UID = "other"
		}
	}
}

func named(name string) func(*kueue.Workload) { return func(w *kueue.Workload) { w.Name = name } }

func deleting(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} }

func gatedBy(by string) func(*kueue.Workload) {
	return func(w *kueue.Workload) { w.Annotations = map[string]string{kueue.AdmissionGatedByAnnotation: by} }
}

func gatedJob(by string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations = map[string]string{kueue.AdmissionGatedByAnnotation: by} }
}

func wider(j *batchv1.Job) {
	j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3)
}

func shrunk(j *batchv1.Job) {
	j.Annotations = map[string]string{kueue.JobMinParallelismAnnotation: "1"}
	j.Spec.Parallelism = ptr.To[int32](1)
}

func partial(w *kueue.Workload) { w.Spec.PodSets[0].MinCount = ptr.To[int32](1) }

func TestChooseWorkload(t *testing.T) {
	mine := ownedBy("train", "")
	cases := map[string]struct {
		why      string
		job      *batchv1.Job
		workload *kueue.Workload
		prebuilt bool
		extra    *kueue.Workload
		live     int // unfinished pods of the extra one
		nested   bool
		foreign  bool
		whole    *kueue.Workload
		want     deed
	}{
		"prebuilt, not there yet": {
			why:      "it may be made later; none is made instead",
			job:      aJob(),
			prebuilt: true,
			want:     deed{Event: "PrebuiltWorkloadNotFound"},
		},
		"prebuilt, not there, running": {
			why:      "nothing runs before it is admitted",
			job:      aJob(running),
			prebuilt: true,
			want:     deed{Job: true, Event: "Suspended"},
		},
		"prebuilt, of nobody": {
			why:      "it becomes the job's",
			job:      aJob(),
			workload: aWorkload(),
			prebuilt: true,
			want:     deed{Adopt: true},
		},
		"prebuilt, of another job": {
			why:      "two jobs cannot run on one quota",
			job:      aJob(),
			workload: aWorkload(ownedBy("first", "other")),
			prebuilt: true,
			want:     deed{Event: "PrebuiltWorkloadTaken"},
		},
		"prebuilt, of another job, running": {
			why:      "its quota is not this job's",
			job:      aJob(running),
			workload: aWorkload(ownedBy("first", "other"), admitted),
			prebuilt: true,
			want:     deed{Job: true, Event: "Suspended"},
		},
		"prebuilt, in sync": {
			why:      "it waits for admission",
			job:      aJob(),
			workload: aWorkload(mine),
			prebuilt: true,
		},
		"prebuilt, out of sync": {
			why:      "it would run what no quota was given for",
			job:      aJob(wider),
			workload: aWorkload(mine),
			prebuilt: true,
			want:     deed{OutOfSync: true, Event: "OutOfSync"},
		},
		"prebuilt, out of sync with quota": {
			why:      "also after quota was reserved",
			job:      aJob(wider),
			workload: aWorkload(mine, admitted),
			prebuilt: true,
			want:     deed{OutOfSync: true, Event: "OutOfSync"},
		},
		"prebuilt, with a gate": {
			why:      "its author may gate it",
			job:      aJob(),
			workload: aWorkload(mine, gatedBy("acme.com/x")),
			prebuilt: true,
		},
		"another workload besides": {
			why:      "one job has one workload",
			job:      aJob(),
			workload: aWorkload(mine),
			extra:    aWorkload(mine, named("old")),
			want:     deed{Remove: "old", Event: "DeletedWorkload"},
		},
		"another workload goes": {
			why:      "its pods are gone",
			job:      aJob(),
			workload: aWorkload(mine),
			extra:    aWorkload(mine, named("old"), deleting),
			want:     deed{Remove: "old"},
		},
		"another workload's pods still end": {
			why:      "its quota is released when they are gone",
			job:      aJob(),
			workload: aWorkload(mine),
			extra:    aWorkload(mine, named("old"), deleting),
			live:     1,
		},
		"changed after quota was reserved": {
			why:      "it is queued anew for what it asks for now",
			job:      aJob(wider),
			workload: aWorkload(mine, admitted),
			want:     deed{Remove: "job-train", Event: "DeletedWorkload"},
		},
		"pods of a deleted workload still end": {
			why: "a new workload would give them quota",
			job: aJob(stopped, func(j *batchv1.Job) { j.Status.Active = 1 }),
		},
		"workload deleted, job was shrunk": {
			why:      "only the workload knows how many pods the user wanted",
			job:      aJob(stopped, shrunk),
			workload: aWorkload(mine, deleting, partial),
			want:     deed{Job: true},
		},
		"evicted, admitted with fewer pods": {
			why:      "later it is not known what its size was",
			job:      aJob(stopped, shrunk),
			workload: aWorkload(mine, partial, admitted, condition(kueue.WorkloadEvicted, "Preempted")),
			want:     deed{Job: true},
		},
		"resized by its author while it waits again": {
			why:      "the size is its author's once it was restored",
			job:      aJob(stopped, shrunk),
			want:     deed{Queue: "default-queue", Gates: new(""), Event: "UpdatedWorkload"},
			workload: aWorkload(mine, partial, condition(kueue.WorkloadEvicted, "Preempted")),
		},
		"gates fewer": {
			why:      "a gate was opened",
			job:      aJob(gatedJob("acme.com/y")),
			workload: aWorkload(mine, gatedBy("acme.com/x,acme.com/y")),
			want:     deed{Queue: "default-queue", Gates: new("acme.com/y"), Event: "UpdatedWorkload"},
		},
		"gates gone": {
			why:      "the last gate was opened",
			job:      aJob(),
			workload: aWorkload(mine, gatedBy("acme.com/x")),
			want:     deed{Queue: "default-queue", Gates: new(""), Event: "UpdatedWorkload"},
		},
		"part, whole runs": {
			why:    "the controller of the whole starts its parts",
			job:    aJob(running),
			nested: true,
			whole:  aWorkload(admitted),
		},
		"part, whole waits": {
			why:    "a part runs only with the whole",
			job:    aJob(running),
			nested: true,
			whole:  aWorkload(),
			want:   deed{Job: true, Event: "Suspended"},
		},
		"part of a part, not counted": {
			why:     "its pods have places beyond those of the whole",
			job:     aJob(running),
			nested:  true,
			foreign: true,
			whole:   aWorkload(admitted),
			want:    deed{Job: true, Event: "Suspended"},
		},
		"suspended part, whole waits": {why: "all is well", job: aJob(), nested: true, whole: aWorkload()},
		"part, whole ended": {
			why:    "its pods may be kept to be looked at",
			job:    aJob(running),
			nested: true,
			whole:  aWorkload(condition(kueue.WorkloadFinished, "Failed")),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := facts{
				job:       c.job,
				adapter:   batchjob.Adapter{},
				queue:     "default-queue",
				priority:  admission.Priority{Value: ptr.To[int32](5)},
				workload:  c.workload,
				extra:     c.extra,
				extraLive: c.live,
				nested:    c.nested,
				foreign:   c.foreign,
				whole:     c.whole,
				now:       now,
				infos:     []jobs.PodSetInfo{{Name: "main", Count: 2}},
			}
			if c.prebuilt {
				s.prebuilt = "job-train"
			}
			var err error
			if s.facts, err = s.adapter.Read(c.job); err != nil {
				t.Fatal(err)
			}
			got, err := decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, deedOf(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// A Workload ends when no pod counts with it any more: whoever waits would be given what they use.
func TestNothingEndsWhilePodsCountWithIt(t *testing.T) {
	for _, live := range []int{0, 1} {
		s := facts{
			job: aJob(wider), adapter: batchjob.Adapter{}, queue: "default-queue", prebuilt: "job-train",
			workload: aWorkload(ownedBy("train", ""), admitted), pods: admission.Pods{Live: live}, now: now,
		}
		var err error
		if s.facts, err = s.adapter.Read(s.job); err != nil {
			t.Fatal(err)
		}
		got, err := decide(s)
		if err != nil || (got.status != nil) != (live == 0) || (got.again > 0) != (live > 0) {
			t.Errorf("with %d pods: %+v, %v", live, got, err)
		}
	}
}

// A group's Workload is not a job's to take, whatever the job asks for, and neither is one that another
// job has left or that has pods.
func TestNoWorkloadOfOthersIsAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*kueue.Workload)
		pods   int
	}{
		"a group's":       {func(w *kueue.Workload) { w.Annotations = map[string]string{kueue.IsGroupWorkloadAnnotation: "true"} }, 0},
		"a deleted job's": {func(w *kueue.Workload) { w.Labels = map[string]string{kueue.JobUIDLabel: "gone"} }, 0},
		"with pods":       {func(*kueue.Workload) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorkload(admitted)
			w.OwnerReferences = nil
			c.change(w)
			s := facts{
				job:      aJob(),
				adapter:  batchjob.Adapter{},
				prebuilt: w.Name,
				workload: w,
				pods:     admission.Pods{Live: c.pods},
				now:      now,
			}
			var err error
			if s.facts, err = s.adapter.Read(s.job); err != nil {
				t.Fatal(err)
			}
			got, err := decide(s)
			if diff := cmp.Diff(deed{Event: "PrebuiltWorkloadTaken"}, deedOf(got)); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
