package decision

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	world "github.com/mlbatch/mlbatch/internal/kube/cache"
)

// Lead is how a loop follows another one, in another process.
type Lead interface {
	apply.Lead
	// Inherited are the names of objects that others may have been about to write.
	Inherited() []string
	// Settled says that they cannot write them any more.
	Settled()
}

// TouchedAnnotation marks a Workload about which another process had decided something when
// it lost the lead, with the time.
const TouchedAnnotation = "mlbatch.dev/decided-anew"

// page is how many Workloads are read at once.
const page = 1000

// succeed returns when nothing that another process decided can be written any more, and
// all that was written is in the inbox. The cache alone does not say that: a watch may be
// behind, and a decision on top of what it shows would give away what was given already.
// It fails when the context ends.
func (l *Loop) succeed(ctx context.Context) error {
	began := l.opts.Clock.Now()
	n := 0
	if l.opts.Lead != nil {
		names := l.opts.Lead.Inherited()
		for _, name := range names {
			if err := l.untilDone(
				ctx,
				"Touch what was announced",
				func() error { return l.touch(ctx, name, began) },
			); err != nil {
				return err
			}
		}
		l.opts.Lead.Settled()
		n = len(names)
	}
	if l.opts.Live == nil {
		return nil
	}
	if err := l.untilDone(
		ctx,
		"Compare with the API server",
		func() error { return l.catchUp(ctx) },
	); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Decides", "touched", n, "took", l.opts.Clock.Since(began).String())
	return nil
}

// again is the pause between tries while nothing is decided.
const again = 100 * time.Millisecond

// untilDone tries something until it succeeds, or the context ends.
func (l *Loop) untilDone(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		log.FromContext(ctx).Info("Not deciding yet", "step", what, "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.opts.Clock.After(again):
		}
	}
}

// touch gives an object another version, so that writes on condition of the last one
// fail.
func (l *Loop) touch(ctx context.Context, name string, now time.Time) error {
	w := &kueue.Workload{}
	w.Namespace, w.Name, _ = strings.Cut(name, "/")
	patch := fmt.Sprintf(
		`{"metadata":{"annotations":{%q:%q}}}`,
		TouchedAnnotation,
		now.UTC().Format(time.RFC3339Nano),
	)
	err := l.opts.Client.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("touch workload %s: %w", name, err)
	}
	return nil
}

// catchUp waits until the inbox has all Workloads as the API server has them now, or newer.
func (l *Loop) catchUp(ctx context.Context) error {
	missing := map[world.Ref]string{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	for {
		if err := l.opts.Live.List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list workloads: %w", err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if r := (world.Ref{Kind: world.Workload, Namespace: o.Namespace, Name: o.Name}); !l.knows(
				r,
				o.ResourceVersion,
			) {
				missing[r] = o.ResourceVersion
			}
		}
		if list.Continue == "" {
			break
		}
	}
	for tries := 1; len(missing) > 0; tries++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.opts.Clock.After(again / 10):
		}
		for r, version := range missing {
			if l.knows(r, version) || tries%100 == 0 && l.gone(ctx, r) {
				delete(missing, r)
			}
		}
	}
	return nil
}

// gone reports whether a Workload is not there any more: watches do not tell of what came and
// went between two lists.
func (l *Loop) gone(ctx context.Context, r world.Ref) bool {
	return apierrors.IsNotFound(
		l.opts.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, &kueue.Workload{}),
	)
}

// knows reports whether the inbox has an object in a version or a newer one.
func (l *Loop) knows(r world.Ref, version string) bool {
	o, there := l.inbox.Newest(r)
	if !there || o == nil {
		return there
	}
	has, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	wants, wrong := strconv.ParseUint(version, 10, 64)
	return err == nil && wrong == nil && has >= wants || o.GetResourceVersion() == version
}
