package page

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// jobsInBrowser is how many jobs a cluster has that a browser shows.
const jobsInBrowser = 10_000

// town is a cluster with much to see, whose first job changes when it is told to.
type town struct {
	now     time.Time
	changes chan string
	tenant  atomic.Bool // whoever asks may see neither nodes nor ClusterQueues
}

func (c *town) jobs() []any {
	out := make([]any, 0, jobsInBrowser)
	add := func(j *view.Job) {
		j.Kind, j.Queue, j.ClusterQueue, j.User, j.GPUs = "Job", "default", j.Namespace+"-queue", "alice", 8
		j.Pods, j.Priority = 1, new(int32(5))
		out = append(out, view.ServedJob(j))
	}
	started, teams := c.now.Add(-time.Hour), []string{"blue", "red", "green"}
	add(&view.Job{
		Namespace: "blue", Name: "runs", State: view.Running, Running: 1, Created: started, Started: &started,
		Since: &started, TimeLimit: new(int32(7200)), Nodes: []string{"node-0"}, Evictions: 1,
	})
	add(&view.Job{
		Namespace: "blue",
		Name:      "waits",
		State:     view.Waiting,
		Created:   started,
		Position:  new(1),
		Reason:    "NoNodes",
		Start: &visibility.Start{
			P50: new(metav1.NewTime(c.now.Add(time.Hour))), P90: new(metav1.NewTime(c.now.Add(2 * time.Hour))),
			At: metav1.NewTime(c.now),
		},
	})
	for i := len(out); i < jobsInBrowser; i++ {
		at := c.now.Add(-time.Duration(i) * time.Minute)
		j := &view.Job{
			Namespace: "red",
			Name:      "job-" + strconv.Itoa(i),
			State:     view.Succeeded,
			Created:   at,
			Started:   &at,
			Since:     &at,
		}
		switch {
		case i < 12: // those that a picture shows
			j.Namespace, j.State, j.Running, j.Nodes = teams[i%len(teams)], view.Running, 1, []string{
				"node-" + strconv.Itoa(i),
			}
			j.Started, j.TimeLimit = new(at.Add(time.Minute)), new(int32(i*1200))
		case i < 18:
			j.State, j.Started, j.Since, j.Position = view.Waiting, nil, nil, new(i-10)
			j.Start = &visibility.Start{P50: new(metav1.NewTime(c.now.Add(time.Duration(i) * 10 * time.Minute)))}
		case i%3 == 0:
			j.State = view.Failed
		}
		add(j)
	}
	return out
}

func (c *town) nodes() (out []any) {
	for i := range 12 {
		n := &view.Node{
			Name: "node-" + strconv.Itoa(i), State: core.NodeReady, GPUs: 8, Free: new(int64(8)), Pods: new(0),
			Created: c.now.Add(-time.Hour), Domain: []string{"block-0", "rack-" + strconv.Itoa(i/4)},
		}
		switch i {
		case 0:
			n.Free, n.Jobs = new(int64(0)), map[string]int64{"blue/runs": 8}
		case 1:
			n.State, n.Why = core.NodeClosed, "cordoned"
			n.Drained = &view.Drain{By: "carol", Reason: "fan broken", At: c.now}
		case 4, 5, 6, 8, 11:
			n.Free, n.Jobs = new(
				int64(i-4),
			), map[string]int64{
				[]string{"blue", "red", "green"}[i%3] + "/job-" + strconv.Itoa(i): int64(12 - i),
			}
		}
		out = append(out, view.ServedNode(n))
	}
	return out
}

func (*town) queues() []any {
	share := func(nominal, used string) []view.Share {
		return []view.Share{{Flavor: "default", Resource: "nvidia.com/gpu", Nominal: nominal, Used: used}}
	}
	return []any{
		view.ServedQueue(&view.Queue{Kind: "Cohort", Name: "all", Shares: share("96", "16"), Running: 2}),
		view.ServedQueue(&view.Queue{
			Kind:    "ClusterQueue",
			Name:    "blue-queue",
			Parent:  "all",
			Shares:  share("8", "16"),
			Running: 1,
			Waiting: 1,
			State:   "active",
		}),
	}
}

// lists are what the paths of lists end in.
func (c *town) list(path string) []any {
	switch {
	case strings.HasSuffix(path, "/jobviews"):
		return c.jobs()
	case strings.HasSuffix(path, "/nodeviews"):
		return c.nodes()
	case strings.HasSuffix(path, "/queueviews"):
		return c.queues()
	case strings.HasSuffix(path, "/localqueueviews"):
		return []any{view.ServedLocalQueue(&view.Queue{
			Kind:      "LocalQueue",
			Namespace: "blue",
			Name:      "default",
			Parent:    "blue-queue",
			Running:   1,
			Waiting:   1,
			State:     "active",
			Shares:    []view.Share{{Flavor: "default", Resource: "nvidia.com/gpu", Nominal: "8", Used: "16"}},
		})}
	case strings.HasSuffix(path, "/domainviews"):
		return []any{view.ServedDomain(&view.Domain{
			Level: "example.com/rack", Name: "rack-0", Path: []string{"block-0"}, Nodes: 4, Ready: 3, GPUs: 24,
			Free: new(int64(16)), Whole: new(2),
		})}
	}
	return nil
}

func (c *town) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	send := func(of string, o any) {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", of, text)
	}
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case c.tenant.Load() && (strings.HasSuffix(path, "/nodeviews") || strings.HasSuffix(path, "/queueviews")):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"alice may not list it"}`)
	case r.URL.Query().Get("watch") != "":
		for _, o := range c.list(path) {
			send("ADDED", o)
		}
		send("BOOKMARK", struct{}{})
		for {
			var changes chan string
			if strings.HasSuffix(path, "/jobviews") {
				changes = c.changes
			}
			select {
			case title := <-changes:
				v, _ := c.jobs()[0].(view.JobView)
				v.Job.Title = title
				send("MODIFIED", v)
			case <-r.Context().Done():
				return
			}
		}
	case strings.HasSuffix(path, "/explanation"):
		write(w, http.StatusOK, why.JobExplanation{Explanation: why.Explanation{
			Object:    "Job blue/waits",
			State:     view.Waiting,
			Sentences: []string{"Job blue/waits has waited an hour.", "No node is free."},
			Advice:    []string{"wait for the end of Job blue/runs"},
		}})
	case strings.HasSuffix(path, "/details"):
		write(w, http.StatusOK, why.JobDetails{Details: why.Details{
			Namespace: "blue",
			Kind:      "Job",
			Name:      "runs",
			State:     view.Running,
			Attempts: &view.Attempts{
				Attempts: history.Attempts{
					Attempts: []history.Attempt{{Start: metav1.NewTime(c.now.Add(-time.Hour)), Nodes: []string{"node-0"}}},
				},
			},
		}})
	default:
		fmt.Fprint(w, "step 1\nstep 2\n")
	}
}

// TestThePageInABrowser looks, where MLBATCH_BROWSER asks for it, at every screen in Chromium, light, dark and on a phone: nothing that the browser or axe
// complains of; keys, addresses and the way back; 10,000 jobs; a server that goes away and comes back. What is looked at
// is in web/check.mjs. MLBATCH_PAGE_PICTURES names a folder for pictures of all screens.
func TestThePageInABrowser(t *testing.T) {
	if os.Getenv("MLBATCH_BROWSER") == "" {
		t.Skip("not looked at in a browser: that is asked for by MLBATCH_BROWSER=1, as make web-test does")
	}
	if _, err := os.Stat("../../web/node_modules/playwright-core"); err != nil {
		t.Fatal("web/node_modules has no playwright-core (make web installs it)")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("there is no Node.js")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium")
	}
	c := &town{now: time.Now(), changes: make(chan string)}
	once := NewOnce(time.Now())
	fresh := func() *Server {
		p, err := New(t.Context(), Options{
			Answer: func(Viewer) http.Handler { return c }, Clock: clock.RealClock{},
			LogIn: once.LogIn(Viewer{Name: "alice", Cluster: "here"}, time.Hour, time.Now),
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	is, at := fresh(), "127.0.0.1:0"
	serve := func() (stop func()) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		at, is.options.Hosts = l.Addr().String(), Loopback(l)
		server := &http.Server{Handler: is, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
		return func() { _ = server.Close() }
	}
	stop := serve()
	pictures := os.Getenv("MLBATCH_PAGE_PICTURES")
	if pictures != "" {
		if pictures, err = filepath.Abs(pictures); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(
		t.Context(),
		node,
		"../../web/check.mjs",
		"http://"+at+"/#token="+once.Token(),
		chromium,
		pictures,
	)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "wrong":
			t.Error(rest)
		case "fact":
			t.Log(rest)
		case "ask":
			switch asked, n, _ := strings.Cut(rest, " "); asked {
			case "change":
				c.changes <- "change-" + n
			case "tenant":
				c.tenant.Store(true)
			case "down":
				stop()
			case "up":
				stop = serve()
			case "other":
				stop()
				is = fresh()
				stop = serve()
			}
			fmt.Fprintln(answers, "done")
		default:
			t.Log(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	stop()
}
