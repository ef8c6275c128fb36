package mpijob

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sshkeys"
)

// artifacts are what a job has beside its pods.
func artifacts(o jobs.Object, p *jobs.Plan, s *jobs.Progress) ([]jobs.Artifact, error) {
	j, ok := o.(api.Job)
	if !ok {
		return nil, fmt.Errorf("read MPIJob: %T is none", o)
	}
	if p == nil || p.Role(launcher) == nil {
		return nil, nil
	}
	if isV1(o) {
		return withExec(j, p, s), nil
	}
	return withSSH(j, p), nil
}

func named(j api.Job, ending string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: j.GetNamespace(), Name: j.GetName() + ending, Labels: artifactLabels(j)}
}

func artifactLabels(j api.Job) map[string]string {
	return map[string]string{"app": j.GetName(), api.JobNameLabel: j.GetName()}
}

// withSSH are a service under whose name the pods are found, the files of the launcher and
// the keys.
func withSSH(j api.Job, p *jobs.Plan) []jobs.Artifact {
	s := withDefaults(j)
	services := &corev1.Service{
		ObjectMeta: named(j, ""),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector: map[string]string{
				api.OperatorNameLabel: p.Role(launcher).Labels[api.OperatorNameLabel], api.JobNameLabel: j.GetName(),
			},
			// A launcher that is a worker is looked for before it is ready: by itself.
			PublishNotReadyAddresses: ptr.Deref(s.RunLauncherAsWorker, false),
		},
	}
	files := &corev1.ConfigMap{
		ObjectMeta: named(j, "-config"),
		Data:       map[string]string{hostfile: hosts(j, s, p), discover: discoverByName(*s.SlotsPerWorker)},
	}
	keys := &corev1.Secret{ObjectMeta: named(j, "-ssh"), Type: corev1.SecretTypeSSHAuth}
	return []jobs.Artifact{{Object: services}, {Object: files}, {Object: keys, Fill: sshkeys.Fill}}
}

// withExec are the files of the launcher, and the account that may run commands in the
// workers.
func withExec(j api.Job, p *jobs.Plan, s *jobs.Progress) []jobs.Artifact {
	settings := withDefaults(j)
	out := []jobs.Artifact{{Object: &corev1.ConfigMap{
		ObjectMeta: named(j, "-config"),
		Data: map[string]string{
			hostfile: hosts(
				j,
				settings,
				p,
			),
			kubexec:  kubexecScript(mainContainer(settings, p)),
			discover: discoverByPod(*settings.SlotsPerWorker),
		},
	}}}
	if t := p.TemplateOf(
		podplan.Member{Role: launcher},
	); t == nil ||
		t.Spec.ServiceAccountName != j.GetName()+"-launcher" {
		return out
	}
	account := named(j, "-launcher")
	return append(out,
		jobs.Artifact{Object: &corev1.ServiceAccount{ObjectMeta: *account.DeepCopy()}},
		jobs.Artifact{Object: &rbacv1.Role{ObjectMeta: *account.DeepCopy(), Rules: rules(p, s)}},
		jobs.Artifact{Object: &rbacv1.RoleBinding{
			ObjectMeta: account,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name},
			},
		}},
	)
}

// rules are what a launcher may do: look at the workers of its job and run commands in
// them. A rule names pods and cannot say whose they are, so that there is none unless each of
// these names is that of a worker: another's pod could be called like one that is missing.
func rules(p *jobs.Plan, s *jobs.Progress) []rbacv1.PolicyRule {
	r := p.Role(worker)
	if r == nil || r.Count == 0 {
		return nil
	}
	if t := s.Counts[worker]; t.Active+t.Failed < r.Count {
		return nil
	}
	names := make([]string, r.Count)
	for i := range names {
		names[i] = r.Expand(r.Member, int32(i))
	}
	out := grants()
	for i := range out {
		out[i].ResourceNames = names
	}
	return out
}

// grants are the rights of launchers, to pods of any name.
func grants() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
	}
}

// withDefaults are the settings of a job as they are read.
func withDefaults(j api.Job) *api.MPIJobSpec {
	s := *spec(j)
	s.RunPolicy = api.RunPolicy{} // not asked for, and fill would change the job's own
	if s.SlotsPerWorker == nil {
		s.SlotsPerWorker = new(int32(1))
	}
	if s.MPIImplementation == "" {
		s.MPIImplementation = api.MPIImplementationOpenMPI
	}
	return &s
}

// mainContainer is the container of a worker in which processes are started.
func mainContainer(s *api.MPIJobSpec, p *jobs.Plan) string {
	if s.MainContainer != "" {
		return s.MainContainer
	}
	if t := p.TemplateOf(podplan.Member{Role: worker}); t != nil {
		return t.Spec.Containers[0].Name
	}
	return ""
}

// hosts is the content of the hostfile: a line for each pod that runs processes.
func hosts(j api.Job, s *api.MPIJobSpec, p *jobs.Plan) string {
	domain, slots := lineAround(j, s)
	var b strings.Builder
	line := func(name string) {
		b.WriteString(name)
		b.WriteString(domain)
		b.WriteString(slots)
	}
	if first(j, s, p) {
		line(j.GetName() + "-launcher")
	}
	if r := p.Role(worker); r != nil {
		name := strings.TrimSuffix(r.Member, "{index}")
		b.Grow(int(r.Count) * (len(r.Member) + len(domain) + len(slots)))
		for i := range int(r.Count) {
			line(name + strconv.Itoa(i))
		}
	}
	return b.String()
}

// lineAround is what follows the name of a pod in the hostfile: where it is found, and how
// many processes it runs.
func lineAround(j api.Job, s *api.MPIJobSpec) (domain, slots string) {
	n := strconv.Itoa(int(*s.SlotsPerWorker))
	if isV1(j) {
		return "", " slots=" + n + "\n"
	}
	domain = "." + j.GetName() + "." + j.GetNamespace() + ".svc"
	if s.MPIImplementation == api.MPIImplementationOpenMPI {
		return domain, " slots=" + n + "\n"
	}
	return domain, ":" + n + "\n"
}

// first reports whether the launcher runs processes, too: as its author says, and in v1 if it
// has GPUs.
func first(j api.Job, s *api.MPIJobSpec, p *jobs.Plan) bool {
	if !isV1(j) {
		return ptr.Deref(s.RunLauncherAsWorker, false)
	}
	t := p.TemplateOf(podplan.Member{Role: launcher})
	return t != nil && hasGPU(&t.Spec)
}
