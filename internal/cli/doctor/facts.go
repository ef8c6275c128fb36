package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/check"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Facts are what was read of a cluster.
type Facts struct {
	check.Cluster
	Cohorts     []kueue.Cohort
	Checks      []kueue.AdmissionCheck
	Namespaces  []corev1.Namespace
	Classes     []schedulingv1.PriorityClass
	Deployments []appsv1.Deployment
	// Leases are those of the programs.
	Leases      []coordinationv1.Lease
	Mutating    []admissionv1.MutatingWebhookConfiguration
	Validating  []admissionv1.ValidatingWebhookConfiguration
	Definitions []apiextensionsv1.CustomResourceDefinition
	// APIServices are the registrations of the visibility API.
	APIServices []unstructured.Unstructured
	// Wanted are the definitions that this program brings.
	Wanted []*apiextensionsv1.CustomResourceDefinition
	// Silent is why no controller answers, nil if one does.
	Silent error
	// Trial is what became of a job that was tried, nil if none could be.
	Trial *Trial
	Now   time.Time

	// judged is what package check says, once it was asked.
	judged *check.Report
}

// Asks is what is needed beside a client to read the facts.
type Asks struct {
	// Wanted are the definitions that this program brings.
	Wanted []*apiextensionsv1.CustomResourceDefinition
	// Slack is the name of the queue that belongs to no team.
	Slack string
	// Controller asks a controller something, and fails if none answers.
	Controller func(ctx context.Context, queue string) error
	// Try creates an object as a trial: it passes admission and is not kept.
	Try func(ctx context.Context, o client.Object) error
	Now time.Time
}

// Take reads a cluster. What the user may not read is left out and named.
func Take(ctx context.Context, c client.Reader, asks Asks) (*Facts, error) {
	cluster, err := check.Take(ctx, c, "", asks.Slack)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it read
	}
	f := &Facts{Cluster: *cluster, Wanted: asks.Wanted, Now: asks.Now}
	var cohorts kueue.CohortList
	var checks kueue.AdmissionCheckList
	var namespaces corev1.NamespaceList
	var classes schedulingv1.PriorityClassList
	var deployments appsv1.DeploymentList
	var leases coordinationv1.LeaseList
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	var definitions apiextensionsv1.CustomResourceDefinitionList
	var services unstructured.UnstructuredList
	services.SetGroupVersionKind(apiServices())
	unread, err := gather.ReadLists(
		ctx,
		c,
		gather.List{
			What: "Cohorts",
			Into: &cohorts,
		},
		gather.List{What: "AdmissionChecks", Into: &checks},
		gather.List{What: "namespaces", Into: &namespaces},
		gather.List{What: "PriorityClasses", Into: &classes},
		gather.List{What: "Deployments", Into: &deployments},
		gather.List{
			What: "MutatingWebhookConfigurations",
			Into: &mutating,
		},
		gather.List{What: "ValidatingWebhookConfigurations", Into: &validating},
		gather.List{
			What: "CustomResourceDefinitions",
			Into: &definitions,
		},
		gather.List{What: "APIServices", Into: &services},
		gather.List{What: "Leases", Into: &leases, Options: []client.ListOption{client.InNamespace(installed)}},
	)
	f.Unread = append(f.Unread, unread...)
	f.Cohorts, f.Checks, f.Namespaces, f.Classes, f.Deployments = cohorts.Items, checks.Items, namespaces.Items, classes.Items, deployments.Items
	f.Leases = leases.Items
	f.Mutating, f.Validating, f.Definitions = mutating.Items, validating.Items, definitions.Items
	f.APIServices = registrations(services.Items)
	f.listen(ctx, asks)
	slices.Sort(f.Unread)
	f.try(ctx, asks)
	return f, err //nolint:wrapcheck // it says what it read
}

// listen asks a controller something, for some queue.
func (f *Facts) listen(ctx context.Context, asks Asks) {
	if len(f.Queues) == 0 || asks.Controller == nil {
		return
	}
	err := asks.Controller(ctx, f.Queues[0].Name)
	if apierrors.IsNotFound(err) && f.reads("APIServices") && len(f.APIServices) == 0 {
		return // it was installed without that API
	}
	if apierrors.IsForbidden(err) {
		f.Unread = append(f.Unread, "pendingworkloads") // who answers that may be the API server
		return
	}
	f.Silent = err
}

// reads reports whether the user may read all of these kinds.
func (f *Facts) reads(what ...string) bool {
	return !slices.ContainsFunc(what, func(w string) bool { return slices.Contains(f.Unread, w) })
}

// Blind reports whether the user may read nothing that there is much to say about.
func (f *Facts) Blind() bool {
	return !f.reads("ClusterQueues") && !f.reads("LocalQueues") && !f.reads("nodes")
}

// cohortOf are the queues with the same cohort as one of them, itself left out.
func (f *Facts) cohortOf(q *kueue.ClusterQueue) (out []*kueue.ClusterQueue) {
	for i := range f.Queues {
		if o := &f.Queues[i]; q.Spec.CohortName != "" && o.Name != q.Name && f.root(o) == f.root(q) {
			out = append(out, o)
		}
	}
	return out
}

// root is the topmost cohort of a queue, "" for none.
func (f *Facts) root(q *kueue.ClusterQueue) string {
	at := string(q.Spec.CohortName)
	for range f.Cohorts { // they may go in circles
		i := slices.IndexFunc(f.Cohorts, func(c kueue.Cohort) bool { return c.Name == at })
		if i < 0 || f.Cohorts[i].Spec.ParentName == "" {
			break
		}
		at = string(f.Cohorts[i].Spec.ParentName)
	}
	return at
}

// leading are the LocalQueues that lead to a queue.
func (f *Facts) leading(queue string) (out []*kueue.LocalQueue) {
	for i := range f.LocalQueues {
		if l := &f.LocalQueues[i]; string(l.Spec.ClusterQueue) == queue {
			out = append(out, l)
		}
	}
	return out
}

func (f *Facts) queue(name string) *kueue.ClusterQueue {
	for i := range f.Queues {
		if f.Queues[i].Name == name {
			return &f.Queues[i]
		}
	}
	return nil
}

// names are sorted and with commas between them, the first few of many.
func names(all []string) string {
	const most = 5
	slices.Sort(all)
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

// Short names of types of Kubernetes.
type (
	apiDefinition  = apiextensionsv1.CustomResourceDefinition
	apiVersion     = apiextensionsv1.CustomResourceDefinitionVersion
	mutatingHook   = admissionv1.MutatingWebhookConfiguration
	validatingHook = admissionv1.ValidatingWebhookConfiguration
)
