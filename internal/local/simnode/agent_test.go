package simnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func byCode(op corev1.ContainerRestartRuleOnExitCodesOperator, code int32) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: []int32{code}},
	}}
}

// withAgent has an agent beside the pod's container, which restarts all if it fails.
func withAgent(p *corev1.Pod) {
	p.Spec.Containers[0].Command = []string{"sleep", "1000"}
	p.Spec.Containers[0].RestartPolicyRules = byCode(corev1.ContainerRestartRuleOnExitCodesOpNotIn, 0)
	p.Spec.InitContainers = []corev1.Container{{
		Name: "agent", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		RestartPolicyRules: byCode(corev1.ContainerRestartRuleOnExitCodesOpIn, 42),
		StartupProbe:       &corev1.Probe{PeriodSeconds: 1},
		Env:                []corev1.EnvVar{{Name: agentJobSet, Value: "js"}, {Name: agentExit, Value: "42"}},
	}}
}

// agentRuns has the agent as the pod's container, which runs the worker.
func agentRuns(p *corev1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = byCode(corev1.ContainerRestartRuleOnExitCodesOpNotIn, 0)
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: agentJobSet, Value: "js"}, {Name: agentWorker, Value: "sleep 1000"}, {Name: agentExit, Value: "42"},
	}
}

// agentPod is a pod with what its agent knows from one decision to the next.
type agentPod struct {
	*corev1.Pod
	facts AgentFacts
}

// decide decides until nothing follows at once.
func (p *agentPod) decide(now time.Time) (wake time.Time) {
	for range 10 {
		v := Decide(Facts{Pod: p.Pod, Now: now, Scale: 1, Agent: p.facts})
		if v.Status != nil {
			p.Status = *v.Status
		}
		if v.Claim != nil {
			p.facts.Claimed, p.facts.Run, p.facts.Lifted = v.Claim, runOfAgent(p.Pod), time.Time{}
		}
		if v.Lifted {
			p.facts.Lifted, p.facts.Run = now, runOfAgent(p.Pod)
		}
		if v.Claim == nil && !v.Lifted && (v.Wake.IsZero() || v.Wake.After(now)) {
			return v.Wake
		}
	}
	return now
}

func (p *agentPod) says(current, previous *int32) {
	p.facts.Known, p.facts.Current, p.facts.Previous = true, current, previous
}

// TestAgentsRestartTheirPods: an agent says the attempt after the JobSet's, lets the worker run when the JobSet comes to it,
// and restarts its pod when that is over; a worker that fails does, too. It is the same pod, without a pause.
func TestAgentsRestartTheirPods(t *testing.T) {
	for name, shape := range map[string]func(*corev1.Pod){"beside": withAgent, "runs it": agentRuns} {
		t.Run(name, func(t *testing.T) {
			p := &agentPod{Pod: newPod(shape)}
			worker := func() *corev1.ContainerStatus { return &p.Status.ContainerStatuses[0] }
			works := func() bool { return worker().State.Running != nil && !p.facts.Lifted.IsZero() }
			p.decide(at(0))
			if p.facts.Claimed != nil || works() {
				t.Fatalf("without a JobSet it says %v", p.facts)
			}
			p.says(nil, nil)
			p.decide(at(1))
			if p.facts.Claimed == nil || *p.facts.Claimed != 0 || works() {
				t.Fatalf("it begins with %+v", p.facts)
			}
			p.says(new(int32(0)), nil)
			if wake := p.decide(at(1.5)); name == "beside" && (!wake.Equal(at(2)) || works()) {
				t.Errorf("its probe comes at %v", wake)
			}
			p.decide(at(2))
			if !works() || p.Status.Phase != corev1.PodRunning {
				t.Fatalf("the worker does not run: %+v", p.Status)
			}
			p.Annotations = map[string]string{AnnotationCrashRun: "1"}
			p.decide(at(10))
			if *p.facts.Claimed != 1 || worker().RestartCount != 1 || works() || p.Status.Phase == corev1.PodFailed {
				t.Fatalf("after a crash it is %+v: %+v", p.facts, p.Status)
			}
			if last := worker().LastTerminationState.Terminated; last == nil || last.Reason != restartingAll ||
				last.ExitCode != 137 {
				t.Errorf("it says of its end %+v", last)
			}
			if restartsAll(&p.Status) {
				t.Error("it says that it still restarts")
			}
			p.says(new(int32(1)), new(int32(0)))
			p.decide(at(11))
			if !works() {
				t.Fatalf("the worker does not run again: %+v", p.Status)
			}
			p.says(new(int32(1)), new(int32(1))) // another pod began anew
			p.decide(at(12))
			if *p.facts.Claimed != 2 || worker().RestartCount != 2 || works() {
				t.Fatalf("after a signal it is %+v: %+v", p.facts, p.Status)
			}
		})
	}
}

// TestAllContainersRestartIsToldFirst: a kubelet says that all restart, with the exit code of who wants that, before it
// removes them.
func TestAllContainersRestartIsToldFirst(t *testing.T) {
	p := newPod(command("sleep", "5"), annotated(AnnotationExitCode, "3"), func(p *corev1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = byCode(corev1.ContainerRestartRuleOnExitCodesOpIn, 3)
	})
	p.Status = *Decide(Facts{Pod: p, Now: at(0), Scale: 1}).Status
	v := Decide(Facts{Pod: p, Now: at(5), Scale: 1})
	if c := v.Status.ContainerStatuses[0].State.Terminated; c == nil || c.ExitCode != 3 ||
		!restartsAll(v.Status) || v.Status.Phase != corev1.PodRunning || !v.Wake.Equal(at(5)) {
		t.Fatalf("it is %+v", v.Status)
	}
	p.Status = *v.Status
	p.Status = *Decide(Facts{Pod: p, Now: at(5), Scale: 1}).Status
	if c := p.Status.ContainerStatuses[0]; c.State.Running == nil || c.RestartCount != 1 ||
		restartsAll(&p.Status) {
		t.Fatalf("then it is %+v", p.Status)
	}
}

// TestRulesOfContainers: a container's rules go before its own policy, and that before the pod's.
func TestRulesOfContainers(t *testing.T) {
	rule := byCode(corev1.ContainerRestartRuleOnExitCodesOpIn, 3)
	rule[0].Action = corev1.ContainerRestartRuleActionRestart
	for why, tc := range map[string]struct {
		code     int32
		rules    []corev1.ContainerRestartRule
		own      *corev1.ContainerRestartPolicy
		pod      corev1.RestartPolicy
		restarts bool
	}{
		"the pod's":               {1, nil, nil, corev1.RestartPolicyOnFailure, true},
		"the pod's says no":       {1, nil, nil, corev1.RestartPolicyNever, false},
		"its own":                 {1, nil, new(corev1.ContainerRestartPolicyNever), corev1.RestartPolicyOnFailure, false},
		"a rule":                  {3, rule, new(corev1.ContainerRestartPolicyNever), corev1.RestartPolicyNever, true},
		"a rule of other codes":   {4, rule, new(corev1.ContainerRestartPolicyNever), corev1.RestartPolicyNever, false},
		"all restart, not it":     {3, byCode(corev1.ContainerRestartRuleOnExitCodesOpIn, 3), nil, corev1.RestartPolicyAlways, false},
		"a pod that always does":  {0, nil, nil, corev1.RestartPolicyAlways, true},
		"one that does by itself": {0, nil, new(corev1.ContainerRestartPolicyAlways), corev1.RestartPolicyNever, true},
	} {
		p := newPod(policy(tc.pod))
		c := corev1.Container{RestartPolicyRules: tc.rules, RestartPolicy: tc.own}
		if restarting(p, c)(tc.code) != tc.restarts {
			t.Errorf("%s: exit code %d restarts: %v", why, tc.code, !tc.restarts)
		}
	}
}
