package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// Cluster is where something is rolled out.
type Cluster struct {
	Client    client.Client
	Discovery Discovery
	// Say tells of progress, a line at a time.
	Say func(format string, args ...any)
	// Pause is how long to wait between two looks; 0 is a second.
	Pause time.Duration
	// Patience is how long nothing may move while Apply works and waits; 0 is for ever.
	Patience time.Duration

	moved func() // something did
}

// Action is what was done with an object.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Unchanged Action = "unchanged"
	Removed   Action = "removed"
)

// Apply brings a plan into the cluster, stage after stage, and removes what an earlier one had
// and this one has not. With wait it waits before the last stage, the webhook configurations,
// until there is somebody to answer, and at the end until all works: users' writes are refused at
// no time. It may be repeated: what is as it was left is not applied again, and asked for once
// for all objects of a kind.
func (x *Cluster) Apply(ctx context.Context, p *Installation, wait bool) error { //nolint:revive // a fact
	ctx, cancel := x.bound(ctx)
	defer cancel()
	record, err := x.recorded(ctx, p)
	if err != nil {
		return err
	}
	for _, s := range p.Stages {
		if err := x.stage(ctx, p, s, record, wait); err != nil {
			// What was applied is known to the next one, as far as that can be written.
			return errors.Join(err, record.Save(context.WithoutCancel(ctx), x.Client))
		}
	}
	if err := record.Save(ctx, x.Client); err != nil {
		return err
	}
	if err := x.sweep(ctx, p); err != nil || !wait {
		return err
	}
	return x.await(ctx, append(x.programs(p), x.answers(p)...))
}

// recorded is what is known of the objects of a plan that were applied before.
func (x *Cluster) recorded(ctx context.Context, p *Installation) (*install.Record, error) {
	var all []*unstructured.Unstructured
	for _, s := range p.Stages {
		all = append(all, s.Objects...)
	}
	record, err := install.ReadRecord(ctx, x.Client, p.Release.Namespace, all)
	if err != nil {
		return nil, err
	}
	record.Labels = map[string]string{
		install.NameLabel:    install.App,
		install.PartLabel:    install.App,
		install.ManagedLabel: p.Release.Manager,
	}
	return record, nil
}

// stage applies the objects of a stage, and waits for what others need of them.
func (x *Cluster) stage( //nolint:revive // a fact
	ctx context.Context,
	p *Installation,
	s install.Stage,
	record *install.Record,
	wait bool,
) error {
	if s.Name == install.WebhooksStage && wait {
		if err := x.await(ctx, x.programs(p)); err != nil {
			return err
		}
	}
	if s.Name == install.DefinitionsStage {
		if err := record.CarryOver(ctx, x.Client, s.Objects); err != nil {
			return because(ctx, err)
		}
	}
	done := map[Action]int{}
	for _, o := range s.Objects {
		action, err := x.put(ctx, record, o)
		if err != nil {
			return fmt.Errorf("install %s %s: %w", strings.ToLower(o.GetKind()), o.GetName(), because(ctx, err))
		}
		done[action]++
		x.progress()
	}
	if s.Name == install.WebhooksStage && wait {
		if err := x.introduce(ctx, p, record); err != nil {
			return err
		}
	}
	x.Say("%-14s %s", s.Name, tally(done))
	if s.Name == install.DefinitionsStage {
		return x.await(ctx, x.served(s))
	}
	return nil
}

// because is an error with what ended the context, which the error does not know.
func because(ctx context.Context, err error) error {
	if why := (*impatience)(nil); errors.As(context.Cause(ctx), &why) {
		return errors.Join(why, err)
	}
	return err
}

// sweep removes what an earlier installation had and a plan has not.
func (x *Cluster) sweep(ctx context.Context, p *Installation) error {
	gone, err := x.Stale(ctx, p)
	if err != nil {
		return err
	}
	for _, o := range gone {
		if err := client.IgnoreNotFound(x.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("remove %s %s: %w", strings.ToLower(o.GetKind()), o.GetName(), err)
		}
		x.Say("%-14s %s %s: no longer wanted", Removed, strings.ToLower(o.GetKind()), o.GetName())
		x.progress()
	}
	return nil
}

// introduce tells the API server at once whom to trust where it calls the controller, which
// would say so itself with its next look, and until then what the webhooks are asked about would be
// refused. Certificates of others are theirs to tell of.
func (x *Cluster) introduce(ctx context.Context, p *Installation, record *install.Record) error {
	if p.Values.CertManager.Enabled {
		return nil
	}
	var s corev1.Secret
	err := x.Client.Get(ctx, client.ObjectKey{Namespace: p.Release.Namespace, Name: install.CertSecret}, &s)
	if err != nil || len(s.Data[certs.Bundle]) == 0 {
		return client.IgnoreNotFound(err) // it is in another one, which the controller knows
	}
	called, err := certs.Called()
	if err != nil {
		return err
	}
	if err := called.Tell(ctx, x.Client, s.Data[certs.Bundle]); err != nil {
		return err
	}
	const hooks = "admissionregistration.k8s.io/v1"
	for _, of := range []struct {
		kind  schema.GroupVersionKind
		names []string
	}{
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), called.Definitions},
		{schema.FromAPIVersionAndKind(hooks, "MutatingWebhookConfiguration"), called.Mutating},
		{schema.FromAPIVersionAndKind(hooks, "ValidatingWebhookConfiguration"), called.Validating},
	} {
		if err := record.Renew(ctx, x.Client, of.kind, of.names); err != nil {
			return err
		}
	}
	return nil
}

// tally is how many objects saw which action.
func tally(done map[Action]int) string {
	var parts []string
	for _, d := range []Action{Created, Changed, Unchanged} {
		if done[d] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", done[d], d))
		}
	}
	return strings.Join(parts, ", ")
}

// put applies an object and says what that did. It asks nothing about one that is as it was
// left.
func (x *Cluster) put(
	ctx context.Context,
	record *install.Record,
	o *unstructured.Unstructured,
) (Action, error) {
	if record.Holds(o) {
		return Unchanged, nil
	}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(o.GroupVersionKind())
	err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), before)
	missing := apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
	if err != nil && !missing {
		return "", err
	}
	if err := record.Put(ctx, x.Client, o); err != nil {
		return "", err
	}
	if missing {
		return Created, nil
	}
	after := &unstructured.Unstructured{}
	after.SetGroupVersionKind(o.GroupVersionKind())
	if err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), after); err != nil {
		return "", err
	}
	if len(differences(before.Object, after.Object)) == 0 {
		return Unchanged, nil
	}
	return Changed, nil
}

// rolled are the kinds that an installation has objects of; nothing else is ever removed.
func rolled() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, k := range []struct{ version, kinds string }{
		{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicy"},
		{"apiregistration.k8s.io/v1", "APIService"},
		{"apps/v1", "DaemonSet Deployment"},
		{"policy/v1", "PodDisruptionBudget"},
		{"networking.k8s.io/v1", "NetworkPolicy"},
		{"monitoring.coreos.com/v1", "PrometheusRule ServiceMonitor"},
		{"cert-manager.io/v1", "Certificate Issuer"},
		{"v1", "Service ConfigMap Secret"},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding RoleBinding ClusterRole Role"},
		{"v1", "ServiceAccount"},
	} {
		for kind := range strings.FieldsSeq(k.kinds) {
			out = append(out, schema.FromAPIVersionAndKind(k.version, kind))
		}
	}
	return out
}

// Stale are the objects of an earlier installation that a plan has not, in an order in which they
// can be removed. Definitions never are: objects go with them.
func (x *Cluster) Stale(ctx context.Context, p *Installation) ([]*unstructured.Unstructured, error) {
	wanted := map[string]bool{}
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			wanted[id(o)] = true
		}
	}
	all, err := x.labelled(ctx, p.Release.Manager)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		record := o.GetKind() == "ConfigMap" && o.GetName() == install.RecordName
		return record || wanted[id(o)]
	}), nil
}

func id(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName()
}

// labelled are all objects that somebody installed with mlbatch.
func (x *Cluster) labelled(ctx context.Context, manager string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, gvk := range rolled() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := x.Client.List(
			ctx,
			list,
			client.MatchingLabels{install.PartLabel: install.App, install.ManagedLabel: manager},
		)
		switch {
		case apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			continue // nobody brought the kind
		case err != nil:
			return nil, fmt.Errorf("look for what is installed: list %ss: %w", gvk.Kind, err)
		}
		slices.SortStableFunc(list.Items, combinedFirst)
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(gvk)
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// combinedFirst orders roles that are made of others before these, in which order they go: Kubernetes
// fills a combined role in again when one of its parts goes, and makes one anew that went a moment ago.
func combinedFirst(a, b unstructured.Unstructured) int {
	single := func(o unstructured.Unstructured) int {
		if _, combined := o.Object["aggregationRule"]; combined {
			return 0
		}
		return 1
	}
	return single(a) - single(b)
}
