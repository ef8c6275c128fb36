package e2e_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// submitted is a job as its user knows it.
type submitted struct {
	name, kind string
	// bySteps says that Kubernetes' own controllers make its pods, which try again after ever longer
	// pauses.
	bySteps bool
}

// submittedIn is the job in a manifest: the object that names a queue.
func submittedIn(t *testing.T, manifest string) submitted {
	t.Helper()
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GetLabels()[kueue.QueueNameLabel] != "" {
			kind := o.GetKind()
			return submitted{
				o.GetName(),
				kind,
				slices.Contains([]string{"Deployment", "StatefulSet", "LeaderWorkerSet"}, kind),
			}
		}
	}
	t.Fatalf("nothing names a queue in\n%s", manifest)
	return submitted{}
}

// containers is where the containers of pods begin in a manifest, in a block or in braces.
var containers = regexp.MustCompile(`(\n +(?:- )?|\{|, )containers:`)

// images are those of containers in a manifest, in a block or in braces.
var images = regexp.MustCompile(`image: [^\s,}]+`)

// unpulled says in its words why an image that is nowhere does not come.
const unpulled = "ImagePullBackOff"

// namesakes are objects of others whose names jobs of the examples need, by the example.
func namesakes() map[string]string {
	return map[string]string{
		"appwrapper":      "Job wrapped",
		"statefulset":     "Pod shards-served-0",
		"leaderworkerset": "Pod serve-0",
		"pytorchjob":      "Pod pytorch-train-master-0",
		"jobset":          "Job jobset-train-leader-0",
		"mpijob":          "ConfigMap mpi-train-config",
		"raycluster":      "Service ray-cluster-head-svc",
		"trainjob":        "JobSet torch-train",
	}
}

// TestNothingIsSilent: jobs of all kinds whose pods may not be made, one cause after the other, say so
// each with that cause, in why and in ps, and doctor says it of all, and have pods once nothing is in
// their way, which say that their image is nowhere. None holds quota before.
func TestNothingIsSilent(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	installRuntimes(t)
	admin := user(t, "")
	manifests, of := longLived(t), map[string]submitted{}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		of[name] = submittedIn(t, manifests[name])
		manifests[name] = images.ReplaceAllString(manifests[name], "image: registry.invalid/work:1")
		manifests[name] = containers.ReplaceAllStringFunc(manifests[name], func(at string) string {
			begin := strings.TrimSuffix(at, "containers:")
			if begin == "{" || begin == ", " {
				return begin + "serviceAccountName: nobody-there, containers:"
			}
			return begin + "serviceAccountName: nobody-there\n" + strings.ReplaceAll(
				strings.TrimPrefix(begin, "\n"),
				"-",
				" ",
			) + "containers:"
		})
		if out, err := kubectl(t, "alice", manifests[name], "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", name, err, out, manifests[name])
		}
		t.Cleanup(func() { _, _ = kubectl(t, "", manifests[name], "delete", "--ignore-not-found", "-n", "blue") })
	}
	level := levels(t, "blue")
	quota := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: no-pods}\nspec: {hard: {pods: \"0\"}}\n"
	account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody-there}\n"
	t.Cleanup(func() {
		_, _ = kubectl(t, "", quota, "delete", "--ignore-not-found", "-n", "blue")
		_, _ = kubectl(t, "", account, "delete", "--ignore-not-found", "-n", "blue")
	})
	must := func(manifest string, args ...string) {
		t.Helper()
		if out, err := kubectl(t, "", manifest, append(args, "-n", "blue")...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, cause := range []struct {
		name  string
		set   func()
		says  string
		first bool
	}{
		{"an account that is not there", func() {}, "nobody-there", true},
		{"a ResourceQuota", func() { must(quota, "apply"); must(account, "apply") }, "exceeded quota", false},
		{"PodSecurity", func() { level(`"restricted"`); must(quota, "delete") }, "violates PodSecurity", false},
	} {
		cause.set()
		for _, name := range slices.Sorted(maps.Keys(of)) {
			job := of[name]
			if job.bySteps && !cause.first {
				continue
			}
			eventually(t, name+" tells of "+cause.name, func() string { return tells(t, job, cause.says) })
		}
		eventually(
			t,
			"doctor tells of "+cause.name,
			func() string { return diagnosed(t, "whose pods may not be made", cause.says) },
		)
		eventually(t, "none of them holds quota", func() string {
			var ws kueue.WorkloadList
			if err := admin.List(t.Context(), &ws, client.InNamespace("blue")); err != nil {
				return err.Error()
			}
			for i := range ws.Items {
				if w := &ws.Items[i]; w.Status.Admission != nil {
					return fmt.Sprintf("%s is admitted: %v", w.Name, reasonsOf(w))
				}
			}
			return ""
		})
	}
	level("")
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name].bySteps { // who makes their pods would try again in minutes
			must(manifests[name], "delete")
			if out, err := kubectl(t, "alice", manifests[name], "apply", "--server-side", "-n", "blue"); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		eventually(
			t,
			name+" tells of an image that is nowhere",
			func() string { return tells(t, of[name], unpulled) },
		)
	}
	eventually(t, "doctor tells of it", func() string { return diagnosed(t, "not start", unpulled) })
}

// TestJobsOfNoTeamAreTold: a job of any kind in a namespace that is no team's and has no LocalQueue runs
// there, or says why not to whoever makes it; if it names a queue, why says so, too.
func TestJobsOfNoTeamAreTold(t *testing.T) {
	installRuntimes(t)
	const namespace = "nobodys"
	admin, ns := user(t, ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), ns) })
	ofTeam := regexp.MustCompile(`Warning: .*(LocalQueue|team)`)
	manifests := longLived(t)
	for _, named := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(manifests)) {
			job, manifest := submittedIn(t, manifests[name]), manifests[name]
			if !named {
				manifest = strings.ReplaceAll(manifest, kueue.QueueNameLabel+": default-queue", "note: none")
			}
			out, err := kubectl(t, "", manifest, "apply", "--server-side", "-n", namespace)
			called := fmt.Sprintf("%s, with a queue: %v", name, named)
			switch {
			case err != nil:
				t.Errorf("%s: it is refused: %s", called, out)
				continue
			case ofTeam.MatchString(out):
			case named:
				t.Errorf("%s: who makes it is told %q", called, out)
			}
			eventually(t, called+" runs, or says why not", func() string {
				if !named && anyRuns(t, namespace) == "" {
					return ""
				}
				if why, err := cluster.Run(
					t.Context(),
					"why",
					strings.ToLower(job.kind)+"/"+job.name,
					"-n",
					namespace,
				); err != nil ||
					!strings.Contains(why, "LocalQueue") {
					return fmt.Sprintf("why says %s (%v)", why, err)
				}
				return ""
			})
			if out, err := kubectl(t, "", manifest, "delete", "--ignore-not-found", "-n", namespace); err != nil {
				t.Fatalf("%s: %v\n%s", called, err, out)
			}
			eventually(t, called+" is gone", func() string {
				if left := pods(t, namespace, ""); len(left) > 0 {
					return fmt.Sprintf("%d pods are left", len(left))
				}
				return ""
			})
		}
	}
}

// anyRuns checks that a pod of a namespace does.
func anyRuns(t *testing.T, namespace string) string {
	t.Helper()
	all := pods(t, namespace, "")
	if !slices.ContainsFunc(all, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }) {
		return fmt.Sprintf("none of %d pods runs", len(all))
	}
	return ""
}

// levels sets the level of PodSecurity of a namespace; "" is the usual one, to which it goes back.
func levels(t *testing.T, namespace string) func(string) {
	t.Helper()
	admin := user(t, "")
	var before corev1.Namespace
	if err := admin.Get(t.Context(), client.ObjectKey{Name: namespace}, &before); err != nil {
		t.Fatal(err)
	}
	usual := "null"
	if was := before.Labels["pod-security.kubernetes.io/enforce"]; was != "" {
		usual = `"` + was + `"`
	}
	set := func(value string) {
		t.Helper()
		if value == "" {
			value = usual
		}
		ns := &corev1.Namespace{}
		ns.Name = namespace
		patch := client.RawPatch(
			types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": `+value+`}}}`),
		)
		if err := admin.Patch(withoutCancel(t), ns, patch); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set("") })
	return set
}

// diagnosed checks that doctor says all of these.
func diagnosed(t *testing.T, says ...string) string {
	t.Helper()
	said, _ := cluster.Run(t.Context(), "doctor") // its exit code says that something was found
	said = strings.Join(strings.Fields(said), " ")
	for _, x := range says {
		if !strings.Contains(said, x) {
			return said
		}
	}
	return ""
}

// TestTakenNamesAreTold: a job of any kind that needs an object whose name another's has says so, in why
// and in ps.
func TestTakenNamesAreTold(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	installRuntimes(t)
	admin, manifests := user(t, ""), longLived(t)
	for name, text := range namesakes() {
		kind, of, _ := strings.Cut(text, " ")
		spec, version := "", map[string]string{"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}[kind]
		switch kind {
		case "Pod":
			spec = "spec: {nodeSelector: {nowhere: here}, containers: [{name: c, image: busybox}]}"
		case "Job":
			spec = "spec: {suspend: true, template: {spec: {nodeSelector: {nowhere: here}, restartPolicy: Never, containers: [{name: c, image: busybox}]}}}"
		case "JobSet":
			spec = "spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {nodeSelector: {nowhere: here}, restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}]}"
		case "Service":
			spec = "spec: {ports: [{port: 80}]}"
		}
		if version == "" {
			version = "v1"
		}
		create(
			t,
			admin,
			fmt.Sprintf(
				"apiVersion: %s\nkind: %s\nmetadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}\n%s\n",
				version,
				kind,
				of,
				spec,
			),
			"blue",
		)
		if out, err := kubectl(t, "alice", manifests[name], "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		t.Cleanup(func() { _, _ = kubectl(t, "", manifests[name], "delete", "--ignore-not-found", "-n", "blue") })
	}
	eventually(t, "they all tell of it", func() string {
		var silent []string
		for _, name := range slices.Sorted(maps.Keys(namesakes())) {
			_, of, _ := strings.Cut(namesakes()[name], " ")
			if not := tells(t, submittedIn(t, manifests[name]), of); not != "" {
				silent = append(silent, name+": "+not)
			}
		}
		return strings.Join(silent, "\n")
	})
}

// tells checks that a job says a cause wherever people look.
func tells(t *testing.T, job submitted, cause string) string {
	t.Helper()
	why, err := cluster.Run(t.Context(), "why", strings.ToLower(job.kind)+"/"+job.name, "-n", "blue")
	if why = strings.Join(strings.Fields(why), " "); err != nil || !strings.Contains(why, cause) {
		return fmt.Sprintf("why says %s (%v)", why, err)
	}
	ps, err := cluster.Run(t.Context(), "ps", "-n", "blue", "-o", "wide")
	line := ""
	for one := range strings.Lines(ps) {
		if fields := strings.Fields(one); len(fields) > 1 && fields[0] == job.name && fields[1] == job.kind {
			line = one
		}
	}
	if err != nil || !strings.Contains(line, cause) {
		return fmt.Sprintf("ps says %q (%v)", line, err)
	}
	return ""
}
