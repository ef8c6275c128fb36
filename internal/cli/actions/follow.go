package actions

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Follow keeps a target as it is in the cluster, by watching, and calls see when all of it is
// known and after each change, until see says that it has seen enough. gone says that the
// object of the job was deleted. Pods are followed if pods says so; whoever may not read
// them sees none.
//
// It goes on over interruptions, and gives up when the API server cannot be asked for long.
func Follow(
	ctx context.Context,
	c client.WithWatch,
	t *Target,
	pods bool,
	see func(gone bool) (done bool, err error),
) error {
	sources, err := t.sources(pods)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes, failed := make(chan change), make(chan error, len(sources))
	for _, s := range sources {
		go func() { failed <- s.follow(ctx, c, changes) }()
	}
	unknown, gone := len(sources), false
	if len(sources) == 0 {
		_, err := see(false)
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case change := <-changes:
			if change.all {
				unknown--
			} else if t.update(change.object, change.gone) {
				gone = gone || change.gone
			}
		}
		if unknown > 0 {
			continue
		}
		if done, err := see(gone); done || err != nil {
			return err
		}
	}
}

// update takes over a change, and reports whether it is one of the object of the job itself.
func (t *Target) update(o client.Object, gone bool) bool { //nolint:revive // a fact
	root := t.Object()
	own := root != nil && root.GetUID() == o.GetUID()
	if t.Set == nil {
		t.Update(o, gone)
		return own
	}
	if pod, is := o.(*corev1.Pod); is && t.Owns(pod) {
		kept := make([]corev1.Pod, 0, len(t.Pods)+1)
		for i := range t.Pods {
			if t.Pods[i].UID != pod.UID {
				kept = append(kept, t.Pods[i])
			}
		}
		if t.Pods = kept; !gone {
			t.Pods = append(t.Pods, *pod)
		}
	}
	if own && !gone {
		t.Set = o
	}
	return own
}

// change is of an object; all says that everything that there was has been told.
type change struct {
	object client.Object
	gone   bool
	all    bool
}

// source is a list of objects to follow.
type source struct {
	list    client.ObjectList
	options []client.ListOption
	// optional ones are left out if the user may not read them.
	optional bool
	// known are objects of it that were seen before, which may be gone before they are looked
	// for.
	known []client.Object
}

// sources are the lists in which the target and its parts are.
func (t *Target) sources(pods bool) ([]source, error) { //nolint:revive // a fact
	var out []source
	in := client.InNamespace(t.Asked.Namespace)
	root := t.Object()
	if root != nil {
		list, err := t.list()
		if err != nil {
			return nil, err
		}
		out = append(
			out,
			source{
				known: []client.Object{root},
				list:  list,
				options: []client.ListOption{
					in,
					client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", root.GetName())},
				},
			},
		)
		if _, is := root.(*kueue.Workload); !is && t.Set == nil {
			s := source{
				list:     &kueue.WorkloadList{},
				options:  []client.ListOption{in, client.MatchingLabels{kueue.JobUIDLabel: string(root.GetUID())}},
				optional: true,
			}
			if w := t.Workload; w != nil && w.Labels[kueue.JobUIDLabel] == string(root.GetUID()) {
				s.known = []client.Object{w}
			}
			out = append(out, s)
		}
	}
	if pods {
		s := source{list: &corev1.PodList{}, options: []client.ListOption{in}, optional: true}
		for i := range t.Pods {
			s.known = append(s.known, t.Pods[i].DeepCopy()) // the list of pods changes
		}
		out = append(out, s)
	}
	return out, nil
}

// list is an empty list of objects like the target's.
func (t *Target) list() (client.ObjectList, error) {
	switch t.Asked.Kind { //nolint:exhaustive // kinds of jobs are those of cli
	case StatefulSet:
		return &appsv1.StatefulSetList{}, nil
	case ReplicaSet:
		return &appsv1.ReplicaSetList{}, nil
	case CronJob:
		return &batchv1.CronJobList{}, nil
	}
	return why.ListOf(t.Asked.Kind)
}

const (
	// pause is between attempts to reach an API server that does not answer.
	pause = time.Second
	// attempts is how many of them fail before it is given up.
	attempts = 60
)

// follow tells all objects of a source and what becomes of them, until ctx ends.
func (s source) follow(ctx context.Context, c client.WithWatch, to chan<- change) error {
	known := map[types.UID]client.Object{}
	for _, o := range s.known {
		known[o.GetUID()] = o
	}
	first, failures := true, 0
	for {
		err := s.once(ctx, c, known, to, &first)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err) && s.optional, apimeta.IsNoMatchError(err) && s.optional:
			if first {
				send(ctx, to, change{all: true})
			}
			<-ctx.Done()
			return ctx.Err()
		case err != nil && first:
			return err
		case err != nil:
			if failures++; failures > attempts {
				return err
			}
		default:
			failures = 0
		}
		select {
		case <-ctx.Done():
		case <-clock.RealClock{}.After(pause):
		}
	}
}

// once lists what there is and watches it until the watch ends. first becomes false when what
// there is has been told.
func (s source) once(
	ctx context.Context,
	c client.WithWatch,
	known map[types.UID]client.Object,
	to chan<- change,
	first *bool,
) error {
	list := s.list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy has its type
	if err := c.List(ctx, list, s.options...); err != nil {
		return fmt.Errorf("list %T: %w", s.list, err)
	}
	there := map[types.UID]bool{}
	err := apimeta.EachListItem(list, func(item runtime.Object) error {
		o, is := item.(client.Object)
		if !is {
			return fmt.Errorf("%T is no object", item)
		}
		there[o.GetUID()] = true
		if has := known[o.GetUID()]; has == nil || has.GetResourceVersion() != o.GetResourceVersion() {
			known[o.GetUID()] = o
			send(ctx, to, change{object: o})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for uid, o := range known { // in any order: each is one change
		if !there[uid] {
			delete(known, uid)
			send(ctx, to, change{object: o, gone: true})
		}
	}
	if *first {
		*first = false
		send(ctx, to, change{all: true})
	}
	options := append([]client.ListOption{}, s.options...)
	options = append(
		options,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}},
	)
	watched, err := c.Watch(ctx, list, options...)
	if err != nil {
		return fmt.Errorf("watch %T: %w", s.list, err)
	}
	defer watched.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-watched.ResultChan():
			if !open {
				return nil
			}
			o, is := e.Object.(client.Object)
			if !is || e.Type == watch.Error {
				return nil // it is listed again
			}
			if e.Type == watch.Bookmark {
				continue
			}
			if known[o.GetUID()] = o; e.Type == watch.Deleted {
				delete(known, o.GetUID())
			}
			send(ctx, to, change{object: o, gone: e.Type == watch.Deleted})
		}
	}
}

func send(ctx context.Context, to chan<- change, c change) {
	select {
	case to <- c:
	case <-ctx.Done():
	}
}
