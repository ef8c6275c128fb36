package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// ClusterState are what is looked at before something is installed.
type ClusterState struct {
	// Kubernetes is the version of the API server.
	Kubernetes string
	// Denied is what who installs may not do, as "create deployments.apps in mlbatch-system".
	Denied []string
	// Groups are the API groups that are served.
	Groups      []string
	Definitions []apiextensionsv1.CustomResourceDefinition
	Mutating    []admissionregistrationv1.MutatingWebhookConfiguration
	Validating  []admissionregistrationv1.ValidatingWebhookConfiguration
	Deployments []appsv1.Deployment
	// Namespace is where the programs are to run, nil if it is not there; Pods are those in it.
	Namespace *corev1.Namespace
	Pods      []corev1.Pod
	// PriorityClasses are the names of the cluster's PriorityClasses.
	PriorityClasses []string
}

// Installation is what is to be installed.
type Installation struct {
	Values  install.Values
	Release install.Release
	Stages  []install.Stage
}

// The versions of Kubernetes: below oldest kinds and policies of mlbatch are refused, testedWith is the
// one with which it is tested.
const (
	oldest     = "1.32.0"
	testedWith = "1.37"
)

// known is what is known of the versions that mlbatch is made for, by their own lists of features. All
// of them have ValidatingAdmissionPolicy v1, by which mlbatch bounds what tenants and its own controller
// write. It writes none that mutate, and needs no gangs of Kubernetes' own.
func known(minor uint) string {
	switch minor {
	case 34: //nolint:mnd // a version
		return "MutatingAdmissionPolicy is beta and off, Kubernetes has no gangs of its own, and a Job that was stopped gets other nodes only once its status.startTime is gone"
	case 35: //nolint:mnd // a version
		return "MutatingAdmissionPolicy is beta and off, gangs of Kubernetes' own are alpha and off (GenericWorkload), and a Job that was stopped gets other nodes only once its status.startTime is gone"
	case 36: //nolint:mnd // a version
		return "MutatingAdmissionPolicy is v1, gangs of Kubernetes' own are alpha and off (GenericWorkload)"
	case 37: //nolint:mnd // a version
		return "MutatingAdmissionPolicy is v1, gangs of Kubernetes' own are beta and off (GenericWorkload)"
	}
	return ""
}

// Check is one question.
type Check struct {
	Name string
	// Asks says what it looks for.
	Asks string
	find func(p *Installation, f *ClusterState) []finding.Finding
}

// Checks are all, in the order in which they are asked.
func Checks() []Check {
	return []Check{
		{"kubernetes-version", "a version of Kubernetes that has what mlbatch needs", kubernetesVersion},
		{"rights", "the rights to make what is installed", rightsOf},
		{"mlbatch-elsewhere", "an mlbatch in another namespace", elsewhere},
		{"mlbatch-version", "a newer mlbatch", versions},
		{"two-brains", "a controller that decides on the same jobs: Kueue, AppWrapper", brains},
		{"two-schedulers", "a scheduler that puts pods on the same nodes", schedulers},
		{"other-operators", "an operator that makes the pods of a kind that mlbatch is to run", operators},
		{"webhooks-of-others", "webhooks of others that are asked about mlbatch's kinds", foreignWebhooks},
		{"stored-versions", "objects that are stored in versions which mlbatch does not know", storedVersions},
		{"kinds-of-charts", "kinds that a Helm release takes along when it is uninstalled", chartKinds},
		{
			"missing-kinds",
			"kinds that the values need and nobody brought: ServiceMonitor, Certificate",
			missingKinds,
		},
		{"pod-security", "pods in the namespace that its level of pod security refuses", podSecurity},
		{"priority-class", "the priority class of the pods", priorityClass},
		{"image", "an image that no registry has", localImage},
	}
}

// Preflight is what the checks find, those of the worst severity first.
func Preflight(p *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	for _, c := range Checks() {
		for _, found := range c.find(p, f) {
			found.Rule = c.Name
			out = append(out, found)
		}
	}
	finding.Sort(out)
	return out
}

func kubernetesVersion(_ *Installation, f *ClusterState) []finding.Finding {
	is, err := version.ParseGeneric(f.Kubernetes)
	switch {
	case err != nil:
		return []finding.Finding{
			{
				Severity: finding.Warning,
				Message:  fmt.Sprintf("the API server says that it is of version %q, which says nothing", f.Kubernetes),
				Cure:     "see to that it is " + oldest + " or newer",
			},
		}
	case is.LessThan(version.MustParseGeneric(oldest)):
		return []finding.Finding{
			{
				Severity: finding.Error,
				Message:  "Kubernetes " + f.Kubernetes + " is too old: it refuses kinds and policies of mlbatch",
				Cure:     "upgrade it to " + oldest + " or newer",
			},
		}
	case is.Minor() == version.MustParseGeneric(testedWith).Minor():
		return nil
	case known(is.Minor()) != "":
		return []finding.Finding{
			{
				Severity: finding.Note,
				Message: "Kubernetes " + f.Kubernetes + " has what mlbatch needs, ValidatingAdmissionPolicy v1 among it. " + known(
					is.Minor(),
				),
				Cure: "nothing has to be done: mlbatch brings no policies that mutate, and starts gangs by itself; it is tested with " + testedWith,
			},
		}
	default:
		return []finding.Finding{
			{
				Severity: finding.Warning,
				Message:  "mlbatch was not tried with Kubernetes " + f.Kubernetes,
				Cure:     "try it on a cluster that is not in production first; it is tested with " + testedWith + ", and made for 1.34 to " + testedWith,
			},
		}
	}
}

func rightsOf(_ *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	for _, d := range f.Denied {
		out = append(
			out,
			finding.Finding{
				Severity: finding.Error,
				Message:  "you may not " + d,
				Cure:     "install as somebody who has the role cluster-admin",
			},
		)
	}
	return out
}

// ours finds the Deployments of an mlbatch.
func ours(f *ClusterState, component string) []*appsv1.Deployment {
	var out []*appsv1.Deployment
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if d.Labels[install.PartLabel] == install.App && d.Labels[install.ComponentLabel] == component {
			out = append(out, d)
		}
	}
	return out
}

// beside is the address of an mlbatch that runs outside of the cluster, "" if none does.
func beside(validating []admissionregistrationv1.ValidatingWebhookConfiguration) string {
	for i := range validating {
		if validating[i].Name != webhook.ValidatingName {
			continue
		}
		for _, w := range validating[i].Webhooks {
			if w.ClientConfig.URL != nil {
				if at, err := url.Parse(*w.ClientConfig.URL); err == nil {
					return at.Host
				}
			}
		}
	}
	return ""
}

func elsewhere(p *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	if at := beside(f.Validating); at != "" {
		out = append(out, finding.Finding{
			Severity: finding.Error,
			Object:   "validatingwebhookconfiguration/" + webhook.ValidatingName,
			Message:  "an mlbatch runs beside this cluster, at " + at + ", as that of mlbatch up does: two would decide on the same jobs",
			Cure:     "choose another cluster (--kubeconfig); the one of mlbatch up needs no installation",
		})
	}
	for _, d := range ours(f, install.ControllerComponent) {
		if d.Namespace != p.Release.Namespace {
			out = append(out, finding.Finding{
				Severity: finding.Error,
				Object:   nameOf(d),
				Message:  "there is an mlbatch in namespace " + d.Namespace + ": two would decide on the same jobs",
				Cure:     "install into " + d.Namespace + " (--namespace), or remove that one first: mlbatch uninstall --namespace " + d.Namespace + " --keep-crds",
			})
			continue
		}
		if by := d.Labels[install.ManagedLabel]; by != p.Release.Manager {
			out = append(out, finding.Finding{
				Severity: finding.Error,
				Object:   nameOf(d),
				Message:  fmt.Sprintf("it was installed by %q", by),
				Cure:     "upgrade it in the same way; for Helm: helm upgrade " + d.Labels[install.InstanceLabel] + " -n " + d.Namespace,
			})
		}
	}
	return out
}

func versions(p *Installation, f *ClusterState) []finding.Finding {
	for _, d := range ours(f, install.ControllerComponent) {
		has := d.Labels[install.VersionLabel]
		if d.Namespace != p.Release.Namespace || has == p.Release.Version {
			continue
		}
		cure := "mlbatch upgrade --check says what changes, and whether that can be taken back"
		if Newer(has, p.Release.Version) {
			return []finding.Finding{
				{
					Severity: finding.Error,
					Object:   nameOf(d),
					Message:  fmt.Sprintf("mlbatch %s is installed, this program is the older %s", has, p.Release.Version),
					Cure:     "use the program of version " + has + "; to go back to this one: --ignore mlbatch-version; " + cure,
				},
			}
		}
		return []finding.Finding{
			{
				Severity: finding.Note,
				Object:   nameOf(d),
				Message:  fmt.Sprintf("mlbatch %s is installed and becomes %s", has, p.Release.Version),
				Cure:     cure,
			},
		}
	}
	return nil
}

// Newer reports whether a version is newer than another. Versions that are not of the form
// v1.2.3 cannot be told apart.
func Newer(a, b string) bool {
	x, errA := version.ParseSemantic(a)
	y, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && y.LessThan(x)
}

// running are the Deployments with pods, outside of ours, that have one of some names or run one
// of some images.
func running(f *ClusterState, names, images []string) []*appsv1.Deployment {
	var out []*appsv1.Deployment
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if d.Labels[install.PartLabel] == install.App || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		if slices.Contains(names, d.Name) ||
			slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(images, func(i string) bool { return imageEnds(c.Image, i) })
			}) {
			out = append(out, d)
		}
	}
	return out
}

// imageEnds reports whether an image, without tag and digest, ends with a path.
func imageEnds(image, path string) bool {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image == path || strings.HasSuffix(image, "/"+path)
}

func scaleDown(d *appsv1.Deployment) string {
	return fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=0", d.Name, d.Namespace)
}

func brains(_ *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	for _, b := range []struct {
		what, imports string
		names, images []string
	}{
		{"Kueue decides on the same queues and Workloads", "kueue", []string{"kueue-controller-manager"}, []string{"kueue/kueue", "kueue-controller"}},
		{"another controller runs the same AppWrappers", "mlbatch", []string{"appwrapper-controller-manager", "codeflare-operator-manager"}, []string{"appwrapper"}},
	} {
		for _, d := range running(f, b.names, b.images) {
			out = append(out, finding.Finding{
				Severity: finding.Error,
				Object:   nameOf(d),
				Message:  b.what,
				Cure:     "take over what it has, jobs that run included, and stop it: mlbatch import " + b.imports + " (--dry-run says first what would be other)",
			})
		}
	}
	return out
}

func schedulers(p *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	for _, d := range running(f, []string{"scheduler-plugins-scheduler", "sakkara-scheduler"}, []string{"scheduler-plugins/kube-scheduler", "sakkara-scheduler"}) {
		if given(p, d) {
			continue
		}
		if slices.ContainsFunc(p.Values.SchedulerNames(), func(n string) bool { return answers(d, n) }) {
			out = append(out, finding.Finding{
				Severity: finding.Error,
				Object:   nameOf(d),
				Message:  "it answers to a name that mlbatch's scheduler answers to (scheduler.names): both would bind the same pods",
				Cure:     scaleDown(d) + "; or take its name out of scheduler.names",
			})
			continue
		}
		out = append(
			out,
			finding.Finding{
				Severity: finding.Warning,
				Object:   nameOf(d),
				Message:  "it puts pods on the same nodes, and knows nothing of what mlbatch planned",
				Cure:     scaleDown(d),
			},
		)
	}
	for _, d := range running(f, []string{"volcano-scheduler", "kai-scheduler", "yunikorn-scheduler"}, []string{"vc-scheduler", "kai-scheduler/scheduler", "yunikorn"}) {
		if given(p, d) {
			continue
		}
		out = append(out, finding.Finding{
			Severity: finding.Warning,
			Object:   nameOf(d),
			Message:  "it puts pods on the same nodes, and knows nothing of what mlbatch planned",
			Cure:     "keep it off the nodes with GPUs, or " + scaleDown(d),
		})
	}
	return out
}

// given reports whether pods of jobs are given to a scheduler of others: it is told their nodes.
func given(p *Installation, d *appsv1.Deployment) bool {
	name := p.Values.Controller.SchedulerName
	return !slices.Contains(p.Values.SchedulerNames(), name) && answers(d, name)
}

// answers reports whether a scheduler has a name, as far as that of its Deployment tells.
func answers(d *appsv1.Deployment, name string) bool {
	return name == d.Name || strings.Contains(name, strings.TrimSuffix(d.Name, "-scheduler"))
}

// operators are the operators that fight over pods with mlbatch, which leaves the kind to them as long as
// they run.
func operators(p *Installation, f *ClusterState) []finding.Finding {
	left := map[string][]string{}
	about := map[string]*appsv1.Deployment{}
	all := kinds.All()
	for i := range all {
		o := all[i].Running.Operator
		kind := strings.ToLower(all[i].GVK().Kind)
		if mode := p.Values.Controller.Kinds[kind]; o == nil || mode != "" && mode != install.RunKind {
			continue
		}
		for _, d := range running(f, nil, o.Others) {
			name := nameOf(d)
			about[name] = d
			if !slices.Contains(left[name], kind) {
				left[name] = append(left[name], kind)
			}
		}
	}
	var out []finding.Finding
	for _, name := range slices.Sorted(maps.Keys(left)) {
		modes := make([]string, len(left[name]))
		for i, kind := range left[name] {
			modes[i] = kind + ": queue"
		}
		out = append(out, finding.Finding{
			Severity: finding.Error,
			Object:   name,
			Message: "it makes the pods of " + strings.Join(
				left[name],
				", ",
			) + ", as mlbatch does, and installing replaces the definitions of these kinds",
			Cure: scaleDown(
				about[name],
			) + "; or leave the pods to it, by the value controller.kinds: {" + strings.Join(
				modes,
				", ",
			) + "}",
		})
	}
	return out
}

// foreignWebhooks are the webhooks of others that are asked about kinds that are installed.
func foreignWebhooks(p *Installation, f *ClusterState) []finding.Finding {
	groups := map[string]bool{}
	for _, crd := range definitionsOf(p) {
		groups[crd.group] = true
	}
	of := func(rules []admissionregistrationv1.RuleWithOperations) string {
		for _, r := range rules {
			for _, g := range r.APIGroups {
				if groups[g] {
					return g
				}
			}
		}
		return ""
	}
	var out []finding.Finding
	find := func(kind, name, group string) {
		if group == "" {
			return
		}
		out = append(out, finding.Finding{
			Severity: finding.Error,
			Object:   kind + "/" + name,
			Message:  "it is asked about objects of " + group + ": what it does not answer is refused",
			Cure:     "kubectl delete " + kind + " " + name + "; or, for the operator of a kind that is to stay, say so by the value controller.kinds",
		})
	}
	for i := range f.Mutating {
		c, group := &f.Mutating[i], ""
		for j := range c.Webhooks {
			group = cmp.Or(group, of(c.Webhooks[j].Rules))
		}
		if c.Name != webhook.MutatingName {
			find("mutatingwebhookconfiguration", c.Name, group)
		}
	}
	for i := range f.Validating {
		c, group := &f.Validating[i], ""
		for j := range c.Webhooks {
			group = cmp.Or(group, of(c.Webhooks[j].Rules))
		}
		if c.Name != webhook.ValidatingName {
			find("validatingwebhookconfiguration", c.Name, group)
		}
	}
	return out
}

// definition is what is asked of a definition that is to be installed.
type definition struct {
	name, group string
	versions    []string
}

func definitionsOf(p *Installation) []definition {
	var out []definition
	for _, s := range p.Stages {
		if s.Name != install.DefinitionsStage {
			continue
		}
		for _, o := range s.Objects {
			d := definition{name: o.GetName()}
			spec, _ := o.Object["spec"].(map[string]any)
			d.group, _ = spec["group"].(string)
			versions, _ := spec["versions"].([]any)
			for _, v := range versions {
				one, _ := v.(map[string]any)
				name, _ := one["name"].(string)
				d.versions = append(d.versions, name)
			}
			out = append(out, d)
		}
	}
	return out
}

// there are the definitions of a plan that the cluster has.
func there(p *Installation, f *ClusterState) map[*apiextensionsv1.CustomResourceDefinition]definition {
	out := map[*apiextensionsv1.CustomResourceDefinition]definition{}
	for _, d := range definitionsOf(p) {
		for i := range f.Definitions {
			if f.Definitions[i].Name == d.name {
				out[&f.Definitions[i]] = d
			}
		}
	}
	return out
}

func byName(
	all map[*apiextensionsv1.CustomResourceDefinition]definition,
) []*apiextensionsv1.CustomResourceDefinition {
	return slices.SortedFunc(
		maps.Keys(all),
		func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) },
	)
}

func storedVersions(p *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	has := there(p, f)
	for _, crd := range byName(has) {
		for _, stored := range crd.Status.StoredVersions {
			if !slices.Contains(has[crd].versions, stored) {
				out = append(out, finding.Finding{
					Severity: finding.Error,
					Object:   "customresourcedefinition/" + crd.Name,
					Message:  "objects of it may be stored in version " + stored + ", which mlbatch does not know; the API server refuses to lose it",
					Cure: "mlbatch import kueue does so for Kueue's kinds; or, with its old operator, write all objects again in version " + strings.Join(
						has[crd].versions,
						" or ",
					) + ", and then take " + stored + " out of status.storedVersions",
				})
			}
		}
	}
	return out
}

func chartKinds(p *Installation, f *ClusterState) []finding.Finding {
	releases := map[string][]string{}
	for _, crd := range byName(there(p, f)) {
		name, ns := crd.Annotations["meta.helm.sh/release-name"], crd.Annotations["meta.helm.sh/release-namespace"]
		if name != "" && crd.Labels[install.PartLabel] != install.App {
			releases[ns+"/"+name] = append(releases[ns+"/"+name], crd.Name)
		}
	}
	var out []finding.Finding
	for _, r := range slices.Sorted(maps.Keys(releases)) {
		ns, name, _ := strings.Cut(r, "/")
		out = append(out, finding.Finding{
			Severity: finding.Warning,
			Object:   "helm release " + name + " in " + ns,
			Message: "helm uninstall of it deletes " + strings.Join(
				releases[r],
				", ",
			) + " and all objects of these kinds",
			Cure: fmt.Sprintf(
				"never uninstall it; have Helm forget it: kubectl delete secret -n %s -l owner=helm,name=%s",
				ns,
				name,
			),
		})
	}
	return out
}

func missingKinds(p *Installation, f *ClusterState) []finding.Finding {
	var out []finding.Finding
	for _, k := range []struct {
		enabled     bool
		kind, value string
	}{
		{p.Values.Metrics.ServiceMonitor.Enabled, "ServiceMonitor", "metrics.serviceMonitor.enabled"},
		{p.Values.Metrics.PrometheusRule.Enabled, "PrometheusRule", "metrics.prometheusRule.enabled"},
	} {
		if k.enabled && !slices.Contains(f.Groups, "monitoring.coreos.com") {
			out = append(
				out,
				finding.Finding{
					Severity: finding.Error,
					Message:  "there is no kind " + k.kind + ": the Prometheus operator is not installed",
					Cure:     "install it first, or set " + k.value + " to false",
				},
			)
		}
	}
	if p.Values.CertManager.Enabled && !slices.Contains(f.Groups, "cert-manager.io") {
		out = append(
			out,
			finding.Finding{
				Severity: finding.Error,
				Message:  "there is no kind Certificate: cert-manager is not installed",
				Cure:     "install it first, or set certManager.enabled to false: the controller makes its certificates itself",
			},
		)
	}
	return out
}

// podSecurity: the namespace gets the level restricted, which pods of others may not fit.
func podSecurity(p *Installation, f *ClusterState) []finding.Finding {
	if f.Namespace == nil || f.Namespace.Labels["pod-security.kubernetes.io/enforce"] == "restricted" {
		return nil
	}
	var others []string
	for i := range f.Pods {
		if f.Pods[i].Labels[install.PartLabel] != install.App {
			others = append(others, f.Pods[i].Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []finding.Finding{
		{
			Severity: finding.Warning,
			Object:   "namespace/" + f.Namespace.Name,
			Message: fmt.Sprintf(
				"it becomes one for restricted pods only, and there are others' pods (%s), which may not come back once they end",
				strings.Join(others, ", "),
			),
			Cure: "install into a namespace of mlbatch's own, by --namespace",
		},
	}
}

func priorityClass(p *Installation, f *ClusterState) []finding.Finding {
	name := p.Values.PriorityClassName
	if name == "" || slices.Contains(f.PriorityClasses, name) {
		return nil
	}
	return []finding.Finding{
		{
			Severity: finding.Error,
			Object:   "priorityclass/" + name,
			Message:  "it is not there: the API server would refuse the pods",
			Cure:     "make it, or set priorityClassName",
		},
	}
}

func localImage(p *Installation, _ *ClusterState) []finding.Finding {
	i := p.Values.Image
	if i.Registry != "localhost" {
		return nil
	}
	return []finding.Finding{
		{
			Severity: finding.Note,
			Message:  "no registry has the image " + i.String(),
			Cure:     "bring it to every node (make images; ctr --namespace k8s.io images import FILE), or push it to a registry of yours and name it by --image",
		},
	}
}

// nameOf is KIND/NAME of a Deployment, and where.
func nameOf(d *appsv1.Deployment) string { return "deployment/" + d.Name + " in " + d.Namespace }
