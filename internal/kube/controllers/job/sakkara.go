package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// Pods of a job may be a group of Sakkara's, by a label of their templates. As long as the job waits, a ConfigMap of
// its namespace, or one that it has as a component, says how near they are.

const (
	// groupMissingPause is after how long a ConfigMap that is missing or wrong is looked at again, and groupRefresh one
	// by which a job waits in its queue: they are not watched.
	groupMissingPause = 10 * time.Second
	groupRefresh      = 45 * time.Second
	// longestAwaited bounds what is told of a ConfigMap that is wrong, in bytes: it quotes what its author wrote.
	longestAwaited = 900
)

// ofGroup is the group of Sakkara's that pods of a job are of.
type ofGroup struct {
	// name is "" for jobs without, and where nothing says yet how near the pods are.
	name string
	// placed: it says where they are.
	placed bool
	// awaits is what is missing, or wrong; "" if nothing is.
	awaits string
	// again is when to look at the ConfigMap again; 0 for never.
	again time.Duration
}

// joinGroup has pods of a job that waits be placed as the group of Sakkara's says that they are of. Where that is not
// known it is noted what is missing.
func (r *reconciler) joinGroup(ctx context.Context, s *facts) error {
	if w := s.workload; s.prebuilt != "" || w != nil && (w.Status.Admission != nil || convert.Finished(w)) {
		return nil // what it was admitted with holds
	}
	name, err := sakkara.OfJob(s.facts.PodSets)
	if err != nil {
		s.sakkara = awaitsGroup(err.Error())
		return nil // it is told
	}
	if name == "" {
		return nil
	}
	all, err := r.groupMaps(ctx, s)
	if err != nil {
		return err
	}
	found, wrong := admission.OneOf(all, name)
	if wrong != "" {
		s.sakkara = awaitsGroup(wrong)
		return nil
	}
	known, err := r.groups().Levels(ctx)
	if err != nil {
		return err
	}
	g, err := sakkara.ReadGroup(found.Data)
	says := false
	if err == nil {
		says, err = g.Around(s.facts.PodSets, s.facts.Indexes, known)
	}
	if err != nil {
		s.sakkara = awaitsGroup(fmt.Sprintf("ConfigMap %s: %v", found.Name, err))
		return nil
	}
	s.sakkara = ofGroup{name: name, placed: says, again: groupRefresh}
	return nil
}

// placedNote is what a Workload tells of that.
func (g ofGroup) placedNote() string {
	if g.placed {
		return "true"
	}
	return ""
}

func awaitsGroup(why string) ofGroup {
	if len(why) > longestAwaited {
		why = strings.ToValidUTF8(why[:longestAwaited], "") + " ..."
	}
	return ofGroup{awaits: why, again: groupMissingPause}
}

func (r *reconciler) groups() admission.SakkaraGroups {
	return admission.SakkaraGroups{Client: r.opts.Client, Live: r.opts.Live, Shared: r.opts.SakkaraMaps}
}

// groupMaps are the ConfigMaps of groups that count for a job: those of its namespace and those that it will have as
// components, in place of what there is of their names. None is of another namespace: components are not either.
func (r *reconciler) groupMaps(ctx context.Context, s *facts) ([]corev1.ConfigMap, error) {
	all, err := r.groups().List(ctx, s.job.GetNamespace())
	if err != nil {
		return nil, err
	}
	own := componentMaps(r.kind, s.job)
	for i := range all {
		if !has(own, all[i].Name) {
			own = append(own, all[i])
		}
	}
	return own, nil
}

func has(all []corev1.ConfigMap, name string) bool {
	return slices.ContainsFunc(all, func(m corev1.ConfigMap) bool { return m.Name == name })
}

// componentMaps are the ConfigMaps of groups that a job has as components: they are made only once it is admitted.
func componentMaps(k *jobs.Kind, job jobs.Object) (out []corev1.ConfigMap) {
	if k == nil || k.Queueing.Components == nil {
		return nil
	}
	components, err := k.Queueing.Components(job, jobs.Schedulers{})
	if err != nil {
		return nil // it was told
	}
	for i := range components {
		c := &components[i]
		if c.Object == nil || c.GVK != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			continue
		}
		var m corev1.ConfigMap
		if runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object.Object, &m) != nil {
			continue
		}
		if _, labelled := m.Labels[sakkara.GroupLabel]; labelled {
			m.Name = c.Name
			out = append(out, m)
		}
	}
	return out
}

// report tells the ConfigMap of the group of an admitted job where its pods are, once all are ready, and when they were
// stopped.
func (r *reconciler) report(ctx context.Context, s *facts) error {
	w := s.workload
	if w == nil || s.nested || w.Annotations[kueue.SakkaraGroupAnnotation] == "" {
		return nil
	}
	lost := convert.Evicted(w) && w.Status.Admission != nil && convert.NoticeBegan(w).IsZero()
	if !lost && (!convert.Admitted(w) || !s.facts.Ready || convert.Finished(w)) {
		return nil
	}
	at, group := client.ObjectKeyFromObject(s.job), w.Annotations[kueue.SakkaraGroupAnnotation]
	var all []corev1.Pod
	if !lost {
		var err error
		if all, err = admission.ListPods(ctx, r.opts.Client, w.Namespace, w.Name); err != nil {
			return err
		}
	}
	var pods []*corev1.Pod
	for i := range all {
		if all[i].Labels[sakkara.MemberLabel] == group {
			pods = append(pods, &all[i])
		}
	}
	total := 0
	for i := range w.Spec.PodSets {
		if w.Spec.PodSets[i].Template.Labels[sakkara.MemberLabel] == group {
			total += int(w.Spec.PodSets[i].Count)
		}
	}
	is, some := admission.SakkaraOutcomeOf(w, pods, total)
	digest := fmt.Sprint(w.UID, is)
	if !some || r.reported.Get(at) == digest {
		return nil
	}
	told, err := r.groups().Tell(ctx, w, group, is)
	if err == nil && told {
		r.reported.Set(at, digest)
	}
	return err
}
