package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// condition is something that is waited for. It returns "" once it is so, else why it is not.
type condition struct {
	name string
	look func(ctx context.Context) (string, error)
	// explain looks deeper, when there is no more time.
	explain func(ctx context.Context) []string
}

// NotReadyError is what there was no more time for.
type NotReadyError struct {
	// Why says what ended the wait.
	Why string
	// Lines say what is not ready, and why.
	Lines []string
}

// Error is a line for each.
func (e *NotReadyError) Error() string {
	return cmp.Or(e.Why, "there was no more time") + ". What is not ready:\n  " + strings.Join(e.Lines, "\n  ")
}

// await returns once all conditions hold. When the context ends it says which do not, and why.
func (x *Cluster) await(ctx context.Context, all []condition) error {
	why, told := map[string]string{}, map[string]bool{}
	err := wait.PollUntilContextCancel(
		ctx,
		cmp.Or(x.Pause, time.Second),
		true,
		func(ctx context.Context) (bool, error) {
			all = slices.DeleteFunc(all, func(c condition) bool {
				reason, err := c.look(ctx)
				switch {
				case err != nil && ctx.Err() == nil:
					why[c.name] = err.Error()
				case err != nil: // of what was asked too late nothing is known
				case reason == "":
					x.Say("%-14s %s", "ready", c.name)
					x.progress()
					return true
				case why[c.name] != reason:
					why[c.name] = reason
					x.Say("%-14s %s: %s", "waiting", c.name, reason)
					if this := c.name + ": " + reason; !told[this] { // what goes to and fro does not move
						told[this] = true
						x.progress()
					}
				}
				return false
			})
			return len(all) == 0, nil
		},
	)
	switch {
	case err == nil || len(all) == 0:
		return nil
	case errors.As(context.Cause(ctx), new(*impatience)):
		return x.unready(context.WithoutCancel(ctx), context.Cause(ctx).Error(), all, why)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return x.unready(context.WithoutCancel(ctx), "", all, why)
	}
	return fmt.Errorf("wait until mlbatch is ready: %w", err)
}

// explainFor bounds how long it is looked for reasons.
const explainFor = 15 * time.Second

func (x *Cluster) unready(ctx context.Context, ended string, all []condition, why map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	e := &NotReadyError{Why: ended}
	for _, c := range all {
		e.Lines = append(e.Lines, c.name+": "+cmp.Or(why[c.name], "the API server did not answer"))
		if c.explain != nil {
			for _, line := range c.explain(ctx) {
				e.Lines = append(e.Lines, "  "+line)
			}
		}
	}
	return e
}

// touchEvery is with which looks a definition is touched that is not served: its API server may
// have been stopped while it came to serve it.
const touchEvery = 5

// served is that the API server serves the definitions of a stage.
func (x *Cluster) served(s install.Stage) []condition {
	looks := 0
	return []condition{
		{name: fmt.Sprintf("%d kinds are served", len(s.Objects)), look: func(ctx context.Context) (string, error) {
			looks++
			for _, o := range s.Objects {
				crd := &apiextensionsv1.CustomResourceDefinition{}
				if err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), crd); err != nil {
					return "", err
				}
				if !slices.ContainsFunc(
					crd.Status.Conditions,
					func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
						return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
					},
				) {
					if looks%touchEvery == 0 {
						if err := install.Unstick(ctx, x.Client, crd.Name); err != nil {
							return "", err
						}
					}
					return crd.Name + " is not served yet", nil
				}
			}
			return "", nil
		}},
	}
}

// programs are that all Deployments of a plan have the pods that they are to have.
func (x *Cluster) programs(p *Installation) []condition {
	var out []condition
	for _, s := range p.Stages {
		if s.Name != install.ProgramsStage {
			continue
		}
		for _, o := range s.Objects {
			key := client.ObjectKeyFromObject(o)
			if o.GetKind() == "DaemonSet" {
				out = append(out, x.daemons(key))
				continue
			}
			out = append(
				out,
				condition{name: "deployment " + key.Name, look: func(ctx context.Context) (string, error) {
					d := &appsv1.Deployment{}
					if err := x.Client.Get(ctx, key, d); err != nil {
						return "", err
					}
					return Unavailable(d), nil
				}, explain: func(ctx context.Context) []string { return x.explainPods(ctx, key) }},
			)
		}
	}
	return out
}

// daemons are that a DaemonSet is known to its controller. That its pods are ready is not waited for: nodes may be
// out of service, and what runs on nodes is there for those.
func (x *Cluster) daemons(key client.ObjectKey) condition {
	return condition{name: "daemonset " + key.Name, look: func(ctx context.Context) (string, error) {
		d := &appsv1.DaemonSet{}
		if err := x.Client.Get(ctx, key, d); err != nil {
			return "", err
		}
		if d.Status.ObservedGeneration < d.Generation {
			return "its controller has not seen it yet", nil
		}
		return "", nil
	}, explain: func(context.Context) []string { return nil }}
}

// Unavailable says what a Deployment lacks, "" if nothing.
func Unavailable(d *appsv1.Deployment) string {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return "its pods cannot be made: " + c.Message
		}
	}
	switch s := d.Status; {
	case s.ObservedGeneration < d.Generation:
		return "its controller has not seen it yet"
	case s.UpdatedReplicas < want:
		return fmt.Sprintf("%d of %d pods are of this version", s.UpdatedReplicas, want)
	case s.Replicas > want:
		return fmt.Sprintf("%d old pods have not ended yet", s.Replicas-want)
	case s.AvailableReplicas < want:
		return fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, want)
	}
	return ""
}

// explainPods says of each pod of a Deployment that is not ready why.
func (x *Cluster) explainPods(ctx context.Context, key client.ObjectKey) []string {
	d := &appsv1.Deployment{}
	if err := x.Client.Get(ctx, key, d); err != nil || d.Spec.Selector == nil {
		return nil
	}
	pods, events := &corev1.PodList{}, &corev1.EventList{}
	if err := x.Client.List(
		ctx,
		pods,
		client.InNamespace(key.Namespace),
		client.MatchingLabels(d.Spec.Selector.MatchLabels),
	); err != nil {
		return []string{"its pods cannot be listed: " + err.Error()}
	}
	_ = x.Client.List(
		ctx,
		events,
		client.InNamespace(key.Namespace),
	) // without events there are the pods' states
	var out []string
	for i := range pods.Items {
		if why := Trouble(&pods.Items[i], events.Items); why != "" {
			out = append(out, "pod "+pods.Items[i].Name+": "+why)
		}
	}
	if len(out) > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"look closer: kubectl logs -n %s deployment/%s; kubectl describe pods -n %s",
				key.Namespace,
				key.Name,
				key.Namespace,
			),
		)
	}
	return out
}

// Trouble says why a pod is not ready, "" if it is: what its containers wait for, why they
// ended, what the scheduler says; and the last warning about it.
func Trouble(pod *corev1.Pod, events []corev1.Event) string {
	var parts []string
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			parts = append(parts, strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			parts = append(parts, strings.TrimSpace(w.Reason+" "+w.Message))
		}
		if e := c.LastTerminationState.Terminated; e != nil {
			parts = append(
				parts,
				strings.TrimSpace(fmt.Sprintf("it ended with %d (%s) %s", e.ExitCode, e.Reason, e.Message)),
			)
		}
	}
	var last *corev1.Event
	for i := range events {
		if e := &events[i]; e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID == pod.UID &&
			(last == nil || when(last).Time.Before(when(e).Time)) {
			last = e
		}
	}
	if last != nil {
		parts = append(parts, last.Reason+": "+last.Message)
	}
	if len(parts) == 0 {
		return "it is " + string(cmp.Or(pod.Status.Phase, corev1.PodPending)) + " and not ready"
	}
	return strings.Join(parts, "; ")
}

func when(e *corev1.Event) metav1.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp
	}
	return metav1.Time{Time: e.EventTime.Time}
}

// answers are that the API server reaches what it calls.
func (x *Cluster) answers(p *Installation) []condition {
	out := []condition{{name: "webhooks answer", look: x.webhooksAnswer}}
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			if o.GetKind() == "APIService" {
				out = append(
					out,
					condition{name: "apiservice " + o.GetName(), look: func(ctx context.Context) (string, error) {
						has := &unstructured.Unstructured{}
						has.SetGroupVersionKind(o.GroupVersionKind())
						if err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), has); err != nil {
							return "", err
						}
						return unavailable(has), nil
					}},
				)
			}
		}
	}
	return out
}

// unavailable says what keeps the API server from reaching an aggregated API.
func unavailable(apiService *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(apiService.Object, "status", "conditions")
	for _, c := range conditions {
		one, _ := c.(map[string]any)
		if one["type"] != "Available" {
			continue
		}
		if one["status"] == "True" {
			return ""
		}
		return strings.TrimSpace(fmt.Sprintf("%v %v", one["reason"], one["message"]))
	}
	return "the API server has not tried it yet"
}

// tried is a flavor that is not kept, to try the webhooks with.
const tried = "mlbatch-install-check"

// webhooksAnswer has a webhook asked, about an object that is not kept.
func (x *Cluster) webhooksAnswer(ctx context.Context) (string, error) {
	f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: tried}}
	err := x.Client.Create(ctx, f, client.DryRunAll)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return "", nil
	case apierrors.IsInternalError(err):
		return err.Error(), nil // "failed calling webhook ...", with the reason
	}
	return "", err
}
