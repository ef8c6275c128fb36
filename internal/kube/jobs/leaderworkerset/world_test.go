package leaderworkerset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// TestWorld: whatever happens in whatever order, no more groups that serve are taken
// away for a new template than may be missing, and in the end all is as it should be.
func TestWorld(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.Int32Range(1, 3).Draw(r, "size")
		f := newFake(t, parse(t, template("")))
		l := f.world.Object
		l.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(r, "replicas"))
		l.Spec.LeaderWorkerTemplate.Size = &size
		l.Spec.LeaderWorkerTemplate.RestartPolicy = rapid.SampledFrom(
			[]api.RestartPolicy{"", api.RecreateGroupAfterStart, api.NoRestart},
		).
			Draw(r, "policy")
		l.Spec.StartupPolicy = rapid.SampledFrom([]api.StartupPolicy{"", api.LeaderReady}).Draw(r, "startup")
		l.Spec.RolloutStrategy.RollingUpdateConfiguration = &api.RollingUpdateConfiguration{
			MaxUnavailable: new(
				intstr.FromInt(rapid.IntRange(0, 2).Draw(r, "maxUnavailable")),
			),
			MaxSurge: new(intstr.FromInt(rapid.IntRange(0, 2).Draw(r, "maxSurge"))),
		}
		f.settle()
		for range rapid.IntRange(1, 40).Draw(r, "length") {
			happen(r, f)
			f.spares(r)
		}
		f.held = false
		f.settle()
		f.isWhole(r)
	})
}

// happen is one thing that happens.
func happen(r *rapid.T, f *fake) {
	l := f.world.Object
	one := func() *corev1.Pod {
		if len(f.world.Pods) == 0 {
			return nil
		}
		return f.world.Pods[rapid.IntRange(0, len(f.world.Pods)-1).Draw(r, "pod")]
	}
	switch rapid.SampledFrom(
		[]string{
			"step",
			"step",
			"sets",
			"run",
			"hold",
			"change",
			"scale",
			"partition",
			"lose",
			"restart",
			"unready",
		},
	).
		Draw(r, "event") {
	case "step":
		f.step()
	case "sets":
		f.statefulSets()
	case "run":
		f.run()
	case "hold":
		f.held = !f.held
	case "change":
		change(f)
	case "scale":
		l.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(r, "replicas"))
	case "partition":
		l.Spec.RolloutStrategy.RollingUpdateConfiguration.Partition = new(
			rapid.Int32Range(0, 4).Draw(r, "partition"),
		)
	case "lose":
		if p := one(); p != nil {
			f.remove(p.Name)
		}
	case "restart":
		if p := one(); p != nil && p.Status.Phase == corev1.PodRunning {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
		}
	case "unready":
		if p := one(); p != nil {
			p.Status.Phase, p.Status.Conditions = corev1.PodPending, nil
		}
	}
}

// spares: the next step takes no more groups away that serve than may be missing.
func (f *fake) spares(r *rapid.T) {
	s, err := Next(f.world)
	if err != nil {
		r.Fatal(err)
	}
	templates, _, err := f.world.templates()
	if err != nil {
		r.Fatal(err)
	}
	is, want := f.world.Leaders, s.Leaders
	if is == nil || want == nil || partitionOf(want) >= partitionOf(is) {
		return // nothing more is replaced
	}
	hash := Of(f.world.Object).recorded(templates).Hash()
	taken, left := 0, 0
	for _, g := range f.world.groups(templates) {
		switch {
		case !g.ready() || g.index >= *want.Spec.Replicas || g.hash != hash && g.index >= min(partitionOf(is), Replicas(f.world.Object)): // gone, or as good as
		case g.hash != hash && g.index >= partitionOf(want):
			taken++
		default:
			left++
		}
	}
	_, unavailable, _ := limits(f.world.Object)
	if taken > 0 && left < int(Replicas(f.world.Object)-unavailable) {
		r.Fatalf(
			"%d groups that serve are taken away, %d are left of %d, and %d may be missing",
			taken,
			left,
			Replicas(f.world.Object),
			unavailable,
		)
	}
}

// isWhole: all groups are there, complete, and those that have to be of the newest
// template are.
func (f *fake) isWhole(r *rapid.T) {
	l := f.world.Object
	first, _, _ := limits(l)
	want := Replicas(l)
	templates, _, err := f.world.templates()
	if err != nil {
		r.Fatal(err)
	}
	hash := Of(l).recorded(templates).Hash()
	groups := f.world.groups(templates)
	pods := int32(0)
	for _, g := range groups {
		pods += 1 + int32(len(g.workers))
		if !g.ready() {
			r.Fatalf("group %d is not ready", g.index)
		}
		if g.index >= first && g.hash != hash {
			r.Fatalf("group %d is of an old template", g.index)
		}
		for _, p := range g.workers {
			if revisionOf(p) != g.hash {
				r.Fatalf("%s is not of the template of its leader", p.Name)
			}
		}
	}
	size := ptr.Deref(l.Spec.LeaderWorkerTemplate.Size, 1)
	if int32(len(groups)) != want || pods != want*size || len(f.world.Pods) != int(pods) {
		r.Fatalf(
			"%d groups of %d pods in all, %d pods, want %d groups of %d",
			len(groups),
			pods,
			len(f.world.Pods),
			want,
			size,
		)
	}
	if l.Status.ReadyReplicas != want || first == 0 && len(f.world.Revisions) != 1 {
		r.Fatalf("status %+v, %d templates", l.Status, len(f.world.Revisions))
	}
}
