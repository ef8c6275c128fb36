package simnode

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Annotations on heads of Ray, about the jobs that are submitted to them. They mean for jobs
// what AnnotationRunFor, AnnotationExitCode and AnnotationFailFirst mean for pods.
const (
	AnnotationJobRunFor    = "mlbatch.dev/job-run-for"
	AnnotationJobExitCode  = "mlbatch.dev/job-exit-code"
	AnnotationJobFailFirst = "mlbatch.dev/job-fail-first"
	// AnnotationServe is the status of applications on a head, RUNNING if nothing is said.
	AnnotationServe = "mlbatch.dev/serve-status"
)

// byIP indexes pods by their addresses.
const byIP = "ip"

// mostSaid is how much a request may say.
const mostSaid = 1 << 20

// dashboards answers for the heads of Ray on all simulated nodes. It is a proxy, since the
// addresses of simulated pods lead nowhere. What was submitted is kept in memory: heads whose
// simulator was killed have forgotten their jobs, as heads do that begin anew.
type dashboards struct {
	s *simulator

	mu    sync.Mutex
	heads map[types.UID]*rayHead
}

// rayHead is what a head knows.
type rayHead struct {
	// restarts is how often its container began anew, which forgets all.
	restarts int32
	jobs     map[string]*rayJob
	// apps are what it serves: the status of their deployments, by application.
	apps map[string]map[string]string
	// began is when it was told to serve that.
	began time.Time
}

// rayJob is one that was submitted by a request.
type rayJob struct {
	entrypoint string
	does       act
	start, end time.Time
}

// deploysFor is how long it takes until something is served.
const deploysFor = time.Second

func newDashboards(s *simulator) (*dashboards, error) {
	err := s.pods.AddIndexers(cache.Indexers{byIP: func(o any) ([]string, error) {
		if p, ok := o.(*corev1.Pod); ok && p.Status.PodIP != "" {
			return []string{p.Status.PodIP}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods by address: %w", err)
	}
	return &dashboards{s: s, heads: map[types.UID]*rayHead{}}, nil
}

func (d *dashboards) server(address string) listener {
	srv := &http.Server{Addr: address, Handler: d.handler(), ReadHeaderTimeout: 5 * time.Second}
	return listener{srv, srv.ListenAndServe}
}

func (d *dashboards) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*corev1.Pod, *rayHead, *http.Request) (any, int){
		"GET /api/jobs/{id}":           d.job,
		"POST /api/jobs/{$}":           d.submit,
		"POST /api/jobs/{id}/stop":     d.stop,
		"DELETE /api/jobs/{id}":        d.remove,
		"GET /api/serve/applications/": d.applications,
		"PUT /api/serve/applications/": d.serve,
		"GET /api/version":             func(*corev1.Pod, *rayHead, *http.Request) (any, int) { return map[string]string{"version": "4"}, 0 },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			pod := d.pod(r.URL.Host)
			if pod == nil {
				http.Error(w, "no head of Ray answers at "+r.URL.Host, http.StatusBadGateway)
				return
			}
			if !d.may(r, pod) {
				http.Error(w, "a token is needed", http.StatusUnauthorized)
				return
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			out, status := answer(pod, d.head(pod), r)
			if status >= http.StatusBadRequest {
				http.Error(w, fmt.Sprint(out), status)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out) // who asked may have gone
		})
	}
	return mux
}

// pod is the head of Ray at an address; nil if there is none that lives.
func (d *dashboards) pod(address string) *corev1.Pod {
	ip, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	all, err := d.s.pods.GetIndexer().ByIndex(byIP, ip)
	if err != nil {
		return nil
	}
	for _, o := range all {
		p, ok := o.(*corev1.Pod)
		if !ok || p.Labels["ray.io/node-type"] != "head" || p.Status.Phase != corev1.PodRunning ||
			p.DeletionTimestamp != nil {
			continue
		}
		if n, ok := get[*corev1.Node](d.s.nodes, p.Spec.NodeName); ok && d.s.plays(n) && up(p) {
			return p
		}
	}
	return nil
}

// may reports whether a request shows the token that a head asks for, if it asks for one.
func (d *dashboards) may(r *http.Request, p *corev1.Pod) bool {
	for _, e := range p.Spec.Containers[0].Env {
		if e.Name != "RAY_AUTH_TOKEN" || e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		from := e.ValueFrom.SecretKeyRef
		s, err := d.s.client.CoreV1().Secrets(p.Namespace).Get(r.Context(), from.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		want := "Bearer " + string(s.Data[from.Key])
		return r.Header.Get("Authorization") == want || r.Header.Get("X-Ray-Authorization") == want
	}
	return true
}

// up reports whether Ray's container is.
func up(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == p.Spec.Containers[0].Name && s.State.Running != nil
	})
}

// head is what one knows. Those that are gone are forgotten.
func (d *dashboards) head(p *corev1.Pod) *rayHead {
	restarts := int32(0)
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == p.Spec.Containers[0].Name {
			restarts = s.RestartCount
		}
	}
	h := d.heads[p.UID]
	if h == nil || h.restarts != restarts {
		there := map[types.UID]bool{p.UID: true}
		for _, o := range d.s.pods.GetIndexer().List() {
			if x, ok := o.(*corev1.Pod); ok {
				there[x.UID] = true
			}
		}
		maps.DeleteFunc(d.heads, func(uid types.UID, _ *rayHead) bool { return !there[uid] })
		h = &rayHead{restarts: restarts, jobs: map[string]*rayJob{}}
		d.heads[p.UID] = h
	}
	return h
}

// jobInfo is what is told of a job.
type jobInfo struct {
	Type       string `json:"type"`
	ID         string `json:"submission_id"`
	Status     string `json:"status"`
	Entrypoint string `json:"entrypoint,omitempty"`
	Message    string `json:"message"`
	Start      int64  `json:"start_time"`
	End        int64  `json:"end_time,omitempty"`
}

func (d *dashboards) job(p *corev1.Pod, h *rayHead, r *http.Request) (any, int) {
	id := r.PathValue("id")
	if j := h.jobs[id]; j != nil {
		return j.info(id, d.s.clock.Now()), 0
	}
	if info := d.submitted(p, id); info != nil {
		return info, 0
	}
	return "Job " + id + " does not exist", http.StatusNotFound
}

func (j *rayJob) info(id string, now time.Time) *jobInfo {
	out := &jobInfo{
		Type:       "SUBMISSION",
		ID:         id,
		Entrypoint: j.entrypoint,
		Start:      j.start.UnixMilli(),
		Status:     "RUNNING",
		Message:    "Job is currently running.",
	}
	end, code := j.start.Add(j.does.runs), j.does.code(0)
	switch {
	case !j.end.IsZero():
		out.Status, out.End, out.Message = "STOPPED", j.end.UnixMilli(), "Job was intentionally stopped."
	case j.does.runs == forever || now.Before(end):
	case code == 0:
		out.Status, out.End, out.Message = "SUCCEEDED", end.UnixMilli(), "Job finished successfully."
	default:
		out.Status, out.End, out.Message = "FAILED", end.UnixMilli(), fmt.Sprintf(
			"Job entrypoint command failed with exit code %d.",
			code,
		)
	}
	return out
}

// submitted is what is told of a job that a pod submits; nil if none does. It is as long as the
// container that shows its output.
func (d *dashboards) submitted(head *corev1.Pod, id string) *jobInfo {
	var out *jobInfo
	cluster := head.Labels["ray.io/cluster"] + "-head-svc."
	for _, o := range d.s.pods.GetIndexer().List() {
		p, ok := o.(*corev1.Pod)
		if !ok || p.Namespace != head.Namespace {
			continue
		}
		for _, c := range p.Spec.Containers {
			if value(c, "RAY_JOB_SUBMISSION_ID") != id ||
				!strings.HasPrefix(value(c, "RAY_DASHBOARD_ADDRESS"), cluster) ||
				!strings.Contains(shellText(slices.Concat(c.Command, c.Args)), "ray job submit") {
				continue
			}
			for _, s := range p.Status.ContainerStatuses {
				if info := asJob(id, s); s.Name == c.Name && info != nil && (out == nil || info.Start > out.Start) {
					out = info
				}
			}
		}
	}
	return out
}

func value(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// asJob is the job that a container submitted; nil if it has not begun.
func asJob(id string, s corev1.ContainerStatus) *jobInfo {
	out := &jobInfo{Type: "SUBMISSION", ID: id}
	switch t := s.State.Terminated; {
	case s.State.Running != nil:
		out.Status, out.Start, out.Message = "RUNNING", s.State.Running.StartedAt.UnixMilli(), "Job is currently running."
	case t == nil:
		return nil
	case t.ExitCode == 0:
		out.Status, out.Start, out.End, out.Message = "SUCCEEDED", t.StartedAt.UnixMilli(), t.FinishedAt.UnixMilli(), "Job finished successfully."
	default:
		out.Status, out.Start, out.End = "FAILED", t.StartedAt.UnixMilli(), t.FinishedAt.UnixMilli()
		out.Message = fmt.Sprintf("Job entrypoint command failed with exit code %d.", t.ExitCode)
	}
	return out
}

func (d *dashboards) submit(p *corev1.Pod, h *rayHead, r *http.Request) (any, int) {
	var said struct {
		Entrypoint string `json:"entrypoint"`
		ID         string `json:"submission_id"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, mostSaid)).
		Decode(&said); err != nil ||
		said.Entrypoint == "" ||
		said.ID == "" {
		return "entrypoint and submission_id are needed", http.StatusBadRequest
	}
	if h.jobs[said.ID] != nil || d.submitted(p, said.ID) != nil {
		return "Job with submission_id " + said.ID + " already exists", http.StatusBadRequest
	}
	does, err := jobOn(p, said.Entrypoint, d.s.scale)
	if err != nil {
		return err.Error(), http.StatusBadRequest
	}
	h.jobs[said.ID] = &rayJob{entrypoint: said.Entrypoint, does: does, start: d.s.clock.Now()}
	return map[string]string{"job_id": said.ID, "submission_id": said.ID}, 0
}

// jobOn is what a job does on a head: what its command or the head's annotations say.
func jobOn(head *corev1.Pod, entrypoint string, scale float64) (act, error) {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{}
	for from, to := range map[string]string{
		AnnotationJobRunFor: AnnotationRunFor, AnnotationJobExitCode: AnnotationExitCode, AnnotationJobFailFirst: AnnotationFailFirst, AnnotationFailures: AnnotationFailures,
	} {
		if v, is := head.Annotations[from]; is {
			p.Annotations[to] = v
		}
	}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.Containers = []corev1.Container{{Name: "job", Command: []string{"sh", "-c", entrypoint}}}
	s, err := read(p, scale)
	return s.acts["job"], err
}

func (d *dashboards) stop(p *corev1.Pod, h *rayHead, r *http.Request) (any, int) {
	id := r.PathValue("id")
	j := h.jobs[id]
	if j == nil {
		return d.job(p, h, r)
	}
	runs := j.info(id, d.s.clock.Now()).Status == "RUNNING"
	if runs {
		j.end = d.s.clock.Now()
	}
	return map[string]bool{"stopped": runs}, 0
}

func (d *dashboards) remove(_ *corev1.Pod, h *rayHead, r *http.Request) (any, int) {
	id := r.PathValue("id")
	_, known := h.jobs[id]
	delete(h.jobs, id)
	return map[string]bool{"deleted": known}, 0
}

func (d *dashboards) serve(_ *corev1.Pod, h *rayHead, r *http.Request) (any, int) {
	var said struct {
		Applications []struct {
			Name        string `json:"name"`
			ImportPath  string `json:"import_path"`
			Deployments []struct {
				Name string `json:"name"`
			} `json:"deployments"`
		} `json:"applications"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, mostSaid)).Decode(&said); err != nil {
		return err.Error(), http.StatusBadRequest
	}
	h.apps, h.began = map[string]map[string]string{}, d.s.clock.Now()
	for _, a := range said.Applications {
		if a.ImportPath == "" {
			return "application " + a.Name + " has no import_path", http.StatusBadRequest
		}
		if a.Name == "" {
			a.Name = "default"
		}
		h.apps[a.Name] = map[string]string{}
		for _, x := range a.Deployments {
			h.apps[a.Name][x.Name] = ""
		}
	}
	return map[string]string{}, 0
}

// status is that of an application, or of one of its deployments.
type status struct {
	Name        string            `json:"name"`
	Status      string            `json:"status"`
	Message     string            `json:"message"`
	Deployments map[string]status `json:"deployments,omitempty"`
}

func (d *dashboards) applications(p *corev1.Pod, h *rayHead, _ *http.Request) (any, int) {
	of, part := p.Annotations[AnnotationServe], "HEALTHY"
	switch {
	case d.s.clock.Now().Sub(h.began) < deploysFor:
		of, part = "DEPLOYING", "UPDATING"
	case of == "":
		of = "RUNNING"
	case of != "RUNNING":
		part = "UNHEALTHY"
	}
	apps := map[string]status{}
	for name, parts := range h.apps {
		a := status{Name: name, Status: of, Deployments: map[string]status{}}
		for x := range parts {
			a.Deployments[x] = status{Name: x, Status: part}
		}
		apps[name] = a
	}
	return map[string]any{"applications": apps, "proxies": map[string]any{}}, 0
}
