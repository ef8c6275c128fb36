package appwrapper

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

func isPod(c appwrapper.Component) bool {
	return c.GVK == corev1.SchemeGroupVersion.WithKind("Pod")
}

// nodeOf is the node to be recorded of a component that is a pod, "" of others. It
// is written with the word that all pods run, and not by itself.
func (a *attempt) nodeOf(i int, uid types.UID) string {
	c := a.components[i]
	if !isPod(c) || uid == "" {
		return ""
	}
	ready := slices.ContainsFunc(
		a.step.Conditions,
		func(c lifecycle.Condition) bool { return c.Type == lifecycle.PodsReady && c.True },
	)
	at := slices.IndexFunc(a.facts.Pods, func(p lifecycle.Pod) bool { return p.UID == string(uid) })
	if ready && at >= 0 {
		return a.facts.Pods[at].Node
	}
	return c.Node
}

// wentWith says how a component that is gone went with the node it is recorded to
// have run on; "" if nothing speaks for that, so that it was deleted by hand. While
// this controller was away it may have been either, and a job that lost its node
// must not fail for it.
func (a *attempt) wentWith(ctx context.Context, c appwrapper.Component) (string, error) {
	if a.facts.Phase != lifecycle.Running || c.Node == "" {
		return "", nil
	}
	node, err := a.node(ctx, c.Node)
	switch {
	case apierrors.IsNotFound(err):
		return "node " + c.Node + " does not exist any more", nil
	case err != nil:
		return "", fmt.Errorf("read node %s: %w", c.Node, err)
	case node.CreationTimestamp.After(a.since(lifecycle.ResourcesDeployed)):
		return "the node called " + c.Node + " is another one by now", nil
	case node.Spec.Unschedulable:
		return "it is gone from node " + c.Node + ", which is cordoned", nil
	}
	for _, t := range node.Spec.Taints {
		switch t.Key {
		case corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady, corev1.TaintNodeOutOfService:
			return fmt.Sprintf("it is gone from node %s, which has the taint %s", c.Node, t.Key), nil
		}
	}
	return "", nil
}

// since is when a condition became what it is.
func (a *attempt) since(t lifecycle.ConditionType) time.Time {
	for _, c := range a.facts.Conditions {
		if c.Type == t {
			return c.Since
		}
	}
	return time.Time{}
}

// node reads a node; the cache may not show a new one yet.
func (a *attempt) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, key := &corev1.Node{}, types.NamespacedName{Name: name}
	err := a.client.Get(ctx, key, node, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = a.live.Get(ctx, key, node)
	}
	return node, err
}
