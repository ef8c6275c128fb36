package simnode

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// aRayHead is the pod of a head that runs, with annotations.
func aRayHead(notes map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "c-head", UID: "head", Annotations: notes,
		Labels: map[string]string{"ray.io/node-type": "head", "ray.io/cluster": "c"},
	}}
	p.Spec.NodeName, p.Spec.Containers = "node-0", []corev1.Container{{Name: "ray"}}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		PodIP: "10.200.0.1",
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "ray", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	}
	return p
}

// rayBench is a proxy to the heads of a cluster that is known.
type rayBench struct {
	t      *testing.T
	s      *simulator
	clock  *clocktesting.FakeClock
	client *http.Client
}

func newRayBench(t *testing.T, pods ...*corev1.Pod) *rayBench {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s, err := newSimulator(fake.NewClientset(), clock, options{scale: 1, fleet: DefaultFleet()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDashboards(s)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.nodes.GetIndexer().Add(DefaultFleet().Node(0, clock.Now()))
	for _, p := range pods {
		_ = s.pods.GetIndexer().Add(p)
	}
	server := httptest.NewServer(d.handler())
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &rayBench{t, s, clock, &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}}}
}

// ask returns the status and the text of an answer.
func (b *rayBench) ask(method, path, body string) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(
		b.t.Context(),
		method,
		"http://10.200.0.1:8265"+path,
		strings.NewReader(body),
	)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(text)))
}

func (b *rayBench) expect(why, got string, want ...string) {
	b.t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			b.t.Errorf("%s: %s, want %s", why, got, w)
		}
	}
}

// TestRayJobs: a head knows what was submitted to it, which ends in its time.
func TestRayJobs(t *testing.T) {
	b := newRayBench(t, aRayHead(nil))
	b.expect("nobody submitted it", b.ask("GET", "/api/jobs/a", ""), "404 ")
	b.expect("no command", b.ask("POST", "/api/jobs/", `{"submission_id": "a"}`), "400 ")
	b.expect(
		"submitted",
		b.ask("POST", "/api/jobs/", `{"submission_id": "a", "entrypoint": "sleep 5; exit 3"}`),
		"200 ",
		`"submission_id":"a"`,
	)
	b.expect(
		"twice",
		b.ask("POST", "/api/jobs/", `{"submission_id": "a", "entrypoint": "x"}`),
		"400 ",
		"already exists",
	)
	b.expect("it runs", b.ask("GET", "/api/jobs/a", ""), `"status":"RUNNING"`, `"start_time":1000000`)
	b.clock.Step(5 * time.Second)
	b.expect(
		"it failed",
		b.ask("GET", "/api/jobs/a", ""),
		`"status":"FAILED"`,
		"exit code 3",
		`"end_time":1005000`,
	)
	b.ask("POST", "/api/jobs/", `{"submission_id": "b", "entrypoint": "sleep 5"}`)
	b.expect("it is stopped", b.ask("POST", "/api/jobs/b/stop", ""), `"stopped":true`)
	b.expect("it was stopped", b.ask("GET", "/api/jobs/b", ""), `"status":"STOPPED"`)
	b.expect("it is stopped already", b.ask("POST", "/api/jobs/b/stop", ""), `"stopped":false`)
	b.ask("POST", "/api/jobs/", `{"submission_id": "c", "entrypoint": "sleep 5"}`)
	b.clock.Step(5 * time.Second)
	b.expect("it succeeded", b.ask("GET", "/api/jobs/c", ""), `"status":"SUCCEEDED"`)
	b.expect("it is forgotten", b.ask("DELETE", "/api/jobs/c", ""), `"deleted":true`)
	b.expect("it is forgotten", b.ask("GET", "/api/jobs/c", ""), "404 ")

	again := aRayHead(nil)
	again.Status.ContainerStatuses[0].RestartCount = 1
	_ = b.s.pods.GetIndexer().Update(again)
	b.expect("a head that begins anew knows nothing", b.ask("GET", "/api/jobs/a", ""), "404 ")
	dead := aRayHead(nil)
	dead.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{},
	}
	_ = b.s.pods.GetIndexer().Update(dead)
	b.expect("a head that ended says nothing", b.ask("GET", "/api/jobs/a", ""), "502 ")
	_ = b.s.pods.GetIndexer().Delete(dead)
	b.expect("no head", b.ask("GET", "/api/jobs/a", ""), "502 ")
}

// TestRayJobsByAnnotation: the head says how its jobs end, whatever their commands are.
func TestRayJobsByAnnotation(t *testing.T) {
	b := newRayBench(t, aRayHead(map[string]string{AnnotationJobRunFor: "2s", AnnotationJobFailFirst: "1"}))
	b.ask("POST", "/api/jobs/", `{"submission_id": "a", "entrypoint": "python a.py"}`)
	b.clock.Step(2 * time.Second)
	b.expect("the first try", b.ask("GET", "/api/jobs/a", ""), `"status":"FAILED"`)
	next := newRayBench(
		t,
		aRayHead(
			map[string]string{AnnotationJobRunFor: "2s", AnnotationJobFailFirst: "1", AnnotationFailures: "1"},
		),
	)
	next.ask("POST", "/api/jobs/", `{"submission_id": "a", "entrypoint": "python a.py"}`)
	next.clock.Step(2 * time.Second)
	next.expect("the next", next.ask("GET", "/api/jobs/a", ""), `"status":"SUCCEEDED"`)
	bad := newRayBench(t, aRayHead(map[string]string{AnnotationJobRunFor: "soon"}))
	bad.expect(
		"no duration",
		bad.ask("POST", "/api/jobs/", `{"submission_id": "a", "entrypoint": "x"}`),
		"400 ",
		"soon",
	)
}

// TestRayJobsOfPods: what a pod submits is as that pod's container.
func TestRayJobsOfPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "s", UID: "s"}}
	pod.Spec.Containers = []corev1.Container{
		{Name: "c", Command: []string{"bash", "-ce", "--", "ray job submit -- x"}, Env: []corev1.EnvVar{
			{
				Name:  "RAY_JOB_SUBMISSION_ID",
				Value: "a",
			},
			{Name: "RAY_DASHBOARD_ADDRESS", Value: "c-head-svc.blue.svc:8265"},
		}},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{
			Name:  "c",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(990, 0)}},
		},
	}
	b := newRayBench(t, aRayHead(nil), pod)
	b.expect("it runs", b.ask("GET", "/api/jobs/a", ""), `"status":"RUNNING"`)
	b.expect("it is another's", b.ask("GET", "/api/jobs/b", ""), "404 ")
	ended := pod.DeepCopy()
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: metav1.Unix(995, 0)},
	}
	_ = b.s.pods.GetIndexer().Update(ended)
	b.expect("it failed", b.ask("GET", "/api/jobs/a", ""), `"status":"FAILED"`, `"end_time":995000`)
	elsewhere := pod.DeepCopy()
	elsewhere.Spec.Containers[0].Env[1].Value = "d-head-svc.blue.svc:8265"
	_ = b.s.pods.GetIndexer().Update(elsewhere)
	b.expect("it is in another cluster", b.ask("GET", "/api/jobs/a", ""), "404 ")
}

// TestRayServes: what is to be served is served after a while.
func TestRayServes(t *testing.T) {
	b := newRayBench(t, aRayHead(nil))
	b.expect("nothing is served", b.ask("GET", "/api/serve/applications/", ""), `200 {"applications":{}`)
	b.expect(
		"nonsense",
		b.ask("PUT", "/api/serve/applications/", `{"applications": [{"name": "a"}]}`),
		"400 ",
		"import_path",
	)
	b.expect(
		"told",
		b.ask(
			"PUT",
			"/api/serve/applications/",
			`{"applications": [{"name": "a", "import_path": "x:y", "deployments": [{"name": "d"}]}]}`,
		),
		"200 ",
	)
	b.expect(
		"not yet",
		b.ask("GET", "/api/serve/applications/", ""),
		`"status":"DEPLOYING"`,
		`"status":"UPDATING"`,
	)
	b.clock.Step(deploysFor)
	b.expect(
		"it is",
		b.ask("GET", "/api/serve/applications/", ""),
		`"a":{"name":"a","status":"RUNNING"`,
		`"d":{"name":"d","status":"HEALTHY"`,
	)
	_ = b.s.pods.GetIndexer().Update(aRayHead(map[string]string{AnnotationServe: "UNHEALTHY"}))
	b.expect("it is not any more", b.ask("GET", "/api/serve/applications/", ""), `"status":"UNHEALTHY"`)
}

// TestRayToken: a head that was given a token answers nobody who does not show it.
func TestRayToken(t *testing.T) {
	head := aRayHead(nil)
	head.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RAY_AUTH_TOKEN", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "c"},
			Key:                  "auth_token",
		},
	}}}
	b := newRayBench(t, head)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "c"},
		Data:       map[string][]byte{"auth_token": []byte("abc")},
	}
	b.expect("no Secret", b.ask("GET", "/api/version", ""), "401 ")
	if _, err := b.s.client.CoreV1().
		Secrets("blue").
		Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.expect("no token", b.ask("GET", "/api/version", ""), "401 ")
	for _, header := range []string{"Authorization", "X-Ray-Authorization"} {
		for token, want := range map[string]string{"Bearer abc": "200 ", "Bearer abd": "401 "} {
			req, err := http.NewRequestWithContext(
				t.Context(),
				http.MethodGet,
				"http://10.200.0.1:8265/api/version",
				http.NoBody,
			)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(header, token)
			res, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			b.expect(header+" "+token, fmt.Sprint(res.StatusCode, " "), want)
		}
	}
}
