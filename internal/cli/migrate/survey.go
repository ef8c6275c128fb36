package migrate

import (
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Counts are numbers of Workloads and pods.
type Counts struct {
	Running   int `json:"running"`
	Evicting  int `json:"evicting"`
	Waiting   int `json:"waiting"`
	Held      int `json:"held"`
	Finished  int `json:"finished"`
	Pods      int `json:"pods"`
	Unmarked  int `json:"unmarkedPods"`
	Unplaced  int `json:"podsOfUnknownRole"`
	Wrappers  int `json:"appWrappers"`
	Resetting int `json:"appWrappersResetting"`
}

// Report is what an import would find and do.
type Report struct {
	System   System            `json:"system"`
	Programs []string          `json:"programs"`
	Counts   Counts            `json:"counts"`
	Findings []finding.Finding `json:"findings"`
	Quota    []Use             `json:"quota"`
	Starts   []Start           `json:"starts"`
	Evicts   []Stop            `json:"evicts"`
	// Steps are what is left to do.
	Steps []StepState `json:"steps"`
}

// ReadPolicy makes what decisions depend on of a configuration file, with what has no effect in
// it; an error says what is refused.
type ReadPolicy func(name, text string) (Policy, []string, error)

// Survey judges a picture.
func (p *Picture) Survey(read ReadPolicy) *Report {
	r := &Report{
		System:   p.System,
		Findings: []finding.Finding{},
		Quota:    []Use{},
		Starts:   []Start{},
		Evicts:   []Stop{},
		Programs: []string{},
	}
	for _, x := range p.Programs {
		r.Programs = append(
			r.Programs,
			fmt.Sprintf(
				"%s (Deployment %s, %d replicas)",
				x.name,
				x.Where(),
				ptr.Deref(x.Deployment.Spec.Replicas, 1),
			),
		)
	}
	marks := p.marks()
	r.Counts = p.count(marks)
	policy, ofConfiguration := p.policy(read)
	r.add("configuration", ofConfiguration...)
	for _, rule := range []struct {
		name string
		find func(*Picture) []finding.Finding
	}{
		{"started-again", startedAgain},
		{"several-controllers", twice},
		{"other-clusters", elsewhere},
		{"unknown-kinds", strangers},
		{"unreadable-versions", unreadable},
		{"unknown-features", variants},
		{"goes-on-running", stays},
		{"appwrapper-settings", wrapperSettings},
		{"old-versions", oldVersions},
		{"helm-release", helm},
	} {
		r.add(rule.name, rule.find(p)...)
	}
	if n := r.Counts.Unplaced; n > 0 {
		r.add(
			"unknown-roles",
			found(
				finding.Warning,
				fmt.Sprintf("%d pods", n),
				"it is not known which role of their job they have: they are counted with it, and as used on their nodes",
				"",
			),
		)
	}
	o := p.foresee(policy, marks)
	r.Starts, r.Evicts, r.Quota = append(
		r.Starts,
		o.starts...), append(
		r.Evicts,
		o.stops...), append(
		r.Quota,
		o.uses...)
	for _, u := range o.uses {
		if u.differs {
			told := view.Amounts(u.Resource, u.Before, u.After)
			r.add(
				"quota-differs",
				found(
					finding.Warning,
					"clusterqueue/"+u.Queue,
					fmt.Sprintf(
						"has given %s of %s of flavor %s, and mlbatch counts %s by what the Workloads were admitted with",
						told[0],
						u.Resource,
						u.Flavor,
						told[1],
					),
					"",
				),
			)
		}
	}
	for _, s := range o.stops {
		r.add(
			"would-evict",
			found(
				finding.Error,
				s.Job,
				"mlbatch would evict it: "+s.Why,
				"look at its queue: mlbatch import "+string(p.System)+" --dry-run -o yaml",
			),
		)
	}
	finding.Sort(r.Findings)
	return r
}

// add adds what a rule found.
func (r *Report) add(rule string, found ...finding.Finding) {
	for _, f := range found {
		f.Rule = rule
		r.Findings = append(r.Findings, f)
	}
}

// found is a finding about an object.
func found(severity finding.Severity, about, message, cure string) finding.Finding {
	return finding.Finding{Severity: severity, Object: about, Message: message, Cure: cure}
}

// Stopping are the findings that keep an import from being done.
func (r *Report) Stopping() []finding.Finding {
	return slices.DeleteFunc(
		slices.Clone(r.Findings),
		func(f finding.Finding) bool { return f.Severity != finding.Error },
	)
}

func (p *Picture) count(marks []Mark) Counts {
	var c Counts
	for i := range p.Workloads {
		w := &p.Workloads[i]
		switch {
		case convert.Finished(w):
			c.Finished++
		case convert.Evicted(w) && w.Status.Admission != nil:
			c.Evicting++
		case w.Status.Admission != nil:
			c.Running++
		case !ptr.Deref(w.Spec.Active, true):
			c.Held++
		default:
			c.Waiting++
		}
	}
	holders := p.holders()
	for i := range p.Pods {
		if !convert.PodState(&p.Pods[i]).Ended && p.workloadOf(&p.Pods[i], holders) != nil {
			c.Pods++
		}
	}
	for _, m := range marks {
		c.Unmarked++
		if m.PodSet == "" {
			c.Unplaced++
		}
	}
	for i := range p.AppWrappers {
		c.Wrappers++
		if p.AppWrappers[i].Status.Phase == "Resetting" {
			c.Resetting++
		}
	}
	return c
}

// policy reads Kueue's file.
func (p *Picture) policy(read ReadPolicy) (Policy, []finding.Finding) {
	if !slices.ContainsFunc(p.Programs, func(r Program) bool { return r.name == kueueName }) {
		return Policy{}, nil // there is none to read
	}
	if p.Configuration == "" {
		return Policy{}, []finding.Finding{
			found(
				finding.Warning,
				"configuration",
				"Kueue's was not found: what was set in it is not known to mlbatch",
				"give mlbatch install the file: docs/configuration.md",
			),
		}
	}
	policy, notices, err := read(p.ConfigurationName, p.Configuration)
	if err != nil {
		return policy, []finding.Finding{
			found(
				finding.Warning,
				p.ConfigurationName,
				"mlbatch refuses it: "+err.Error(),
				"correct a copy, and give mlbatch install that: mlbatch controller --config FILE --check-config",
			),
		}
	}
	var out []finding.Finding
	for _, n := range notices {
		out = append(out, found(finding.Note, p.ConfigurationName, n, ""))
	}
	return policy, out
}

// startedAgain finds programs that somebody starts again when they are stopped.
func startedAgain(p *Picture) (out []finding.Finding) {
	for _, r := range p.Programs {
		if owner := metav1.GetControllerOf(&r.Deployment); owner != nil {
			out = append(
				out,
				found(
					finding.Error,
					"deployment/"+r.Where(),
					fmt.Sprintf("belongs to %s %s, which starts it again when it is stopped", owner.Kind, owner.Name),
					"have that stop managing it: of a ClusterServiceVersion, delete the Subscription first and then take the owner reference off the Deployment",
				),
			)
		}
		for key := range r.Deployment.Annotations {
			if strings.HasPrefix(key, "argocd.argoproj.io/") {
				out = append(
					out,
					found(
						finding.Error,
						"deployment/"+r.Where(),
						"Argo CD keeps it, and starts it again when it is stopped",
						"turn off automated sync of its Application",
					),
				)
			}
		}
	}
	return out
}

// twice finds a second Kueue.
func twice(p *Picture) []finding.Finding {
	var where []string
	for _, r := range p.Programs {
		if r.name == kueueName {
			where = append(where, r.Where())
		}
	}
	if len(where) < 2 {
		return nil
	}
	return []finding.Finding{
		found(
			finding.Error,
			kueueName,
			"there are several: "+some(where),
			"remove all but the one that decides: kubectl get leases -A tells which",
		),
	}
}

// elsewhere finds jobs that run in other clusters.
func elsewhere(p *Picture) (out []finding.Finding) {
	const controller = "kueue.x-k8s.io/multikueue"
	checks := map[kueue.AdmissionCheckReference]bool{}
	for i := range p.Checks {
		if p.Checks[i].Spec.ControllerName == controller {
			checks[kueue.AdmissionCheckReference(p.Checks[i].Name)] = true
		}
	}
	for i := range p.Queues {
		s := p.Queues[i].Spec.AdmissionChecksStrategy
		if s != nil &&
			slices.ContainsFunc(
				s.AdmissionChecks,
				func(r kueue.AdmissionCheckStrategyRule) bool { return checks[r.Name] },
			) {
			out = append(
				out,
				found(
					finding.Warning,
					"clusterqueue/"+p.Queues[i].Name,
					"sends jobs to other clusters (MultiKueue): mlbatch sends none, and its jobs wait for the check",
					"take the check out of spec.admissionChecksStrategy",
				),
			)
		}
	}
	var away []string
	for i := range p.Workloads {
		if w := &p.Workloads[i]; holds(w) && ptr.Deref(w.Status.ClusterName, "") != "" {
			away = append(away, w.Namespace+"/"+w.Name)
		}
	}
	if len(away) > 0 {
		out = append(
			out,
			found(
				finding.Error,
				"MultiKueue",
				"jobs run in other clusters, and nobody would bring back how they end: "+some(away),
				"wait until they have ended, or cancel them",
			),
		)
	}
	return out
}

// strangers finds jobs of kinds that mlbatch does not know.
func strangers(p *Picture) (out []finding.Finding) {
	known, running, waiting := kinds.All(), map[string][]string{}, map[string][]string{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		owner := metav1.GetControllerOf(w)
		if owner == nil || convert.Finished(w) {
			continue
		}
		gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		if known.Find(gvk) != nil || isKnown(gvk) {
			continue
		}
		into := waiting
		if holds(w) {
			into = running
		}
		into[gvk.Kind+"."+gvk.GroupVersion().String()] = append(
			into[gvk.Kind+"."+gvk.GroupVersion().String()],
			w.Namespace+"/"+owner.Name,
		)
	}
	for _, kind := range sortedKeys(running) {
		out = append(
			out,
			found(
				finding.Error,
				kind,
				"mlbatch does not queue this kind; jobs of it run, whose quota nobody would give back: "+some(
					running[kind],
				),
				"wait until they have ended, or put them into AppWrappers",
			),
		)
	}
	for _, kind := range sortedKeys(waiting) {
		out = append(
			out,
			found(
				finding.Warning,
				kind,
				"mlbatch does not queue this kind: these jobs wait and do not start: "+some(waiting[kind]),
				"put them into AppWrappers",
			),
		)
	}
	return out
}

// isKnown reports whether a kind is queued without an adapter: pods, and sets of groups.
func isKnown(gvk schema.GroupVersionKind) bool {
	return slices.Contains(
		[]string{
			"Pod",
			"StatefulSet.apps",
			"LeaderWorkerSet.leaderworkerset.x-k8s.io",
			"ReplicaSet.apps",
			"Deployment.apps",
		},
		gvk.GroupKind().String(),
	)
}

// variants finds what else is other here.
func variants(p *Picture) (out []finding.Finding) {
	for i := range p.Queues {
		if p.Queues[i].Spec.ConcurrentAdmissionPolicy != nil {
			out = append(
				out,
				found(
					finding.Warning,
					"clusterqueue/"+p.Queues[i].Name,
					"has concurrentAdmissionPolicy, which has no effect: a job tries all flavors at once",
					"",
				),
			)
		}
	}
	var slices []string
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !convert.Finished(w) && w.Annotations[kueue.WorkloadSliceNameAnnotation] != "" {
			slices = append(slices, w.Namespace+"/"+w.Name)
		}
	}
	if len(slices) > 0 {
		out = append(
			out,
			found(
				finding.Error,
				"elastic jobs",
				"Workloads are slices of elastic jobs, which mlbatch does not know: of several it would keep one: "+some(
					slices,
				),
				"take off the annotation elastic-job, or wait until they have ended",
			),
		)
	}
	var back []string
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadEvicted,
		); c != nil && c.Status == metav1.ConditionTrue && w.Status.Admission != nil &&
			!convert.Finished(w) {
			back = append(back, w.Namespace+"/"+w.Name)
		}
	}
	if len(back) > 0 {
		out = append(
			out,
			found(finding.Note, "evictions", "Kueue is evicting these; mlbatch goes on with it: "+some(back), ""),
		)
	}
	return out
}

// stays finds programs that are needed for now.
func stays(p *Picture) (out []finding.Finding) {
	for _, r := range p.Programs {
		if why := p.needs(r); why != "" && r.runs() {
			out = append(
				out,
				found(
					finding.Note,
					"deployment/"+r.Where(),
					r.name+" goes on running: "+why,
					"once they have ended: mlbatch import "+string(p.System),
				),
			)
		}
	}
	return out
}

// needs says why a program may not be stopped yet.
func (p *Picture) needs(r Program) string {
	if r.needed == nil {
		return ""
	}
	return r.needed(p, &r.Deployment)
}

// wrapperSettings finds what the AppWrapper controller's file says that is said elsewhere here.
func wrapperSettings(p *Picture) (out []finding.Finding) {
	if p.WrapperConfiguration == "" {
		return nil
	}
	var f struct {
		AppWrapper struct {
			Defaults      map[string]any `json:"faultTolerance"`
			SchedulerName string         `json:"schedulerName"`
			DefaultQueue  string         `json:"defaultQueueName"`
			SlackQueue    string         `json:"slackQueueName"`
			Checked       *bool          `json:"userRBACAdmissionCheck"`
			Autopilot     map[string]any `json:"autopilot"`
		} `json:"appwrapper"`
	}
	const about = "AppWrapper configuration"
	if err := yaml.Unmarshal([]byte(p.WrapperConfiguration), &f); err != nil {
		return []finding.Finding{found(finding.Warning, about, "cannot be read: "+err.Error(), "")}
	}
	a := f.AppWrapper
	if a.DefaultQueue != "" && a.DefaultQueue != "default-queue" {
		out = append(
			out,
			found(
				finding.Warning,
				about,
				"defaultQueueName is "+a.DefaultQueue,
				"give the controller --default-queue "+a.DefaultQueue,
			),
		)
	}
	if a.SlackQueue != "" && a.SlackQueue != "slack-cluster-queue" {
		out = append(
			out,
			found(
				finding.Warning,
				about,
				"slackQueueName is "+a.SlackQueue,
				"give the controller --slack-queue "+a.SlackQueue,
			),
		)
	}
	if a.SchedulerName != "" {
		out = append(
			out,
			found(
				finding.Note,
				about,
				"schedulerName is "+a.SchedulerName+": jobs that start from now on go to mlbatch's scheduler",
				"",
			),
		)
	}
	if len(a.Defaults) > 0 {
		out = append(
			out,
			found(
				finding.Warning,
				about,
				"faultTolerance sets defaults ("+some(
					sortedKeys(a.Defaults),
				)+"), which mlbatch has at AppWrapper's own values",
				"say them in annotations of AppWrappers: docs/jobs.md",
			),
		)
	}
	if a.Checked == nil || *a.Checked {
		out = append(
			out,
			found(
				finding.Note,
				about,
				"userRBACAdmissionCheck is on: mlbatch asks for the author's own rights as well, unless their team wraps what its role allows",
				"",
			),
		)
	}
	return out
}

// oldVersions finds what is stored in a version that is not the newest.
func oldVersions(p *Picture) (out []finding.Finding) {
	var names []string
	for i := range p.Definitions {
		if d := &p.Definitions[i]; len(d.Status.StoredVersions) > 1 || liftable(d) ||
			p.OldOnly && d.Spec.Group == kueue.GroupVersion.Group {
			names = append(names, d.Name)
		}
	}
	if len(names) > 0 {
		out = append(
			out,
			found(
				finding.Note,
				"stored versions",
				"objects may be stored in an old version, and are written again in the newest: "+some(names),
				"",
			),
		)
	}
	if p.OldOnly {
		out = append(
			out,
			found(
				finding.Note,
				kueueName,
				"it is a version that knows v1beta1 only: once objects are stored in v1beta2, which is the last step, it cannot come back",
				"",
			),
		)
	}
	return out
}

// helm finds definitions that are deleted with Kueue's chart.
func helm(p *Picture) []finding.Finding {
	for _, r := range p.Programs {
		if r.Deployment.Labels["app.kubernetes.io/managed-by"] == "Helm" {
			return []finding.Finding{
				found(
					finding.Note,
					"deployment/"+r.Where(),
					"was installed by Helm: helm uninstall would delete the definitions, and with them all queues and Workloads",
					"leave the release, or first: helm get manifest, and delete single objects by name",
				),
			}
		}
	}
	return nil
}
