package install_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mlbatch/mlbatch/internal/agent"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

func withAgents() install.Values {
	v := install.DefaultValues("v1.2.3")
	v.Agent.Enabled, v.CRDs.Enabled = true, false
	return v
}

func TestAgentsAreThereForWhoAsks(t *testing.T) {
	v := install.DefaultValues("v1.2.3")
	v.CRDs.Enabled = false
	for _, o := range render(t, v).all() {
		if strings.Contains(o.GetName(), "agent") {
			t.Errorf("%s %s is there although nobody asked", o.GetKind(), o.GetName())
		}
	}
	if n := len(of[appsv1.DaemonSet](render(t, withAgents()), "DaemonSet")); n != 1 {
		t.Errorf("%d DaemonSets", n)
	}
}

// What agents may is a list: whoever takes a node over has it.
func TestAgentsMayLittle(t *testing.T) {
	m := render(t, withAgents())
	var got []string
	for _, r := range of[rbacv1.Role](m, "Role") {
		if r.Name == install.Agent {
			got = append(got, said(r.Rules)...)
		}
	}
	for _, r := range of[rbacv1.ClusterRole](m, "ClusterRole") {
		if r.Name == install.Agent {
			got = append(got, said(r.Rules)...)
		}
	}
	want := []string{
		"get update leases mlbatch-agent-deep",
		"get list patch nodes ", "list pods ", "create tokenreviews ", "create subjectaccessreviews ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("agents may\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Who takes a node over makes no claims where nobody asked for volumes to be checked.
func TestAgentsMakeClaimsOnlyIfTheyCheckVolumes(t *testing.T) {
	v := withAgents()
	for config, want := range map[string]bool{"checks: [ping, pvc]\n": true, "checks: [ping]\n": false, "broken: [": false} {
		v.Agent.Config = config
		got := false
		for _, r := range of[rbacv1.Role](render(t, v), "Role") {
			if r.Name == install.Agent {
				got = slices.Contains(said(r.Rules), "create delete get persistentvolumeclaims ")
			}
		}
		if got != want {
			t.Errorf("with %q they may make claims: %v", config, got)
		}
	}
}

func said(rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		out = append(
			out,
			strings.Join(append(slices.Clone(r.Verbs), r.Resources...), " ")+" "+strings.Join(r.ResourceNames, " "),
		)
	}
	return out
}

func TestRolesKnowAllThatAgentsAnswer(t *testing.T) {
	for _, r := range of[rbacv1.ClusterRole](render(t, withAgents()), "ClusterRole") {
		if r.Name != install.AgentViewerRole && r.Name != install.AgentOperatorRole {
			continue
		}
		if !slices.Equal(r.Rules[0].NonResourceURLs, agent.Paths()) {
			t.Errorf("%s is for %q, agents answer %q", r.Name, r.Rules[0].NonResourceURLs, agent.Paths())
		}
	}
}

// Autopilot's chart could not run on pools with taints.
func TestAgentsRunOnNodesWithAnyTaint(t *testing.T) {
	d := of[appsv1.DaemonSet](render(t, withAgents()), "DaemonSet")[0]
	taint := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoExecute}
	if !slices.ContainsFunc(d.Spec.Template.Spec.Tolerations, func(x corev1.Toleration) bool {
		return x.Operator == corev1.TolerationOpExists && (x.Key == "" || x.Key == taint.Key) && x.Effect == ""
	}) {
		t.Errorf("tolerates %v", d.Spec.Template.Spec.Tolerations)
	}
}

// A file that is mounted by itself would stay the one that logrotate renamed.
func TestTheDirectoryOfTheKernelLogIsSeen(t *testing.T) {
	v := withAgents()
	v.Agent.KernelLog = "/var/log/kern.log"
	s := of[appsv1.DaemonSet](render(t, v), "DaemonSet")[0].Spec.Template.Spec
	i := slices.IndexFunc(s.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
	if i < 0 || s.Volumes[i].HostPath.Path != "/var/log" ||
		*s.Volumes[i].HostPath.Type != corev1.HostPathDirectory {
		t.Fatalf("volumes are %v", s.Volumes)
	}
	c := s.Containers[0]
	for _, m := range c.VolumeMounts {
		if m.Name == s.Volumes[i].Name &&
			(!m.ReadOnly || !slices.Contains(c.Args, "--kernel-log="+m.MountPath+"/kern.log")) {
			t.Errorf("mounted %+v, read by %q", m, c.Args)
		}
	}
}

func TestAFileOfTheNodeIsSeenOnlyIfSomebodyNamesOne(t *testing.T) {
	for file, level := range map[string]string{"": "restricted", "/var/log/kern.log": "privileged"} {
		v := withAgents()
		v.Agent.KernelLog = file
		m := render(t, v)
		paths := 0
		for _, volume := range of[appsv1.DaemonSet](m, "DaemonSet")[0].Spec.Template.Spec.Volumes {
			if volume.HostPath != nil {
				paths++
			}
		}
		namespace := of[corev1.Namespace](m, "Namespace")[0]
		if got := namespace.Labels["pod-security.kubernetes.io/enforce"]; got != level ||
			(paths > 0) != (file != "") {
			t.Errorf("with %q: %d files of nodes, level %s", file, paths, got)
		}
	}
	for file, fits := range map[string]bool{
		"/var/log/kern.log": true, "/dmesg": false, "/log/dmesg": true, "/dev/kmsg": false, "/dev": false, "kern.log": false, "/": false,
		"/var/log/../../dev/mem": false,
	} {
		v := withAgents()
		v.Agent.KernelLog = file
		if got := len(v.Validate()) == 0; got != fits {
			t.Errorf("%s: taken is %t", file, got)
		}
	}
}
