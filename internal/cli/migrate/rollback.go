package migrate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoWayBack means that an import cannot be taken back, or not yet.
var ErrNoWayBack = errors.New("the import cannot be taken back")

// Rollback brings back what an import stopped and removed. It may be called again at any time.
func (m *Import) Rollback(ctx context.Context, dry bool) (ImportResult, error) { //nolint:revive // a fact
	out := ImportResult{Did: []StepState{}}
	v, err := m.look(ctx)
	if err != nil {
		return out, err
	}
	switch {
	case !v.journal.exists:
		return out, fmt.Errorf(
			"%w: nothing was written down in ConfigMap %s/%s, so nothing was imported",
			ErrNoWayBack,
			m.Namespace,
			JournalName,
		)
	case v.Installed:
		return out, fmt.Errorf(
			"%w while mlbatch is installed, as both would admit: mlbatch uninstall --keep-crds first",
			ErrNoWayBack,
		)
	case v.journal.oldOnly && v.journal.rewritten:
		return out, fmt.Errorf(
			"%w: objects are stored in v1beta2, and the Kueue that was there reads v1beta1 only; install a Kueue of 0.15 or later, or bring back etcd from before",
			ErrNoWayBack,
		)
	}
	for _, s := range m.back(v) {
		if !dry {
			if err := s.do(ctx); err != nil {
				return out, fmt.Errorf("%s: %w; mlbatch import %s --rollback goes on from here", s.says, err, m.System)
			}
			m.Tell(StepState{s.name, s.says})
		}
		out.Did = append(out.Did, StepState{s.name, s.says})
	}
	return out, nil
}

// undo is a step of the way back.
type undo struct {
	name, says string
	do         func(context.Context) error
}

// back is the way back: who answers comes before who is asked, and jobs are let in last.
func (m *Import) back(v *stepView) []undo {
	j := v.journal
	var out []undo
	add := func(name, says string, do func(context.Context) error) { out = append(out, undo{name, says, do}) }
	if !v.held {
		add("hold", "refuse jobs that would start unqueued", m.hold)
	}
	for _, where := range sortedKeys(j.replicas) {
		n := j.replicas[where]
		add(
			"start",
			fmt.Sprintf("start Deployment %s with %d replicas, and wait until it is ready", where, n),
			func(ctx context.Context) error { return m.restart(ctx, where, n) },
		)
	}
	for i := range v.Definitions {
		d := &v.Definitions[i]
		was, noted := j.conversions[d.Name]
		if noted && !reflect.DeepEqual(d.Spec.Conversion, &was) {
			add(
				"convert",
				"have "+d.Name+" converted by who did before",
				func(ctx context.Context) error { return m.reconvert(ctx, d, was) },
			)
		}
	}
	for _, name := range sortedKeys(j.mutating) {
		o := j.mutating[name]
		add(
			"hook",
			"bring back MutatingWebhookConfiguration "+name,
			func(ctx context.Context) error { return m.recreate(ctx, &o) },
		)
	}
	for _, name := range sortedKeys(j.validating) {
		o := j.validating[name]
		add(
			"hook",
			"bring back ValidatingWebhookConfiguration "+name,
			func(ctx context.Context) error { return m.recreate(ctx, &o) },
		)
	}
	for _, name := range sortedKeys(j.services) {
		o := &unstructured.Unstructured{Object: j.services[name]}
		add("hook", "bring back APIService "+name, func(ctx context.Context) error { return m.recreate(ctx, o) })
	}
	add("open", "let jobs in again", m.open)
	add("forget", "remove ConfigMap "+m.Namespace+"/"+JournalName, func(ctx context.Context) error {
		return client.IgnoreNotFound(
			m.Client.Delete(
				ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: JournalName}},
			),
		)
	})
	return out
}

func (m *Import) recreate(ctx context.Context, o client.Object) error {
	plain(o)
	return client.IgnoreAlreadyExists(m.Client.Create(ctx, o))
}

func (m *Import) reconvert(
	ctx context.Context,
	d *apiextensionsv1.CustomResourceDefinition,
	to apiextensionsv1.CustomResourceConversion,
) error {
	next := d.DeepCopy()
	next.Spec.Conversion = &to
	return m.Client.Patch(ctx, next, client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{}))
}

// restart starts a program and waits until it answers.
func (m *Import) restart(ctx context.Context, where string, n int32) error {
	namespace, name, _ := strings.Cut(where, "/")
	return m.await(ctx, "it is not ready", func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		if err := m.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &d); err != nil {
			return false, fmt.Errorf("read Deployment %s: %w", where, err)
		}
		if ptr.Deref(d.Spec.Replicas, 1) == 0 {
			return false, m.scale(ctx, &d, n)
		}
		return d.Status.ReadyReplicas > 0, nil
	})
}
