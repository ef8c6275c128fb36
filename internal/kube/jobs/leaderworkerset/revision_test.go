package leaderworkerset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// unqueued reads a set that names no queue from its spec.
func unqueued(t testing.TB, spec string) *api.LeaderWorkerSet {
	t.Helper()
	l := parse(t, spec)
	l.Labels = nil
	return l
}

// TestTemplatesAreCalledAsByTheOriginal: what names the pods of a template is what the
// original computes of the same set.
func TestTemplatesAreCalledAsByTheOriginal(t *testing.T) {
	for spec, want := range map[string]string{
		"{leaderWorkerTemplate: {workerTemplate: {spec: {containers: [{name: c, image: x}]}}}}": "7bf8485b9d",
		"{leaderWorkerTemplate: {size: 2, restartPolicy: None, workerTemplate: {spec: {containers: [{name: c, image: x, resources: {limits: {google.com/tpu: 4}}}]}}, " +
			"leaderTemplate: {metadata: {labels: {a: b}}, spec: {containers: [{name: l, image: 'y<z'}]}}, subGroupPolicy: {subGroupSize: 2}}, networkConfig: {subdomainPolicy: UniquePerReplica}}": "7df577b59b",
		"{leaderWorkerTemplate: {size: 1, workerTemplate: {spec: {containers: [{name: c, image: x}]}}, volumeClaimTemplates: [{metadata: {name: v}, " +
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}": "658dcf74b5",
	} {
		if got := Of(unqueued(t, spec)).Hash(); got != want {
			t.Errorf("%s is called %s, want %s", spec, got, want)
		}
	}
}

// TestTemplatesThatSayMore: a queue or a topology is part of the template, and of what it is called.
func TestTemplatesThatSayMore(t *testing.T) {
	plain := unqueued(t, template(""))
	for what, change := range map[string]func(*api.LeaderWorkerSet){
		"queue":    func(l *api.LeaderWorkerSet) { l.Labels = map[string]string{kueue.QueueNameLabel: "q"} },
		"priority": func(l *api.LeaderWorkerSet) { l.Labels = map[string]string{kueue.PriorityClassLabel: "p"} },
		"topology": func(l *api.LeaderWorkerSet) {
			l.Annotations = map[string]string{api.ExclusiveTopologyAnnotation: "rack"}
		},
		"topology of parts": func(l *api.LeaderWorkerSet) {
			l.Annotations = map[string]string{api.SubGroupExclusiveTopologyAnnotation: "rack"}
		},
	} {
		l := plain.DeepCopy()
		change(l)
		if got := Of(l).Hash(); got == Of(plain).Hash() || got != Of(l).fingerprint() {
			t.Errorf("%s: called %s, and %s without", what, got, Of(plain).Hash())
		}
	}
}

// TestRecordedTemplatesKeepTheirName: groups stay that were made of what the template says,
// whatever it was called then, and no template is called what another is.
func TestRecordedTemplatesKeepTheirName(t *testing.T) {
	l := unqueued(t, template(""))
	f := newFake(t, l)
	r, err := revision(l, Of(l), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Name, r.Labels[api.RevisionLabel] = RevisionName(l.Name, "older"), "older"
	f.world.Revisions = []*appsv1.ControllerRevision{r}
	f.settle()
	for _, p := range f.world.Pods {
		if revisionOf(p) != "older" {
			t.Errorf("%s is of %s", p.Name, revisionOf(p))
		}
	}
	if n := len(f.world.Revisions); n != 1 {
		t.Errorf("%d templates are recorded", n)
	}

	l.Spec.LeaderWorkerTemplate.RestartPolicy = api.NoRestart // no pod is another by it
	if f.settle(); f.world.Leaders.Labels[api.RevisionLabel] != "older" {
		t.Errorf(
			"groups are replaced by %s as the restart policy changed",
			f.world.Leaders.Labels[api.RevisionLabel],
		)
	}

	taken := l.DeepCopy()
	taken.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = "another"
	other := Of(l)
	other.key = Of(taken).Hash()
	if got := Of(
		taken,
	).recorded(
		map[string]*Template{other.key: other},
	); got.Hash() == other.key ||
		got.fingerprint() != Of(taken).fingerprint() {
		t.Errorf("two templates are called %s", got.Hash())
	}
}
