package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Rule is one question to a cluster.
type Rule struct {
	Name     string
	Severity finding.Severity
	// Asks says what it looks for.
	Asks string
	// needs are the kinds without which it cannot tell.
	needs []string
	find  func(f *Facts) []found
}

// found is what a rule found.
type found struct{ object, message, cure string }

// Rules are all, in the order in which they are asked.
func Rules() []Rule {
	return []Rule{
		{
			"definition-missing",
			finding.Error,
			"a kind that this program needs is not defined, or not in its version",
			[]string{"CustomResourceDefinitions"},
			definitions,
		},
		{
			"webhook-missing",
			finding.Error,
			"a webhook of mlbatch is not registered: jobs are neither checked nor held",
			[]string{"MutatingWebhookConfigurations", "ValidatingWebhookConfigurations"},
			webhooks,
		},
		{
			"webhook-untrusted",
			finding.Error,
			"the API server cannot trust who answers a webhook: it knows no authority, or one that ended",
			nil,
			untrusted,
		},
		{
			"webhook-silent",
			finding.Error,
			"a webhook does not answer, or a job is written without it: tried with a job that is not kept",
			nil,
			unheld,
		},
		{"controller-silent", finding.Error, "no controller answers: nothing is admitted", nil, silent},
		{
			"discovery-stale",
			finding.Error,
			"nobody answers for the visibility API: no namespace of the cluster can be deleted",
			[]string{"APIServices"},
			staleDiscovery,
		},
		{
			"leader-missing",
			finding.Error,
			"all replicas of a program wait for the lead, and none has it",
			[]string{"Deployments", "Leases"},
			leaderless,
		},
		{
			"other-manager",
			finding.Error,
			"another program manages the same queues and jobs",
			[]string{"Deployments", "MutatingWebhookConfigurations"},
			others,
		},
		{"workload-unseen", finding.Error, "a Workload was never looked at", []string{"Workloads"}, unseen},
		{"queue-inactive", finding.Error, "a ClusterQueue cannot admit", nil, inactive},
		{"queue-without-quota", finding.Error, "a ClusterQueue has no quota, and may not borrow any", nil, zero},
		{"queue-without-namespaces", finding.Error, "a ClusterQueue lets no namespace use it", nil, closedQueues},
		{
			"flavor-without-nodes",
			finding.Error,
			"no node has the labels of a flavor that queues have quota of",
			[]string{"nodes", "ResourceFlavors", "ClusterQueues"},
			emptyFlavors,
		},
		{
			"localqueue-leads-nowhere",
			finding.Error,
			"a LocalQueue names a ClusterQueue that is not there",
			[]string{"ClusterQueues"},
			nowhere,
		},
		{
			"localqueue-not-allowed",
			finding.Error,
			"a LocalQueue is in a namespace that its ClusterQueue does not let in",
			[]string{"ClusterQueues", "namespaces"},
			notAllowed,
		},
		{
			"team-without-queue",
			finding.Error,
			"jobs of a team's namespace must name a queue, and it has none",
			[]string{"namespaces", "LocalQueues"},
			queueless,
		},
		{
			"check-inactive",
			finding.Error,
			"nobody answers an AdmissionCheck that a queue waits for",
			[]string{"AdmissionChecks"},
			checks,
		},
		{
			"pods-refused",
			finding.Warning,
			"jobs are held, since the API server lets none of their pods be made",
			[]string{"Workloads"},
			refusedPods,
		},
		{
			"pods-not-started",
			finding.Warning,
			"pods of jobs hold quota, and their containers cannot start: the image or the command is not there",
			[]string{"pods"},
			notStarted,
		},
		{"queue-stopped", finding.Warning, "a queue was stopped by its stop policy", nil, stopped},
		{
			"team-without-default",
			finding.Warning,
			"a team has no LocalQueue of the usual name, which jobs that name none are given",
			[]string{"namespaces", "LocalQueues"},
			withoutDefault,
		},
		{
			"lent-for-ever",
			finding.Warning,
			"a queue lends and may not take back",
			[]string{"ClusterQueues", "LocalQueues"},
			lentForEver,
		},
		{
			"weight-zero",
			finding.Warning,
			"a weight of 0 in fair sharing: it never gets unused quota of others",
			nil,
			weightZero,
		},
		{
			"weight-ignored",
			finding.Warning,
			"a weight where fair sharing is off: nothing looks at it",
			nil,
			weightIgnored,
		},
		{
			"usage-not-remembered",
			finding.Warning,
			"a queue is to share by past use, and none is remembered: that is off",
			[]string{"LocalQueues"},
			forgetful,
		},
		{
			"default-priority-highest",
			finding.Warning,
			"pods that name no priority class get the highest that there is",
			[]string{"PriorityClasses"},
			highestDefault,
		},
		{
			"no-queue",
			finding.Warning,
			"a Workload names a LocalQueue that is not there: it waits for ever",
			nil,
			ofCheck("no-queue"),
		},
		{
			"over-quota",
			finding.Warning,
			"queues of teams have more quota than nodes in service offer",
			nil,
			ofCheck("over-quota"),
		},
		{"node-out", finding.Warning, "a node with GPUs is out of service", nil, ofCheck("node-out")},
		{"gpus-outside", finding.Note, "pods have GPUs where no quota counts them", nil, ofCheck("gpus-outside")},
		{
			"flavor-unused",
			finding.Note,
			"no queue has quota of a flavor",
			[]string{"ClusterQueues", "ResourceFlavors"},
			unusedFlavors,
		},
		{
			"queue-unreachable",
			finding.Note,
			"no LocalQueue leads to a ClusterQueue: nobody can submit to it",
			[]string{"LocalQueues"},
			unreachable,
		},
	}
}

// OfInstallation reports whether a rule is about the installation, and not about what administrators
// and teams set up in it.
func OfInstallation(rule string) bool {
	return slices.Contains([]string{
		"definition-missing",
		"definition-not-ours",
		"webhook-missing",
		"webhook-untrusted",
		"webhook-silent",
		"controller-silent",
		"discovery-stale",
		"leader-missing",
		"other-manager",
		"workload-unseen",
	}, rule)
}

// Diagnose asks all rules, and tells the worst first.
func Diagnose(f *Facts) []finding.Finding {
	out := []finding.Finding{}
	for _, r := range Rules() {
		if !f.reads(r.needs...) {
			continue
		}
		for _, x := range r.find(f) {
			out = append(
				out,
				finding.Finding{Rule: r.Name, Severity: r.Severity, Object: x.object, Message: x.message, Cure: x.cure},
			)
		}
	}
	finding.Sort(out)
	return out
}

func definitions(f *Facts) (out []found) {
	for _, want := range f.Wanted {
		at := slices.IndexFunc(f.Definitions, func(d apiDefinition) bool { return d.Name == want.Name })
		if at < 0 {
			out = append(
				out,
				found{
					"customresourcedefinition/" + want.Name,
					"it is not there: jobs and queues of this kind are unknown",
					installs,
				},
			)
			continue
		}
		for _, v := range want.Spec.Versions {
			if v.Served &&
				!slices.ContainsFunc(
					f.Definitions[at].Spec.Versions,
					func(o apiVersion) bool { return o.Name == v.Name && o.Served },
				) {
				out = append(
					out,
					found{
						"customresourcedefinition/" + want.Name,
						"version " + v.Name + " is not served: it is of an older or another program",
						installs,
					},
				)
			}
		}
	}
	return out
}

// installs is what brings what is missing.
const installs = "mlbatch install brings what this version needs; in a cluster of mlbatch up, mlbatch down and mlbatch up do; a controller that starts again does not"

// The names of our webhook configurations.
const (
	mutatingName   = "mlbatch-mutating-webhook"
	validatingName = "mlbatch-validating-webhook"
)

func webhooks(f *Facts) (out []found) {
	if !slices.ContainsFunc(
		f.Mutating,
		func(m mutatingHook) bool { return m.Name == mutatingName && len(m.Webhooks) > 0 },
	) {
		out = append(
			out,
			found{
				"mutatingwebhookconfiguration/" + mutatingName,
				"it is not there: jobs are not held until they are admitted",
				installs,
			},
		)
	}
	if !slices.ContainsFunc(
		f.Validating,
		func(v validatingHook) bool { return v.Name == validatingName && len(v.Webhooks) > 0 },
	) {
		out = append(
			out,
			found{
				"validatingwebhookconfiguration/" + validatingName,
				"it is not there: nothing that is written is checked",
				installs,
			},
		)
	}
	return out
}

// unheld tells what became of a job that was tried.
func unheld(f *Facts) []found {
	const runs = "kubectl get pods -n mlbatch-system tells whether a controller runs; here: mlbatch status. If one does, its webhooks are registered with another address or certificate: " + installs
	t := f.Trial
	switch {
	case t == nil:
		return nil
	case t.Unanswered != "":
		return []found{
			{"webhook/" + t.Webhook, "jobs are refused, since it does not answer: " + t.Unanswered, runs},
		}
	case t.Unheld:
		return []found{
			{
				"namespace/" + t.Namespace,
				"jobs are stored there without being held: no webhook was asked, or it does not answer and is passed over",
				runs,
			},
		}
	}
	return nil
}

func silent(f *Facts) []found {
	if f.Silent == nil {
		return nil
	}
	return []found{
		{
			"controller",
			"it does not answer: " + f.Silent.Error(),
			"kubectl get pods -n mlbatch-system tells whether it runs; here: mlbatch status",
		},
	}
}

// others are programs that would decide on the same objects.
func others(f *Facts) (out []found) {
	const queues, wrappers, scheduler = "Kueue decides on the same queues and Workloads", "another controller runs the same AppWrappers", "another scheduler puts pods on the same nodes"
	known := map[string]string{
		"kueue-controller-manager":      queues,
		"appwrapper-controller-manager": wrappers,
		"codeflare-operator-manager":    wrappers,
		"scheduler-plugins-scheduler":   scheduler,
		"sakkara-scheduler":             scheduler,
		"volcano-scheduler":             scheduler,
		"kai-scheduler":                 scheduler,
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		why := known[d.Name]
		if why == "" || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		out = append(
			out,
			found{
				"deployment/" + d.Name + " in " + d.Namespace,
				why + ": one of the two has to go",
				fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=0", d.Name, d.Namespace),
			},
		)
	}
	for i := range f.Mutating {
		if name := f.Mutating[i].Name; strings.HasPrefix(name, "kueue-") {
			out = append(
				out,
				found{
					"mutatingwebhookconfiguration/" + name,
					"Kueue's webhook is asked about the same jobs, and refuses them if it does not answer",
					"kubectl delete mutatingwebhookconfiguration " + name,
				},
			)
		}
	}
	return out
}

// unanswered is how long a Workload may be new.
const unanswered = time.Minute

func unseen(f *Facts) (out []found) {
	var waiting []string
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if len(w.Status.Conditions) == 0 && f.Now.Sub(w.CreationTimestamp.Time) > unanswered &&
			w.DeletionTimestamp == nil {
			waiting = append(waiting, w.Namespace+"/"+w.Name)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return []found{
		{
			"workload/" + waiting[0],
			fmt.Sprintf(
				"%s waiting for over a minute without any word of a controller: %s",
				count(len(waiting), "Workload is", "Workloads are"),
				names(waiting),
			),
			"kubectl get pods -n mlbatch-system tells whether it runs; here: mlbatch status",
		},
	}
}

// troubles are what keeps objects, by namespace: most often all of one have the same.
type troubles struct {
	of  map[string][]string // names by namespace
	why map[string]string   // one for all of a namespace
}

func (t *troubles) add(namespace, name, why string) {
	if t.of == nil {
		t.of, t.why = map[string][]string{}, map[string]string{}
	}
	t.of[namespace] = append(t.of[namespace], name)
	if first := t.why[namespace]; first == "" || why < first {
		t.why[namespace] = why
	}
}

// found tells of them: how one is and how many are, and what follows the command that says more.
func (t *troubles) found(one, many, cure string) (out []found) {
	for _, namespace := range slices.Sorted(maps.Keys(t.of)) {
		all := t.of[namespace]
		slices.Sort(all)
		out = append(out, found{
			"namespace/" + namespace,
			fmt.Sprintf(
				"%s: %s: %s",
				count(len(all), one, many),
				names(all),
				strings.TrimSuffix(t.why[namespace], "."),
			),
			"mlbatch why " + namespace + "/" + all[0] + " " + cure,
		})
	}
	return out
}

// refusedPods finds jobs that are held for what may not be made.
func refusedPods(f *Facts) []found {
	var held troubles
	for i := range f.Workloads {
		w := &f.Workloads[i]
		reason := w.Annotations[kueue.PodsRefusedAnnotation]
		if reason == "" || w.DeletionTimestamp != nil || convert.Finished(w) {
			continue
		}
		_, name := convert.Owner(w)
		held.add(w.Namespace, cmp.Or(name, w.Name), reason)
	}
	return held.found(
		"job is held, whose pods may not be made",
		"jobs are held, whose pods may not be made",
		"says what helps; jobs queue again by themselves once it is mended",
	)
}

// notStarted finds pods of jobs that the runtime cannot start.
func notStarted(f *Facts) []found {
	var stuck troubles
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Annotations[kueue.WorkloadAnnotation] == "" || p.DeletionTimestamp != nil ||
			p.Status.Phase == corev1.PodSucceeded ||
			p.Status.Phase == corev1.PodFailed {
			continue
		}
		if said := view.NotStarted(p); said != "" {
			stuck.add(p.Namespace, p.Name, said)
		}
	}
	return stuck.found(
		"pod does not start",
		"pods do not start",
		"says more; correct the image or the command, and submit the job again",
	)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func inactive(f *Facts) (out []found) {
	for i := range f.Queues {
		q := &f.Queues[i]
		c := apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason == kueue.ReasonStopped ||
			c.Reason == kueue.ReasonTerminating {
			continue
		}
		cure := "kubectl describe clusterqueue " + q.Name
		switch c.Reason {
		case kueue.ReasonFlavorNotFound:
			if missing := f.missingFlavors(q); len(missing) > 0 {
				cure = "mlbatch flavor create " + missing[0]
			}
		case kueue.ReasonAdmissionCheckNotFound, kueue.ReasonAdmissionCheckInactive:
			cure = "start what answers the check, or take it off: kubectl edit clusterqueue " + q.Name
		}
		out = append(out, found{"clusterqueue/" + q.Name, "it admits nothing: " + c.Message, cure})
	}
	return out
}

func (f *Facts) missingFlavors(q *kueue.ClusterQueue) (out []string) {
	for _, own := range view.Flavors(q) {
		if f.reads("ResourceFlavors") &&
			!slices.ContainsFunc(f.Flavors, func(o kueue.ResourceFlavor) bool { return o.Name == own.Flavor }) {
			out = append(out, own.Flavor)
		}
	}
	return out
}

// zero finds queues that nothing fits into, ever.
func zero(f *Facts) (out []found) {
	for i := range f.Queues {
		q := &f.Queues[i]
		flavors := view.Flavors(q)
		gives, resource := false, ""
		for _, own := range flavors {
			for _, x := range own.Quotas {
				resource = cmp.Or(resource, x.Resource)
				borrows := q.Spec.CohortName != "" && (x.Borrowing == nil || *x.Borrowing > 0)
				gives = gives || x.Resource != core.Pods && (x.Nominal > 0 || borrows)
			}
		}
		switch {
		case gives:
		case len(flavors) == 0:
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"it has no quota at all",
					"mlbatch queue edit " + q.Name + " --flavor FLAVOR --quota nvidia.com/gpu=8",
				},
			)
		default:
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"all its quotas are 0 and it may not borrow",
					fmt.Sprintf("mlbatch queue edit %s --quota %s=8", q.Name, resource),
				},
			)
		}
	}
	return out
}

func closedQueues(f *Facts) (out []found) {
	for i := range f.Queues {
		if q := &f.Queues[i]; q.Spec.NamespaceSelector == nil {
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"it has no namespaceSelector, which lets no namespace in; {} lets all in",
					fmt.Sprintf(`kubectl patch clusterqueue %s --type=merge -p '{"spec":{"namespaceSelector":{}}}'`, q.Name),
				},
			)
		}
	}
	return out
}

func emptyFlavors(f *Facts) (out []found) {
	h := admin.Hardware{Flavors: f.Flavors, Nodes: f.Nodes, Queues: f.Queues}
	for _, row := range h.FlavorRows() {
		at := slices.IndexFunc(f.Flavors, func(o kueue.ResourceFlavor) bool { return o.Name == row.Name })
		if len(f.Nodes) == 0 || len(row.Queues) == 0 || row.Nodes == nil || *row.Nodes > 0 ||
			convert.NodesOnDemand(&f.Flavors[at]) ||
			f.provisioned(row.Name) {
			continue
		}
		cure := "no node tolerates or matches it: kubectl describe resourceflavor " + row.Name
		if len(row.Labels) > 0 {
			cure = "kubectl label node NODE " + labelled(row.Labels)
		}
		out = append(
			out,
			found{
				"resourceflavor/" + row.Name,
				fmt.Sprintf(
					"no node serves it, and %s quota of it: they can use none",
					names(row.Queues)+have(len(row.Queues)),
				),
				cure,
			},
		)
	}
	return out
}

func have(n int) string {
	if n == 1 {
		return " has"
	}
	return " have"
}

// provisioned reports whether a check makes nodes of a flavor.
func (f *Facts) provisioned(flavor string) bool {
	controller := func(name string) string {
		for i := range f.Checks {
			if f.Checks[i].Name == name {
				return f.Checks[i].Spec.ControllerName
			}
		}
		return ""
	}
	for i := range f.Queues {
		if slices.Contains(
			convert.Provisioned(&f.Queues[i], controller, func(string) bool { return false }),
			flavor,
		) {
			return true
		}
	}
	return false
}

func labelled(of map[string]string) string {
	var out []string
	for k, v := range of { // sorted below
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func nowhere(f *Facts) (out []found) {
	for i := range f.LocalQueues {
		l := &f.LocalQueues[i]
		if f.queue(string(l.Spec.ClusterQueue)) == nil {
			out = append(
				out,
				found{
					local(l),
					"it leads to ClusterQueue " + string(l.Spec.ClusterQueue) + ", which is not there",
					"mlbatch queue create " + string(l.Spec.ClusterQueue) + " --quota nvidia.com/gpu=8,cpu=64,memory=512Gi",
				},
			)
		}
	}
	return out
}

func local(l *kueue.LocalQueue) string { return "localqueue/" + l.Name + " in " + l.Namespace }

func notAllowed(f *Facts) (out []found) {
	for i := range f.LocalQueues {
		l := &f.LocalQueues[i]
		q := f.queue(string(l.Spec.ClusterQueue))
		if q == nil || q.Spec.NamespaceSelector == nil {
			continue // told of the queue
		}
		selector, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector)
		at := slices.IndexFunc(f.Namespaces, func(n corev1.Namespace) bool { return n.Name == l.Namespace })
		if err != nil || at < 0 || selector.Matches(labels.Set(f.Namespaces[at].Labels)) {
			continue
		}
		cure := "kubectl edit clusterqueue " + q.Name
		if match := q.Spec.NamespaceSelector.MatchLabels; len(match) > 0 &&
			len(q.Spec.NamespaceSelector.MatchExpressions) == 0 {
			cure = "kubectl label namespace " + l.Namespace + " --overwrite " + labelled(match)
		}
		out = append(
			out,
			found{local(l), fmt.Sprintf("ClusterQueue %s lets only namespaces in with %s", q.Name, selector), cure},
		)
	}
	return out
}

// teams are the namespaces in which jobs must name a queue.
func (f *Facts) teams() (out []string) {
	for i := range f.Namespaces {
		if n := &f.Namespaces[i]; n.Labels[kueue.TeamNamespaceLabel] == "true" && n.DeletionTimestamp == nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// locals are the LocalQueues of a namespace.
func (f *Facts) locals(namespace string) (out []*kueue.LocalQueue) {
	for i := range f.LocalQueues {
		if l := &f.LocalQueues[i]; l.Namespace == namespace {
			out = append(out, l)
		}
	}
	return out
}

func queueless(f *Facts) (out []found) {
	for _, team := range f.teams() {
		if len(f.locals(team)) > 0 {
			continue
		}
		cure := "mlbatch team create " + team + " --gpus 8"
		if q := f.queue(admin.QueueName(team)); q != nil {
			cure = fmt.Sprintf(
				"mlbatch queue create %s -n %s --clusterqueue %s",
				admin.DefaultLocalQueue,
				team,
				q.Name,
			)
		}
		out = append(out, found{"namespace/" + team, "its jobs must name a queue, and it has no LocalQueue", cure})
	}
	return out
}

func withoutDefault(f *Facts) (out []found) {
	for _, team := range f.teams() {
		own := f.locals(team)
		usual := func(l *kueue.LocalQueue) bool {
			return l.Name == admin.DefaultLocalQueue || l.Name == string(kueue.DefaultLocalQueueName)
		}
		if len(own) == 0 || slices.ContainsFunc(own, usual) {
			continue
		}
		out = append(
			out,
			found{
				"namespace/" + team,
				"it has no LocalQueue " + admin.DefaultLocalQueue + ", which jobs that name none are given: they wait for ever",
				fmt.Sprintf(
					"mlbatch queue create %s -n %s --clusterqueue %s",
					admin.DefaultLocalQueue,
					team,
					own[0].Spec.ClusterQueue,
				),
			},
		)
	}
	return out
}

func checks(f *Facts) (out []found) {
	for i := range f.Checks {
		c := &f.Checks[i]
		a := apimeta.FindStatusCondition(c.Status.Conditions, kueue.AdmissionCheckActive)
		if a != nil && a.Status == metav1.ConditionTrue {
			continue
		}
		var users []string
		for j := range f.Queues {
			s := f.Queues[j].Spec.AdmissionChecksStrategy
			if s != nil &&
				slices.ContainsFunc(
					s.AdmissionChecks,
					func(r kueue.AdmissionCheckStrategyRule) bool { return string(r.Name) == c.Name },
				) {
				users = append(users, f.Queues[j].Name)
			}
		}
		if len(users) == 0 {
			continue
		}
		why := "nobody has said that it is answered"
		if a != nil {
			why = a.Message
		}
		out = append(
			out,
			found{
				"admissioncheck/" + c.Name,
				fmt.Sprintf("%s; jobs of %s wait for it", why, names(users)),
				"start what answers " + c.Spec.ControllerName + ", or take the check off the queues",
			},
		)
	}
	return out
}

func stopped(f *Facts) (out []found) {
	for i := range f.Queues {
		if q := &f.Queues[i]; isStopped(q.Spec.StopPolicy) {
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					fmt.Sprintf("its stop policy %s lets nothing start", *q.Spec.StopPolicy),
					"mlbatch queue resume " + q.Name,
				},
			)
		}
	}
	for i := range f.LocalQueues {
		if l := &f.LocalQueues[i]; isStopped(l.Spec.StopPolicy) {
			out = append(
				out,
				found{
					local(l),
					fmt.Sprintf("its stop policy %s lets nothing start", *l.Spec.StopPolicy),
					fmt.Sprintf("mlbatch queue resume %s -n %s", l.Name, l.Namespace),
				},
			)
		}
	}
	return out
}

func isStopped(p *kueue.StopPolicy) bool { return p != nil && *p != kueue.StopPolicyNone && *p != "" }

func lentForEver(f *Facts) (out []found) {
	for i := range f.Queues {
		q := &f.Queues[i]
		p := q.Spec.Preemption
		if p != nil && p.ReclaimWithinCohort != "" && p.ReclaimWithinCohort != kueue.PreemptionPolicyNever ||
			len(f.leading(q.Name)) == 0 {
			continue
		}
		if who := f.borrowers(q); len(who) > 0 {
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"what others borrow of it comes back only when their jobs end (" + names(
						who,
					) + "): reclaimWithinCohort is Never",
					"mlbatch queue edit " + q.Name + " --reclaim-within-cohort Any",
				},
			)
		}
	}
	return out
}

// borrowers are queues that may have what a queue lends.
func (f *Facts) borrowers(q *kueue.ClusterQueue) (out []string) {
	for _, o := range f.cohortOf(q) {
		can := false
		for _, own := range view.Flavors(q) {
			for _, x := range own.Quotas {
				if x.Nominal <= 0 || x.Lending != nil && *x.Lending == 0 {
					continue
				}
				for _, other := range view.Flavors(o) {
					can = can || other.Flavor == own.Flavor && slices.ContainsFunc(other.Quotas, func(y core.Quota) bool {
						return y.Resource == x.Resource && (y.Borrowing == nil || *y.Borrowing > 0)
					})
				}
			}
		}
		if can && len(f.leading(o.Name)) > 0 {
			out = append(out, o.Name)
		}
	}
	return out
}

func weightZero(f *Facts) (out []found) {
	for i := range f.Queues {
		if q := &f.Queues[i]; isZero(q.Spec.FairSharing) {
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"its weight is 0: unused quota of others goes to all others first",
					"mlbatch queue edit " + q.Name + " --weight 1",
				},
			)
		}
	}
	for i := range f.Cohorts {
		if c := &f.Cohorts[i]; isZero(c.Spec.FairSharing) {
			out = append(
				out,
				found{
					"cohort/" + c.Name,
					"its weight is 0: unused quota of others goes to all others first",
					fmt.Sprintf(`kubectl patch cohort %s --type=merge -p '{"spec":{"fairSharing":{"weight":"1"}}}'`, c.Name),
				},
			)
		}
	}
	for i := range f.LocalQueues {
		if l := &f.LocalQueues[i]; isZero(l.Spec.FairSharing) {
			out = append(
				out,
				found{
					local(l),
					"its weight is 0: jobs of all other LocalQueues go first",
					fmt.Sprintf(
						`kubectl patch localqueue %s -n %s --type=merge -p '{"spec":{"fairSharing":{"weight":"1"}}}'`,
						l.Name,
						l.Namespace,
					),
				},
			)
		}
	}
	return out
}

// sharesFairly reports whether the controller counts shares: it writes them to all ClusterQueues
// then. One that was made just now need not have its own yet.
func (f *Facts) sharesFairly() bool {
	return slices.ContainsFunc(f.Queues, func(q kueue.ClusterQueue) bool {
		return q.Status.FairSharing != nil || f.Now.Sub(q.CreationTimestamp.Time) < time.Minute
	})
}

// weightIgnored finds weights that mean nothing. Those of 0 are found anyway.
func weightIgnored(f *Facts) (out []found) {
	if f.sharesFairly() {
		return nil
	}
	one := resource.MustParse("1") // the weight of queues that name none
	means := func(s *kueue.FairSharing) bool {
		return s != nil && s.Weight != nil && s.Weight.Sign() != 0 && s.Weight.Cmp(one) != 0
	}
	const text, cure = "its weight does nothing: fair sharing is off", "set fairSharing.enable in the controller's configuration (docs/fair-sharing.md), or take the weight out"
	for i := range f.Queues {
		if q := &f.Queues[i]; means(q.Spec.FairSharing) {
			out = append(out, found{"clusterqueue/" + q.Name, text, cure})
		}
	}
	for i := range f.Cohorts {
		if c := &f.Cohorts[i]; means(c.Spec.FairSharing) {
			out = append(out, found{"cohort/" + c.Name, text, cure})
		}
	}
	return out
}

func isZero(s *kueue.FairSharing) bool { return s != nil && s.Weight != nil && s.Weight.Sign() == 0 }

// forgetful finds queues that are to share by past use where the controller remembers none.
func forgetful(f *Facts) (out []found) {
	for i := range f.Queues {
		q := &f.Queues[i]
		if q.Spec.AdmissionScope == nil ||
			q.Spec.AdmissionScope.AdmissionMode != kueue.UsageBasedAdmissionFairSharing {
			continue
		}
		own := f.leading(q.Name)
		if len(own) == 0 || slices.ContainsFunc(own, func(l *kueue.LocalQueue) bool {
			return l.Status.FairSharing != nil && l.Status.FairSharing.AdmissionFairSharingStatus != nil
		}) {
			continue
		}
		out = append(
			out,
			found{
				"clusterqueue/" + q.Name,
				"its LocalQueues are to share by past use, and the controller remembers none",
				"set admissionFairSharing in the controller's configuration (docs/fair-sharing.md)",
			},
		)
	}
	return out
}

func highestDefault(f *Facts) []found {
	var highest, usual int32
	at, mine := "", 0
	for i := range f.Classes {
		c := &f.Classes[i]
		if strings.HasPrefix(c.Name, "system-") {
			continue
		}
		mine, highest = mine+1, max(highest, c.Value)
		if c.GlobalDefault {
			at, usual = c.Name, c.Value
		}
	}
	if at == "" || mine < 2 || usual < highest {
		return nil
	}
	return []found{
		{
			"priorityclass/" + at,
			"it is the global default and the highest: nobody can go before pods that name none",
			fmt.Sprintf(`kubectl patch priorityclass %s --type=merge -p '{"globalDefault":false}'`, at),
		},
	}
}

func unusedFlavors(f *Facts) (out []found) {
	for _, row := range (admin.Hardware{Flavors: f.Flavors, Nodes: f.Nodes, Queues: f.Queues}).FlavorRows() {
		ofCohort := slices.ContainsFunc(f.Cohorts, func(c kueue.Cohort) bool {
			q := kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{ResourceGroups: c.Spec.ResourceGroups}}
			return slices.ContainsFunc(
				view.Flavors(&q),
				func(x core.FlavorQuotas) bool { return x.Flavor == row.Name },
			)
		})
		if len(row.Queues) == 0 && !ofCohort {
			out = append(
				out,
				found{"resourceflavor/" + row.Name, "no queue has quota of it", "mlbatch flavor delete " + row.Name},
			)
		}
	}
	return out
}

func unreachable(f *Facts) (out []found) {
	for i := range f.Queues {
		q := &f.Queues[i]
		if q.Name != f.Slack && q.DeletionTimestamp == nil && len(f.leading(q.Name)) == 0 {
			out = append(
				out,
				found{
					"clusterqueue/" + q.Name,
					"no LocalQueue leads to it: nobody can submit to it",
					fmt.Sprintf("mlbatch queue create %s -n NAMESPACE --clusterqueue %s", admin.DefaultLocalQueue, q.Name),
				},
			)
		}
	}
	return out
}

// ofCheck tells what a rule of package check found, with a cure.
func ofCheck(rule string) func(*Facts) []found {
	return func(f *Facts) (out []found) {
		if f.judged == nil {
			f.judged = f.Judge(f.Now, 0)
		}
		for _, x := range f.judged.Findings {
			if x.Rule == rule {
				out = append(out, f.cured(x))
			}
		}
		return out
	}
}

// cured is a finding of package check with what helps.
func (f *Facts) cured(x finding.Finding) found {
	kind, name, _ := strings.Cut(x.Object, " ")
	out := found{object: x.Object, message: x.Message, cure: "mlbatch check tells more"}
	switch x.Rule {
	case "node-out":
		out.object = kind + "/" + name
		out.cure = "mend what it says; a cordon of nobody's use ends with kubectl uncordon " + name
		at := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == name })
		if at < 0 {
			break
		}
		if d := view.DrainOf(&f.Nodes[at]); d != nil {
			out.message, out.cure = out.message+", "+d.Words(f.Now), "mlbatch undrain "+name
		}
	case "over-quota":
		out.cure = "lower a quota: mlbatch queue edit NAME --quota RESOURCE=AMOUNT; or put nodes back into service (mlbatch nodes)"
	case "gpus-outside":
		out.cure = "give their namespace a queue (mlbatch team create NAME --adopt), or lower the quotas by as much"
	case "no-queue":
		out.cure = "name another queue, or make it: mlbatch queue create NAME -n NAMESPACE --clusterqueue CLUSTERQUEUE"
	}
	return out
}
