package rayservice

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// config is what is to be served, as far as it is read here.
type config struct {
	Applications []struct {
		Name string `json:"name"`
	} `json:"applications"`
}

// names are those of the applications.
func (c *config) names() []string {
	var out []string
	for _, a := range c.Applications {
		if a.Name == "" {
			a.Name = "default" // as Ray calls one without a name
		}
		out = append(out, a.Name)
	}
	return out
}

// wanted is what is to be served, as JSON and as it is read.
func wanted(s *api.RayService) ([]byte, *config) {
	var c config
	text, err := yaml.YAMLToJSON([]byte(s.Spec.ServeConfigV2))
	if err != nil || json.Unmarshal(text, &c) != nil {
		return nil, &c // validate refuses it
	}
	return text, &c
}

// heard is what a dashboard says of a cluster.
type heard struct {
	// known: it answered; served: all that is wanted is there and runs; missing: something is not
	// there.
	known, served, missing bool
	apps                   map[string]api.AppStatus
	// refusal is why it serves nothing else, "" if it does.
	refusal string
}

// ask returns what a cluster's dashboard is asked, and what it said.
func ask(s *api.RayService, cluster string, answers jobs.Answers) ([]jobs.Call, heard) {
	d := raycluster.DashboardOf(cluster, &s.Spec.RayClusterSpec)
	text, c := wanted(s)
	get, put := d.Applications(), d.Serve(text)
	var out heard
	if a, is := answers.To(&put); is && a.Status >= jobs.Refused && a.Status < jobs.Broken {
		const longest = 512
		out.refusal = "the dashboard refused serveConfigV2: " + string(a.Body[:min(len(a.Body), longest)])
	}
	told, is := answers.To(&put)
	done := is && told.Well()
	a, _ := answers.To(&get)
	var said struct {
		Applications map[string]struct {
			Status      string `json:"status"`
			Message     string `json:"message"`
			Deployments map[string]struct {
				Status  string `json:"status"`
				Message string `json:"message"`
			} `json:"deployments"`
		} `json:"applications"`
	}
	if a.Status != jobs.Fine || json.Unmarshal(a.Body, &said) != nil {
		return []jobs.Call{get, put}, out
	}
	out.known, out.served, out.apps = true, done, map[string]api.AppStatus{}
	for name, x := range said.Applications {
		app := api.AppStatus{Status: x.Status, Message: x.Message}
		for of, y := range x.Deployments {
			if app.Deployments == nil {
				app.Deployments = map[string]api.ServeDeploymentStatus{}
			}
			app.Deployments[of] = api.ServeDeploymentStatus{Status: y.Status, Message: y.Message}
		}
		out.apps[name] = app
	}
	for _, name := range c.names() {
		x, there := out.apps[name]
		out.missing = out.missing || !there
		out.served = out.served && there && x.Status == api.ApplicationRunning
	}
	put.Once = !out.missing // a head whose container began anew has forgotten all
	return []jobs.Call{get, put}, out
}

// child is a cluster of the service; nil if there is none of the name.
func child(s *jobs.Progress, name string) *api.RayCluster {
	for _, o := range s.Children {
		if c, is := o.(*api.RayCluster); is && c.Name == name && name != "" {
			return c
		}
	}
	return nil
}

// calls tell the dashboards of clusters what to serve, and ask them how that stands.
func calls(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) []jobs.Call {
	x, err := cast(o)
	if err != nil || x.Spec.Suspend || s.Started.IsZero() {
		return nil
	}
	var out []jobs.Call
	serves, next := clusters(x)
	for _, name := range []string{serves, next} {
		if c := child(s, name); c != nil && raycluster.HeadReady(c) {
			some, _ := ask(x, name, s.Answers)
			out = append(out, some...)
		}
	}
	return out
}

// hear says when the cluster that served before has to go.
func hear(
	o jobs.Object,
	_ *jobs.Plan,
	seen []podplan.Seen,
	s *jobs.Progress,
) ([]podplan.Seen, time.Duration) {
	x, err := cast(o)
	if err != nil || x.Status.RetiredService == nil {
		return seen, 0
	}
	return seen, max(x.Status.RetiredService.Since.Add(delay(x)).Sub(s.Now), time.Second)
}

// project returns a service with the status that follows from what there is.
func project(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) jobs.Object {
	x, err := cast(o)
	if err != nil {
		return o
	}
	out := *x
	out.Status = *x.Status.DeepCopy()
	state := &out.Status
	state.ObservedGeneration = x.Generation
	if x.Spec.Suspend {
		suspended(&out, s)
	} else {
		takeOver(&out, s)
		tell(&out, s)
	}
	if !equality.Semantic.DeepEqual(x.Status, *state) {
		state.LastUpdateTime = new(metav1.NewTime(s.Now))
	}
	return &out
}

func set(
	x *api.RayService,
	s *jobs.Progress,
	kind string,
	is metav1.ConditionStatus,
	reason, message string,
) {
	apimeta.SetStatusCondition(&x.Status.Conditions, metav1.Condition{
		Type:               kind,
		Status:             is,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: x.Generation,
		LastTransitionTime: metav1.NewTime(s.Now),
	})
}

// suspended tells of a service that may have no pods.
func suspended(x *api.RayService, s *jobs.Progress) {
	state := &x.Status
	state.ServiceStatus, state.NumServeEndpoints = "", 0
	set(x, s, api.ServiceReady, metav1.ConditionFalse, api.ServiceSuspended, "it is suspended")
	if !s.Suspended {
		set(x, s, api.ServiceSuspending, metav1.ConditionTrue, api.ServiceSuspendRequest, "its clusters go")
		return
	}
	state.ActiveServiceStatus, state.PendingServiceStatus, state.RetiredService = api.RayServiceStatus{}, api.RayServiceStatus{}, nil
	apimeta.RemoveStatusCondition(&state.Conditions, api.ServiceSuspending)
	apimeta.RemoveStatusCondition(&state.Conditions, api.ServiceUpgradeInProgress)
	set(x, s, api.ServiceSuspended, metav1.ConditionTrue, api.ServiceSuspendComplete, "its clusters are gone")
}

// takeOver says which cluster serves: another one takes over once all runs there.
func takeOver(x *api.RayService, s *jobs.Progress) {
	state := &x.Status
	apimeta.RemoveStatusCondition(&state.Conditions, api.ServiceSuspending)
	apimeta.RemoveStatusCondition(&state.Conditions, api.ServiceSuspended)
	if before := state.RetiredService; before != nil && s.Now.Sub(before.Since.Time) >= delay(x) {
		state.RetiredService = nil
	}
	serves, next := clusters(x)
	if serves != state.ActiveServiceStatus.RayClusterName { // it is replaced
		state.ActiveServiceStatus = api.RayServiceStatus{}
	}
	if next != state.PendingServiceStatus.RayClusterName {
		state.PendingServiceStatus = api.RayServiceStatus{RayClusterName: next}
	}
	if child(s, next) == nil {
		return
	}
	if _, said := ask(x, next, s.Answers); !said.served {
		return
	}
	if serves != "" {
		state.RetiredService = &api.RetiredCluster{RayClusterName: serves, Since: metav1.NewTime(s.Now)}
	}
	state.ActiveServiceStatus, state.PendingServiceStatus = state.PendingServiceStatus, api.RayServiceStatus{}
}

// tell says how the clusters stand.
func tell(x *api.RayService, s *jobs.Progress) {
	state := &x.Status
	serving := cluster(x, &state.ActiveServiceStatus, s)
	next := cluster(x, &state.PendingServiceStatus, s)
	active, pending := state.ActiveServiceStatus.RayClusterName != "", state.PendingServiceStatus.RayClusterName != ""
	state.NumServeEndpoints = 0
	if c := child(
		s,
		state.ActiveServiceStatus.RayClusterName,
	); c != nil &&
		(serving.served || !serving.known && state.ServiceStatus == api.ServiceRunning) {
		state.NumServeEndpoints = c.Status.ReadyWorkerReplicas
		if raycluster.HeadReady(c) && !x.Spec.ExcludeHeadPodFromServeSvc {
			state.NumServeEndpoints++
		}
	}
	switch {
	case state.NumServeEndpoints > 0:
		state.ServiceStatus = api.ServiceRunning
		set(x, s, api.ServiceReady, metav1.ConditionTrue, api.NonZeroServeEndpoints, "requests are answered")
	case !active:
		state.ServiceStatus = ""
		set(
			x,
			s,
			api.ServiceReady,
			metav1.ConditionFalse,
			api.ServiceInitializing,
			orElse(next.refusal, "its cluster does not serve yet"),
		)
	default:
		state.ServiceStatus = ""
		set(
			x,
			s,
			api.ServiceReady,
			metav1.ConditionFalse,
			api.ZeroServeEndpoints,
			orElse(serving.refusal, "no pod answers requests"),
		)
	}
	switch {
	case active && pending:
		set(
			x,
			s,
			api.ServiceUpgradeInProgress,
			metav1.ConditionTrue,
			api.BothClustersExist,
			orElse(next.refusal, fmt.Sprintf("cluster %s is to take over", state.PendingServiceStatus.RayClusterName)),
		)
	case active:
		set(x, s, api.ServiceUpgradeInProgress, metav1.ConditionFalse, api.NoPendingCluster, "there is one cluster")
	default:
		set(x, s, api.ServiceUpgradeInProgress, metav1.ConditionFalse, api.NoActiveCluster, "no cluster serves yet")
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// cluster tells of one of the clusters.
func cluster(x *api.RayService, to *api.RayServiceStatus, s *jobs.Progress) heard {
	if to.RayClusterName == "" {
		return heard{}
	}
	_, said := ask(x, to.RayClusterName, s.Answers)
	if said.known {
		to.Applications = said.apps
	}
	if c := child(s, to.RayClusterName); c != nil {
		to.RayClusterStatus = c.Status.DeepCopy()
		to.RayClusterStatus.LastUpdateTime = nil
	}
	return said
}
