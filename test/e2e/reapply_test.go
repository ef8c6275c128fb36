package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// kubectl types a command of kubectl on a manifest, as a user if one is named, and
// returns all that it prints, warnings included. It works in cleanups too.
func kubectl(t *testing.T, user, manifest string, args ...string) (string, error) {
	t.Helper()
	all := append([]string{"kubectl", "--data-dir", cluster.Dir}, args...)
	all = append(all, "-f", "-")
	if user != "" {
		all = append(all, "--as", user)
	}
	cmd := exec.CommandContext(withoutCancel(t), cluster.Binary, all...)
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// rewrite is a way in which people write a manifest again.
type rewrite struct {
	how  string
	args []string
}

func rewrites() []rewrite {
	return []rewrite{
		{"apply", []string{"apply", "-n", "blue"}},
		{"replace", []string{"replace", "-n", "blue"}},
		{"server", []string{"apply", "--server-side", "-n", "blue"}},
		{"diff", []string{"diff", "-n", "blue"}},
	}
}

// The manifest of a running AppWrapper can be written again, by every way that
// kubectl has, by users and admins, and the job runs on as it was placed.
func TestRunningWrapperIsWrittenAgain(t *testing.T) {
	const metadata = "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata:\n  name: again\nspec:\n"
	// Its pod runs for longer than everything below takes on a slow machine.
	lasting := strings.Replace(fmt.Sprintf(podSpec, "Never"), `"600"`, `"60000"`, 1)
	component := "  components:\n  - template: {apiVersion: batch/v1, kind: Job, metadata: {name: again}, spec: {template: {spec: " +
		lasting + "}}}\n"
	for name, manifest := range map[string]string{
		"plain":     metadata + component,
		"suspended": metadata + "  suspend: true\n" + component,
	} {
		for _, first := range [][]string{{"apply", "-n", "blue"}, {"apply", "--server-side", "-n", "blue"}, {"create", "-n", "blue"}} {
			if name == "suspended" && first[1] != "-n" {
				continue // said by the plain one
			}
			t.Run(name+" "+strings.Join(first[:len(first)-2], " "), func(t *testing.T) {
				awaitEmpty(t, "blue")
				if out, err := kubectl(t, "alice", manifest, first...); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				eventually(t, "it runs", func() string { return runs(t, "blue", "again", 1) })
				before, pod := wrapper(t, "blue", "again"), pods(t, "blue", "again")[0].UID
				for _, who := range []string{"alice", ""} {
					for _, again := range rewrites() {
						how := again.how
						if how == "replace" && who == "alice" && first[0] == "create" {
							continue // said by the other ways
						}
						out, err := kubectl(t, who, manifest, again.args...)
						if err != nil && how != "diff" { // which says by its status that there is a difference
							t.Errorf("%s by %q: %v\n%s", how, who, err, out)
						}
					}
				}
				changed := strings.Replace(
					manifest,
					"  name: again\n",
					"  name: again\n  annotations: {example.com/note: new}\n",
					1,
				)
				if out, err := kubectl(t, "alice", changed, "apply", "-n", "blue"); err != nil {
					t.Errorf("apply with an annotation: %v\n%s", err, out)
				}
				after := wrapper(t, "blue", "again")
				if after.Annotations["example.com/note"] != "new" {
					t.Error("the annotation is not there")
				}
				if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
					t.Errorf("the spec was\n%+v\nand is\n%+v", before.Spec, after.Spec)
				}
				if now := pods(t, "blue", "again"); len(now) != 1 || now[0].UID != pod {
					t.Error("its pod did not run on")
				}
				awaitEmpty(t, "blue")
			})
		}
	}
}

// A Job is written again, also one that runs with fewer pods than its manifest says.
func TestRunningJobIsWrittenAgain(t *testing.T) {
	awaitEmpty(t, "blue")
	const manifest = `
apiVersion: batch/v1
kind: Job
metadata:
  name: again
  labels: {kueue.x-k8s.io/queue-name: default-queue}
  annotations: {kueue.x-k8s.io/job-min-parallelism: "1"}
spec:
  suspend: true
  parallelism: 40
  completions: 40
  template:
    spec:
      restartPolicy: Never
      schedulerName: default-scheduler
      terminationGracePeriodSeconds: 0
      tolerations: [{key: example.com/mine, operator: Exists}]
      containers: [{name: c, image: busybox, command: [sleep, "60000"], resources: {limits: {nvidia.com/gpu: "1"}}}]
`
	c := user(t, "")
	get := func() *batchv1.Job {
		var j batchv1.Job
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "again"}, &j); err != nil {
			t.Fatal(err)
		}
		return &j
	}
	if out, err := kubectl(t, "", manifest, "apply", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "it runs with fewer pods", func() string {
		// All of them: a status that changes while it is replaced is a conflict of kubectl's own.
		if j := get(); *j.Spec.Suspend || *j.Spec.Parallelism >= 40 ||
			ptr.Deref(j.Status.Ready, 0) < *j.Spec.Parallelism {
			return fmt.Sprintf(
				"suspend is %v, parallelism %d, ready %d",
				*j.Spec.Suspend,
				*j.Spec.Parallelism,
				ptr.Deref(j.Status.Ready, 0),
			)
		}
		return ""
	})
	before := get()
	for _, again := range rewrites() {
		if out, err := kubectl(t, "", manifest, again.args...); err != nil && again.how != "diff" {
			t.Errorf("%s: %v\n%s", again.how, err, out)
		}
	}
	if after := get(); !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		is, _ := yaml.Marshal(after.Spec)
		was, _ := yaml.Marshal(before.Spec)
		t.Errorf("the spec was\n%s\nand is\n%s", was, is)
	}
	awaitEmpty(t, "blue")
}
