package raycluster

import (
	"encoding/json"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// askEvery is how often a dashboard is asked how things stand.
const askEvery = 3 * time.Second

// Dashboard is the one of a cluster, which answers in the pod of its head.
type Dashboard struct {
	Cluster string
	Port    int32
	// Token is the variable with the token that it asks for; "" is none.
	Token string
}

// DashboardOf is that of a cluster of which the spec is known; nil is one with the usual port.
func DashboardOf(cluster string, s *api.RayClusterSpec) Dashboard {
	if s == nil {
		s = &api.RayClusterSpec{}
	}
	d := Dashboard{Cluster: cluster, Port: PortOfDashboard(s)}
	if AsksForToken(s) && !AsksKubernetes(s) { // there it would be one of the controller's own
		d.Token = tokenVariable
	}
	return d
}

// HeadReady reports whether the head of a cluster is there, so that its dashboard may answer.
func HeadReady(o jobs.Object) bool {
	c, err := cast(o)
	return err == nil && !suspended(c) && apimeta.IsStatusConditionTrue(c.Status.Conditions, api.HeadPodReady)
}

func (d Dashboard) call(method, path string, body []byte) jobs.Call {
	return jobs.Call{
		Pod:    headName(d.Cluster),
		Port:   d.Port,
		Method: method,
		Path:   path,
		Token:  d.Token,
		Body:   body,
		Every:  askEvery,
	}
}

// Job asks how a job stands.
func (d Dashboard) Job(id string) jobs.Call { return d.call(jobs.Get, "/api/jobs/"+id, nil) }

// Submit submits a job. It has an ID, so that it is submitted once however often that is asked.
func (d Dashboard) Submit(job []byte) jobs.Call { return d.call(jobs.Post, "/api/jobs/", job) }

// Stop stops a job.
func (d Dashboard) Stop(id string) jobs.Call {
	return d.call(jobs.Post, "/api/jobs/"+id+"/stop", nil)
}

const servePath = "/api/serve/applications/"

// Applications asks how what is served stands.
func (d Dashboard) Applications() jobs.Call { return d.call(jobs.Get, servePath, nil) }

// Serve says what is to be served.
func (d Dashboard) Serve(config []byte) jobs.Call {
	c := d.call(jobs.Put, servePath, config)
	c.Once = true
	return c
}

// JobInfo is what a dashboard says of a job.
type JobInfo struct {
	Status  api.JobStatus `json:"status"`
	Message string        `json:"message"`
	// StartTime and EndTime are in milliseconds.
	StartTime int64 `json:"start_time"`
	EndTime   int64 `json:"end_time"`
}

// ReadJob reads what a dashboard says of a job; nil if it says nothing of it.
func ReadJob(a jobs.Answer) *JobInfo {
	var out JobInfo
	if a.Status != jobs.Fine || json.Unmarshal(a.Body, &out) != nil || out.Status == "" {
		return nil
	}
	return &out
}

// Ended reports whether the job is over.
func (i *JobInfo) Ended() bool {
	return i.Status == api.JobSucceeded || i.Status == api.JobFailed || i.Status == api.JobStopped
}
