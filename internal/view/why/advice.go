package why

import (
	"cmp"
	"fmt"
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/words"
)

// remarked adds a remark to advice: before the command in it, which is copied as it stands.
func remarked(text, remark string) string {
	for _, program := range []string{"kubectl", "mlbatch"} {
		if said, command, found := strings.Cut(text, ": "+program+" "); found {
			return said + remark + ": " + program + " " + command
		}
	}
	return text + remark
}

// adviceText says what to do about a workload that was asked about.
func adviceText(a visibility.Advice, x *visibility.Explanation) string {
	of := ""
	if a.PodSet != "" && a.PodSet != "main" {
		of = " in pod set " + a.PodSet
	}
	switch core.AdviceKind(a.Kind) {
	case core.FewerPods:
		return fmt.Sprintf("ask for %s%s", words.Count(int(a.Count), "pod"), of)
	case core.SmallerPods:
		if a.Amount.IsZero() {
			return fmt.Sprintf("ask for no %s%s", a.Resource, of)
		}
		return fmt.Sprintf("ask for %s %s per pod%s", a.Amount, a.Resource, of)
	case core.Tolerate:
		return fmt.Sprintf("tolerate %s%s%s", strings.Join(a.Detail, " and "), of, flavorText(a))
	case core.RequireLevel, core.PreferLevel:
		if len(a.Detail) > 0 {
			of = " in pod sets " + strings.Join(append([]string{a.PodSet}, a.Detail...), " and ")
		}
		return otherLevel(&a, of)
	case core.DropSelector:
		return fmt.Sprintf("leave out the requirement %s%s%s", strings.Join(a.Detail, " and "), of, flavorText(a))
	case core.RaisePriority:
		return fmt.Sprintf(
			"submit it with priority %d (priorityClassName %s)",
			a.Priority,
			strings.Join(a.PriorityClasses, " or "),
		)
	case core.OtherQueue:
		return fmt.Sprintf("submit it to LocalQueue %s (label %s)", a.Queue, kueue.QueueNameLabel)
	case core.Release:
		return "end the hold: " + strings.Join(a.Detail, ", ")
	case core.AwaitBackOff:
		return "wait: it comes back to its queue by itself"
	case core.AwaitRuntime:
		if a.At == nil {
			return "wait: jobs that may be stopped for it have not run for their minimum runtime"
		}
		return fmt.Sprintf(
			"wait: jobs that may be stopped for it have run for their minimum runtime at %s",
			a.At.UTC().Format("2006-01-02 15:04:05"),
		)
	case core.AwaitRelocation:
		if a.At == nil {
			return "wait: of the jobs that may move to other nodes for it, as many did within the hour as may"
		}
		return fmt.Sprintf(
			"wait: one more of the jobs that may move to other nodes for it does at %s",
			a.At.UTC().Format("2006-01-02 15:04:05"),
		)
	case core.AllowRelocation:
		return fmt.Sprintf(
			"let jobs of ClusterQueue %s move to other nodes, one within an hour: kubectl annotate clusterqueues.kueue.x-k8s.io %s --overwrite %s=1",
			a.Queue,
			a.Queue,
			kueue.RelocationsPerHourAnnotation,
		)
	case core.WaitFor:
		return "wait for the end of " + refers(a.Workloads)
	case core.AwaitLeaving:
		if len(a.Workloads) == 0 {
			return "wait: others are being stopped for it"
		}
		return "wait: being stopped already " + words.Verb(
			len(a.Workloads),
			"is",
			"are",
		) + " " + refers(
			a.Workloads,
		)
	case core.Uncordon:
		return "uncordon: kubectl uncordon " + strings.Join(a.Nodes, " ")
	case core.RepairNode:
		return fmt.Sprintf("bring back %s (%s)", strings.Join(a.Nodes, ", "), strings.Join(a.Detail, ", "))
	case core.RemovePods:
		if len(a.Pods) > 0 {
			return "delete pods that no queue knows: " + strings.Join(a.Pods, ", ")
		}
		return "remove the pods on " + strings.Join(a.Nodes, ", ") + " that no queue knows"
	case core.ResumeQueue:
		return fmt.Sprintf("resume ClusterQueue %s: mlbatch queue resume %s", a.Queue, a.Queue)
	case core.PreemptBorrowing:
		return fmt.Sprintf(
			"let jobs of ClusterQueue %s that borrow stop others of lower priority, which spec.preemption.borrowWithinCohort forbids: "+
				`kubectl patch clusterqueues.kueue.x-k8s.io %s --type merge -p '{"spec":{"preemption":{"borrowWithinCohort":{"policy":"LowerPriority"}}}}'`,
			a.Queue,
			a.Queue,
		)
	case core.ResumeLocal:
		return fmt.Sprintf("resume LocalQueue %s: mlbatch queue resume -n %s %s", a.Queue, x.Namespace, a.Queue)
	case core.OpenGate:
		return openGate(strings.Join(a.Detail, ", "))
	}
	return a.Kind
}

// otherLevel says of which level one domain should be required, or preferred, for pods.
func otherLevel(a *visibility.Advice, of string) string {
	annotation, text := kueue.PodSetRequiredTopologyAnnotation, fmt.Sprintf(
		"let its pods%s be in one %s and not in one %s", of, a.Level, a.Instead,
	)
	if core.AdviceKind(a.Kind) == core.PreferLevel {
		annotation, text = kueue.PodSetPreferredTopologyAnnotation, fmt.Sprintf(
			"prefer one %s for its pods%s and do not require it", a.Level, of,
		)
	}
	text += ": annotation " + annotation + " of the pods"
	if a.Affinity {
		text += ", in place of their podAffinity"
	}
	if len(a.Workloads) > 0 {
		text += ", and wait for the end of " + refers(a.Workloads)
	}
	return text
}

// openGate says how a gate is opened; that of a job that comes after others opens by itself.
func openGate(gate string) string {
	jobs, others := strings.CutPrefix(gate, kueue.AfterAnnotation+" (")
	if !others || !strings.HasSuffix(jobs, ")") {
		return "open the gate " + gate
	}
	if strings.Contains(jobs, kueue.AfterNever) {
		return fmt.Sprintf(
			"submit what it comes after anew under the same name (%s, cancel this job, or remove its annotation %s, and it waits for no other",
			jobs,
			kueue.AfterAnnotation,
		)
	}
	return fmt.Sprintf(
		"wait for what it comes after (%s, or remove the annotation %s of the job, and it waits for no other",
		jobs,
		kueue.AfterAnnotation,
	)
}

func flavorText(a visibility.Advice) string {
	if a.Flavor == "" {
		return ""
	}
	return " (it then gets flavor " + a.Flavor + ")"
}

func refers(list []visibility.WorkloadReference) string {
	parts := make([]string, len(list))
	for i, r := range list {
		parts[i] = refer(r)
	}
	return strings.Join(parts, " and ")
}

// helps turns tried advice into lines: what the asker may do first.
func (e *Explanation) helps(x *visibility.Explanation) {
	var own, others []string
	for _, a := range x.Advice {
		text := adviceText(a, x)
		who := fmt.Sprintf("an administrator (who may %s)", a.Needs)
		if a.Kind == string(core.Release) && e.release != "" {
			text, who = e.release, cmp.Or(e.holder, who)
		}
		if a.Preempts > 0 {
			text = remarked(text, fmt.Sprintf(" (it then stops %s)", words.Count(int(a.Preempts), "other job")))
		}
		if a.Allowed {
			own = append(own, text)
			continue
		}
		others = append(others, fmt.Sprintf("ask %s to %s", who, text))
	}
	e.Advice = append(own, others...)
}
