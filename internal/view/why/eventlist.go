package why

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Event is an event in one line.
type Event struct {
	// At is when it happened last, and First when first, if it happened several times.
	At    time.Time  `json:"at"`
	First *time.Time `json:"first,omitempty"`
	// Namespace, Kind and Name are those of the object that it happened to.
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Type is Normal or Warning, Reason its code, Message says it in words.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Times is how often it happened.
	Times int `json:"times"`
}

// EventOf reads an event.
func EventOf(e *corev1.Event) Event {
	row := Event{
		At: gather.When(e).UTC(), Namespace: e.Namespace, Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name,
		Type: e.Type, Reason: e.Reason, Message: e.Message, Times: max(1, int(e.Count)),
	}
	first := e.FirstTimestamp.Time
	if e.Series != nil {
		row.Times, first = int(e.Series.Count), e.EventTime.Time
	}
	if row.Times > 1 && !first.IsZero() {
		row.First = new(first.UTC())
	}
	return row
}

// Events are the events of a namespace, or of all, or of one job.
type Events struct {
	c         client.Reader
	namespace string
	job       *JobObjects
	parts     map[string]bool
	names     *jobNames
	// begun is when the job was created: an earlier one may have had its name.
	begun  time.Time
	looked time.Time
}

// ReadEvents prepares the events of a job, which is found again as its parts come and go, or, if
// job is nil, of a namespace; "" is all.
func ReadEvents(ctx context.Context, c client.Reader, namespace string, job *JobObjects) (*Events, error) {
	l := &Events{c: c, namespace: namespace, job: job}
	if job == nil {
		return l, nil
	}
	l.namespace = job.Asked.Namespace
	if root := job.Root(); root != nil {
		l.begun = root.GetCreationTimestamp().Time
	}
	return l, l.look(ctx)
}

// look finds what the job consists of now. What it consisted of before stays.
func (l *Events) look(ctx context.Context) error {
	if err := l.job.findWorkload(ctx, l.c); err != nil {
		return err
	}
	l.job.Pods = nil
	if err := l.job.findPods(ctx, l.c); err != nil {
		return err
	}
	parts, err := l.job.makers(ctx, l.c)
	if err != nil {
		return err
	}
	if w := l.job.Workload; w != nil {
		parts[string(view.KindWorkload)+"/"+w.Name] = true
	}
	for i := range l.job.Pods {
		parts[string(view.KindPod)+"/"+l.job.Pods[i].Name] = true
	}
	for part := range l.parts {
		parts[part] = true
	}
	l.parts = parts
	return nil
}

// List are the events so far that happened at since or later, the oldest first, and the version
// of the list, from which a watch goes on.
func (l *Events) List(ctx context.Context, since time.Time) ([]Event, string, error) {
	var all corev1.EventList
	if err := l.c.List(ctx, &all, client.InNamespace(l.namespace)); err != nil {
		return nil, "", fmt.Errorf("list events: %w", err)
	}
	l.adoptMade(all.Items)
	var out []Event
	for i := range all.Items {
		if e := &all.Items[i]; l.ours(e) && !gather.When(e).Before(since) {
			out = append(out, EventOf(e))
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int {
		return cmp.Or(
			a.At.Compare(b.At),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out, all.ResourceVersion, l.nameJobs(ctx, out)
}

// relook is how often the parts of a job are looked for at most while its events are followed.
const relook = time.Second

// Next is the line of an event that a watch brought; false if it is about something else. now
// bounds how often it asks the cluster what the job consists of.
func (l *Events) Next(ctx context.Context, e *corev1.Event, now time.Time) (Event, bool, error) {
	l.adoptMade([]corev1.Event{*e})
	if !l.ours(e) && now.Sub(l.looked) >= relook {
		l.looked = now
		if err := l.look(ctx); err != nil {
			return Event{}, false, err
		}
	}
	if !l.ours(e) {
		return Event{}, false, nil
	}
	rows := []Event{EventOf(e)}
	err := l.nameJobs(ctx, rows)
	return rows[0], true, err
}

// Namespace is where the events are; "" is everywhere.
func (l *Events) Namespace() string { return l.namespace }

func (l *Events) ours(e *corev1.Event) bool {
	return l.job == nil ||
		l.parts[e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name] && !gather.When(e).Before(l.begun)
}

// created is how controllers tell of a pod that they made, which may be gone by now.
var created = regexp.MustCompile(`^(?:\(combined from similar events\): )?Created pod: (\S+)$`)

// adoptMade counts pods among the parts that parts say they made.
func (l *Events) adoptMade(all []corev1.Event) {
	if l.job == nil {
		return
	}
	for i := range all {
		if m := created.FindStringSubmatch(all[i].Message); m != nil && l.ours(&all[i]) {
			l.parts[string(view.KindPod)+"/"+m[1]] = true
		}
	}
}

// strangers are workloads as messages name them: those of other namespaces by UID.
var strangers = regexp.MustCompile(
	`a workload of ClusterQueue (\S+) \(UID: ([^)]+)\)|the workload ([a-z0-9.-]+/[a-z0-9.-]*[a-z0-9])`,
)

// nameJobs puts the names of jobs where messages name their Workloads, for those who may read
// them.
func (l *Events) nameJobs(ctx context.Context, rows []Event) error {
	for i := range rows {
		if !strangers.MatchString(rows[i].Message) {
			continue
		}
		if l.names == nil {
			var err error
			if l.names, err = readJobNames(ctx, l.c, l.namespace); err != nil {
				return err
			}
		}
		rows[i].Message = l.names.in(rows[i].Message)
	}
	return nil
}

// jobNames lead from Workloads, by UID and by NAMESPACE/NAME, to their jobs.
type jobNames struct{ byUID, byName map[string]string }

// in puts the names of jobs into a message.
func (n *jobNames) in(message string) string {
	return strangers.ReplaceAllStringFunc(message, func(found string) string {
		m := strangers.FindStringSubmatch(found)
		if job := n.byName[m[3]]; m[3] != "" {
			return cmp.Or(job, found)
		}
		if job := n.byUID[m[2]]; job != "" {
			return job + " of ClusterQueue " + m[1]
		}
		return found
	})
}

// readJobNames reads those of all Workloads that the user may read: of all namespaces, or else of
// one.
func readJobNames(ctx context.Context, c client.Reader, namespace string) (*jobNames, error) {
	var list kueue.WorkloadList
	err := c.List(ctx, &list)
	if gather.Readable(err) == nil && err != nil && namespace != "" {
		err = c.List(ctx, &list, client.InNamespace(namespace))
	}
	if err := gather.Readable(err); err != nil {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	out := &jobNames{make(map[string]string, len(list.Items)), make(map[string]string, len(list.Items))}
	for i := range list.Items {
		w := &list.Items[i]
		job := string(view.KindWorkload) + " " + w.Namespace + "/" + w.Name
		if owner := metav1.GetControllerOf(w); owner != nil {
			job = owner.Kind + " " + w.Namespace + "/" + owner.Name
		}
		out.byUID[string(w.UID)], out.byName[w.Namespace+"/"+w.Name] = job, job
	}
	return out, nil
}
