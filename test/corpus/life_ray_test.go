package corpus_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// ray is what the heads of a job's clusters know, by pod.
type ray struct {
	calls   []jobs.Call
	answers jobs.Answers
	// jobs are statuses by ID, and asked are those that somebody asked for.
	jobs  map[string]map[string]string
	asked map[string]string // the pod, by ID
	apps  map[string][]string
}

// ask does what the controller does with calls: all are answered at once.
func (w *life) ask(p *jobs.Plan, seen []podplan.Seen, m *podplan.RetryState) []podplan.Seen {
	w.t.Helper()
	o := w.kind.Running.Operator
	if o.Calls == nil {
		return seen
	}
	s := w.standing(p, seen, m)
	for range 9 {
		before := w.ray.answers
		w.ray.answers = w.ray.answer(w.now)
		s.Answers = w.ray.answers
		next := o.Calls(w.job, p, s)
		same := slices.EqualFunc(next, w.ray.calls, func(a, b jobs.Call) bool { return a.Key() == b.Key() })
		if same && reflect.DeepEqual(before, w.ray.answers) {
			break
		}
		w.ray.calls = next
	}
	if o.Observe != nil {
		seen, _ = o.Observe(w.job, p, seen, s)
	}
	return seen
}

// children are the members that are no pods.
func (w *life) children(p *jobs.Plan) []jobs.Object {
	var out []jobs.Object
	for _, o := range w.members {
		for i := range w.kind.Running.Operator.Children {
			c := &w.kind.Running.Operator.Children[i]
			if gvk, err := w.kind.Running.Operator.KindOf(
				o,
			); err == nil && gvk == c.GVK &&
				p.SeeChild(c, o).Role != "" {
				out = append(out, o)
			}
		}
	}
	return out
}

func (r *ray) answer(now time.Time) jobs.Answers {
	out := jobs.Answers{}
	for i := range r.calls {
		c := &r.calls[i]
		a := jobs.Answer{Status: http.StatusOK, At: now.Add(time.Hour)}
		id := strings.TrimSuffix(strings.TrimPrefix(c.Path, "/api/jobs/"), "/stop")
		switch {
		case c.Method == http.MethodPut:
			var said struct{ Applications []struct{ Name string } }
			_ = json.Unmarshal(c.Body, &said) // the kind's own test looks at what is asked
			var names []string
			for _, x := range said.Applications {
				if x.Name == "" {
					x.Name = "default"
				}
				names = append(names, x.Name)
			}
			r.serve(c.Pod, names)
		case strings.HasPrefix(c.Path, "/api/serve/"):
			apps := map[string]any{}
			for _, name := range r.apps[c.Pod] {
				apps[name] = map[string]any{"status": "RUNNING"}
			}
			a.Body = written(map[string]any{"applications": apps})
		case c.Method == http.MethodPost && strings.HasSuffix(c.Path, "/stop"):
			r.set(c.Pod, id, "STOPPED")
		case c.Method == http.MethodPost:
			var said struct {
				ID string `json:"submission_id"`
			}
			_ = json.Unmarshal(c.Body, &said) // as above
			r.set(c.Pod, said.ID, "RUNNING")
		case r.jobs[c.Pod][id] == "":
			a.Status = http.StatusNotFound
			if r.asked == nil {
				r.asked = map[string]string{}
			}
			r.asked[id] = c.Pod
		default:
			a.Body = written(map[string]any{"status": r.jobs[c.Pod][id]})
		}
		out[c.Key()] = a
	}
	return out
}

func written(what map[string]any) []byte {
	out, err := json.Marshal(what)
	if err != nil {
		return nil // texts can be written
	}
	return out
}

func (r *ray) serve(pod string, apps []string) {
	if r.apps == nil {
		r.apps = map[string][]string{}
	}
	r.apps[pod] = apps
}

func (r *ray) set(pod, id, status string) {
	if r.jobs == nil {
		r.jobs = map[string]map[string]string{}
	}
	if r.jobs[pod] == nil {
		r.jobs[pod] = map[string]string{}
	}
	r.jobs[pod][id] = status
}

// become lets jobs that are not over live on. It reports whether there was any.
func (r *ray) become(how string) bool {
	some := false
	if how != lost {
		for id, pod := range r.asked {
			if r.jobs[pod][id] == "" {
				r.set(pod, id, "RUNNING")
				some = true
			}
		}
	}
	to := map[string]string{succeeds: "SUCCEEDED", fails: "FAILED", crashes: "FAILED"}[how]
	for _, known := range r.jobs {
		for id, is := range known {
			switch {
			case is != "RUNNING":
			case how == lost:
				delete(known, id)
				some = true
			case to != "":
				known[id] = to
				some = true
			}
		}
	}
	return some
}

// forget is for clusters that are gone.
func (r *ray) forget(cluster string) {
	pod := cluster + "-head"
	delete(r.jobs, pod)
	delete(r.apps, pod)
	for id, of := range r.asked {
		if of == pod {
			delete(r.asked, id)
		}
	}
}
