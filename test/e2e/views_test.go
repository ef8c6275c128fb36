package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// unmade is a Deployment or ReplicaSet whose pods are refused: they ask for an account that is not there.
const unmade = `
apiVersion: apps/v1
kind: %[1]s
metadata: {name: unmade-%[2]s, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  selector: {matchLabels: {app: unmade-%[2]s}}
  template:
    metadata: {labels: {app: unmade-%[2]s, kueue.x-k8s.io/queue-name: default-queue}}
    spec:
      serviceAccountName: nobody
      containers: [{name: main, image: busybox, command: [sleep, "60"], resources: {limits: {nvidia.com/gpu: 1}}}]
`

// TestViewsTellWhatTheAskerWouldRead: for every user, what a controller tells of jobs is what they would find
// out alone from the objects that they may read: of all kinds, running, waiting, held, failed and not made.
func TestViewsTellWhatTheAskerWouldRead(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	create(t, alice, gang("runs", 2, 8, 6000), "blue")
	eventually(t, "it runs", inPhase(t, "Running", "blue", "runs"))
	create(t, alice, gang("waits", 3, 8, 6000), "blue")
	create(t, bob, gang("large", 90, 8, 6000), "red")
	create(t, alice, fmt.Sprintf(failing, "breaks"), "blue")
	create(t, alice, fmt.Sprintf(unmade, "Deployment", "a"), "blue")
	create(t, alice, fmt.Sprintf(unmade, "ReplicaSet", "b"), "blue")
	for _, file := range []string{"pytorchjob", "jobset", "pod-group"} {
		file = filepath.Join("..", "..", "examples", "kinds", file+".yaml")
		if out, err := cluster.Run(
			t.Context(),
			"kubectl",
			"create",
			"-n",
			"blue",
			"--as",
			"alice",
			"-f",
			file,
		); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Cleanup(func() {
			_, _ = cluster.Run(withoutCancel(t), "kubectl", "delete", "-n", "blue", "-f", file, "--wait=false")
		})
	}
	asks := []struct{ as, namespace string }{
		{"", ""},
		{"", "blue"},
		{"alice", "blue"},
		{"alice", "red"},
		{"bob", "blue"},
		{"bob", "red"},
		{"mallory", "blue"},
	}
	for _, q := range asks {
		eventually(t, fmt.Sprintf("%q is told of %q what they would read", q.as, q.namespace), func() string {
			served := servedTo(t, q.as, q.namespace)
			own, err := gather.Jobs(t.Context(), user(t, q.as), q.namespace, client.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return cmp.Diff(known(t, own), known(t, served))
		})
	}
	eventually(t, "alice, who asks for all, is told of her team's, and why pods are not there", func() string {
		mine := servedTo(t, "alice", "")
		if at := slices.IndexFunc(mine.Items, func(j view.Job) bool { return j.Namespace != "blue" }); at >= 0 {
			t.Fatalf("alice is told of %s/%s", mine.Items[at].Namespace, mine.Items[at].Name)
		}
		for _, name := range []string{"unmade-a", "unmade-b"} {
			if !slices.ContainsFunc(
				mine.Items,
				func(j view.Job) bool { return j.Name == name && strings.Contains(j.Trouble, "nobody") },
			) {
				return fmt.Sprintf("nothing says why the pods of %s are not there", name)
			}
		}
		for _, name := range []string{"runs", "waits", "breaks"} { // those of the examples may have ended and be gone
			if !slices.ContainsFunc(mine.Items, func(j view.Job) bool { return j.Name == name }) {
				return "she is not told of " + name
			}
		}
		return cmp.Diff(known(t, mine), known(t, new(typed[view.JobList](t, "alice", "ps", "-A"))))
	})
	eventually(
		t,
		"alice is told of each of her jobs why it is where it is, and all else, as she would find out",
		func() string {
			for _, j := range servedTo(t, "alice", "blue").Items {
				name := "namespaces/blue/jobviews/" + url.PathEscape(strings.ToLower(string(j.Kind))+"."+j.Name)
				own, _ := whyAs(t, "alice", "blue/"+j.Name)
				served := viewsOf[why.JobExplanation](t, "alice", name+"/explanation").Explanation
				if d := cmp.Diff(timeless(t, own), timeless(t, served)); d != "" {
					return name + ": " + d
				}
				shown := typed[why.Details](t, "alice", "show", "blue/"+j.Name, "--lines", "0")
				details := viewsOf[why.JobDetails](t, "alice", name+"/details").Details
				if d := cmp.Diff(timeless(t, shown), timeless(t, details)); d != "" {
					return name + ": " + d
				}
			}
			return ""
		},
	)
	eventually(t, "the administrator is told of nodes what they would read", func() string {
		own, _, err := gather.Nodes(t.Context(), user(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		return cmp.Diff(own, typed[struct{ Items []view.Node }](t, "", "nodes").Items)
	})
	for _, of := range []string{"nodeviews", "queueviews"} {
		if out, err := cluster.Run(t.Context(), "kubectl", "get", of, "--as", "alice"); err == nil {
			t.Errorf("alice, who may list neither nodes nor ClusterQueues, is told of them: %s", out)
		}
	}
	eventually(t, "the administrator is told of queues and teams what they would read", func() string {
		c := user(t, "")
		queues, _, err := gather.ClusterQueues(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		locals, err := gather.LocalQueues(t.Context(), c, "", gather.Get(c))
		if err != nil {
			t.Fatal(err)
		}
		teams, _, err := gather.Teams(t.Context(), c, gather.Get(c))
		if err != nil {
			t.Fatal(err)
		}
		return cmp.Diff(queues, new(viewsOf[view.QueueViewList](t, "", "queueviews")).Queues()) +
			cmp.Diff(locals, new(viewsOf[view.LocalQueueViewList](t, "", "localqueueviews")).Queues()) +
			cmp.Diff(teams, new(viewsOf[view.TeamViewList](t, "", "teamviews")).Teams())
	})
	theirs := new(viewsOf[view.LocalQueueViewList](t, "alice", "localqueueviews")).Queues()
	if len(theirs) != 1 || theirs[0].Namespace != "blue" || len(theirs[0].Shares) == 0 ||
		theirs[0].Shares[0].Nominal == "" {
		t.Errorf("alice is told of LocalQueues %+v, want that of blue, with the quota behind it", theirs)
	}
	if own := new(
		viewsOf[view.TeamViewList](t, "alice", "teamviews"),
	).Teams(); len(own) != 1 ||
		own[0].Name != "blue" {
		t.Errorf("alice is told of teams %+v, want blue", own)
	}
	if out, err := cluster.Run(
		t.Context(),
		"team",
		"list",
		"--as",
		"alice",
	); err != nil || !strings.Contains(out, "blue") ||
		strings.Contains(out, "red") {
		t.Errorf("team list as alice, %v:\n%s", err, out)
	}
	out, err := cluster.Run(t.Context(), "kubectl", "get", "jobviews", "-n", "blue", "--as", "alice")
	if err != nil || !strings.Contains(out, "appwrapper.waits") || !strings.Contains(out, "Waiting") {
		t.Errorf("kubectl get jobviews, %v:\n%s", err, out)
	}
	out, err = cluster.Run(t.Context(), "kubectl", "explain", "jobviews.job.position")
	if err != nil || !strings.Contains(out, "place in the line") {
		t.Errorf("kubectl explain, %v:\n%s", err, out)
	}
}

// servedTo is what a controller tells a user of the jobs of a namespace, or of all.
func servedTo(t *testing.T, as, namespace string) *view.JobList {
	t.Helper()
	path := "jobviews"
	if namespace != "" {
		path = "namespaces/" + namespace + "/jobviews"
	}
	return new(viewsOf[view.JobViewList](t, as, path)).Jobs()
}

// viewsOf are views as a controller tells them to a user.
func viewsOf[T any](t *testing.T, as, path string) (out T) {
	t.Helper()
	args := []string{"kubectl", "get", "--raw", "/apis/view.mlbatch.dev/v1alpha1/" + path}
	if as != "" {
		args = append(args, "--as", as)
	}
	text, err := cluster.Run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// known is a list without what only a controller knows.
func known(t *testing.T, l *view.JobList) (out []view.Job) {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var again view.JobList
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	for _, j := range again.Items {
		j.Position, j.Start = nil, nil
		out = append(out, j)
	}
	return out
}

// timeless is a value as JSON, without the times that pass while one asks twice.
func timeless(t *testing.T, of any) string {
	t.Helper()
	text, err := json.MarshalIndent(of, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(
		`\b[0-9][0-9.:T-]*(ms|s|m|h|d|Z)([0-9]+s)?\b|"at": "[^"]*"`,
	).ReplaceAllString(
		string(text),
		"TIME",
	)
}
