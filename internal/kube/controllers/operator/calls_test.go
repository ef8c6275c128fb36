package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// phone are calls that go to a server of the test, which plays the proxy.
type phone struct {
	*calls
	t   *testing.T
	api client.Client
}

func aHead(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID(uid)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.2.3"},
	}
}

func newPhone(t *testing.T, handler http.HandlerFunc, pods ...client.Object) *phone {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithObjects(pods...).Build()
	p := &phone{newCalls(api, api, proxy, clock.RealClock{}), t, api}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Start(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return p
}

// woken waits until the job is woken, for as long as a call may take.
func (p *phone) wakes(why string) {
	p.t.Helper()
	select {
	case e := <-p.woken:
		if e.Object.GetName() != "x" {
			p.t.Fatalf("%s: %s is woken", why, e.Object.GetName())
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s: the job is not woken", why)
	}
}

func (p *phone) said(c *jobs.Call) string {
	a, known := p.answers(aToy("lab")).To(c)
	if !known {
		return "nothing"
	}
	return fmt.Sprint(a.Status, " ", string(a.Body), a.Failure)
}

func get(path string) jobs.Call {
	return jobs.Call{Pod: "head", Port: 8265, Method: http.MethodGet, Path: path, Every: time.Millisecond}
}

// TestCalls: a pod of the job is asked again and again, the job is woken when the answer is
// another, and nobody is asked once it is not wanted any more.
func TestCalls(t *testing.T) {
	var state atomic.Value
	state.Store("a")
	var asked atomic.Int64
	p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Host != "10.1.2.3:8265" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("%s is asked with %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, r.URL.Path+" "+fmt.Sprint(state.Load()))
	}, aHead("head", "1"))
	job, call := aToy("lab"), get("/how")
	p.want(job, []jobs.Call{call}, nil)
	p.wakes("the first answer")
	expect(t, "the answer", p.said(&call), "200 /how a")
	state.Store("b")
	p.wakes("another answer")
	expect(t, "the answer", p.said(&call), "200 /how b")
	p.want(job, nil, nil)
	expect(t, "it is forgotten", p.said(&call), "nothing")
	p.want(job, []jobs.Call{call}, nil)
	p.wakes("it is asked again")
	p.forget(client.ObjectKeyFromObject(job))
	expect(t, "the job is gone", p.said(&call), "nothing")
	other := aToy("lab", func(x *toy.Toy) { x.UID = "other" })
	p.want(other, []jobs.Call{call}, nil)
	expect(t, "its successor has no answers of its own", p.said(&call), "nothing")
}

// TestCallsShowTokens: a pod is shown what it was given in a variable, and nothing else: neither
// what another Secret has nor what another pod was given. What is refused is read anew.
func TestCallsShowTokens(t *testing.T) {
	given := func(name string, env ...corev1.EnvVar) *corev1.Pod {
		p := aHead(name, name)
		p.Spec.Containers = []corev1.Container{{Name: "ray", Env: env}}
		return p
	}
	from := func(secret string) corev1.EnvVar {
		return corev1.EnvVar{
			Name: "TOKEN",
			ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: secret},
					Key:                  "t",
				},
			},
		}
	}
	tests := map[string]struct {
		why   string
		pod   *corev1.Pod
		token string // the variable that the call names
		want  string
	}{
		"Secret": {"it has it", given("head", from("mine")), "TOKEN", "200 Bearer one Bearer one"},
		"Plain": {
			"its author wrote it",
			given("head", corev1.EnvVar{Name: "TOKEN", Value: "two"}),
			"TOKEN",
			"200 Bearer two Bearer two",
		},
		"NoVariable": {"somebody else made a pod of the name", given("head"), "TOKEN", "200  "},
		"NoName":     {"the call shows none", given("head", from("mine")), "", "200  "},
		"Field": {
			"it is no secret",
			given(
				"head",
				corev1.EnvVar{
					Name:      "TOKEN",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				},
			),
			"TOKEN",
			"200  ",
		},
		"NoSecret": {
			"it is not there yet, and nobody is asked",
			given("head", from("none")),
			"TOKEN",
			`0 read the token of pod head: secrets "none" not found`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "mine"},
				Data:       map[string][]byte{"t": []byte("one")},
			}
			p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("X-Ray-Authorization"))
			}, tt.pod, secret)
			call := get("/how")
			call.Token = tt.token
			p.want(aToy("lab"), []jobs.Call{call}, nil)
			p.wakes(tt.why)
			expect(t, tt.why, p.said(&call), tt.want)
		})
	}
	t.Run("Changed", func(t *testing.T) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "mine"},
			Data:       map[string][]byte{"t": []byte("old")},
		}
		p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer new" {
				http.Error(w, "no", http.StatusUnauthorized)
			}
		}, given("head", from("mine")), secret)
		call := get("/how")
		call.Token = "TOKEN"
		p.want(aToy("lab"), []jobs.Call{call}, nil)
		p.wakes("it is refused")
		secret.Data["t"] = []byte("new")
		if err := p.api.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		p.wakes("the new one is read")
		expect(t, "the answer", p.said(&call), "200 ")
	})
}

// TestCallsChange: what changes something is asked once, again at another pod, and what is
// known from before is asked anew.
func TestCallsChange(t *testing.T) {
	var posts atomic.Int64
	p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if body, _ := io.ReadAll(
				r.Body,
			); string(body) != "{}" ||
				r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %v", body, r.Header)
			}
			posts.Add(1)
			return
		}
		_, _ = fmt.Fprint(w, posts.Load())
	}, aHead("head", "1"))
	job, how := aToy("lab"), get("/how")
	how.Every = time.Hour
	put := jobs.Call{
		Pod:    "head",
		Port:   1,
		Method: http.MethodPut,
		Path:   "/do",
		Body:   []byte("{}"),
		Every:  time.Millisecond,
		Once:   true,
	}
	p.want(job, []jobs.Call{how}, nil)
	p.wakes("nothing was done yet")
	expect(t, "the answer", p.said(&how), "200 0")
	p.want(job, []jobs.Call{how, put}, nil)
	p.wakes("it is done")
	for p.said(&how) != "200 1" {
		p.wakes("it is asked anew")
	}
	second := get("/again") // as many calls as it takes for another one of the first
	second.Every = time.Hour
	p.want(job, []jobs.Call{how, put, second}, nil)
	p.wakes("another question")
	expect(t, "it was done once", posts.Load(), int64(1))
	if err := p.api.Delete(t.Context(), aHead("head", "1")); err != nil {
		t.Fatal(err)
	}
	for !strings.HasPrefix(p.said(&put), "0 there is no pod") {
		p.wakes("the pod is gone")
	}
	if err := p.api.Create(t.Context(), aHead("head", "2")); err != nil {
		t.Fatal(err)
	}
	for p.said(&put) != "200 " {
		p.wakes("there is another pod")
	}
	expect(t, "it is done there, too", posts.Load(), int64(2))
}

// TestPostDeleteCalls: when a job is deleted, what goes on without it is told so, again if it does not
// answer, and never if the job is still there.
func TestPostDeleteCalls(t *testing.T) {
	told := make(chan string, 100)
	broken := true
	p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if told <- r.URL.Path; broken {
				broken = false // one call at a time
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}, aHead("head", "1"))
	job, how := aToy("lab"), get("/how")
	stop := jobs.Call{Pod: "head", Port: 1, Method: http.MethodPost, Path: "/stop", Every: time.Millisecond}
	p.want(job, []jobs.Call{how}, []jobs.Call{stop})
	p.wakes("it stands somehow")
	p.forget(client.ObjectKeyFromObject(job))
	p.want(job, nil, []jobs.Call{stop})
	if len(told) > 0 {
		t.Errorf("%s was asked before the job was deleted", <-told)
	}
	p.leave(client.ObjectKeyFromObject(job))
	for range 2 {
		select {
		case path := <-told:
			expect(t, "asked", path, "/stop")
		case <-time.After(30 * time.Second):
			t.Fatal("it was not told")
		}
	}
	second := get("/second")
	p.want(aToy("lab"), []jobs.Call{second}, nil)
	p.wakes("another job of the name")
	if len(told) > 0 {
		t.Error("it was told once more")
	}
	missing := stop
	missing.Pod = "gone"
	p.want(job, nil, []jobs.Call{missing})
	p.leave(client.ObjectKeyFromObject(job))
	for { // nobody is there to be told
		p.mu.Lock()
		left := len(p.last)
		p.mu.Unlock()
		if left == 0 {
			break
		}
		runtime.Gosched()
	}
}

// TestCallsAreBounded: a pod leads nowhere else, says no more than there is room for, and holds
// nobody up.
func TestCallsAreBounded(t *testing.T) {
	led := make(chan string, 100)
	p := newPhone(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/leads":
			http.Redirect(w, r, "http://10.9.9.9/secret", http.StatusFound)
		case "/secret":
			led <- r.URL.String()
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", longestAnswer+1))
		case "/silent":
			<-r.Context().Done()
		}
	}, aHead("head", "1"))
	leads, long, stopped := get("/leads"), get("/long"), get("/x")
	stopped.Pod = "other"
	leads.Every, long.Every, stopped.Every = time.Hour, time.Hour, time.Hour
	job := aToy("lab")
	p.want(job, []jobs.Call{leads, long, stopped}, nil)
	for range 3 {
		p.wakes("an answer")
	}
	if got := p.said(&leads); !strings.HasPrefix(got, "302 ") {
		t.Errorf("it led to %s", got)
	}
	expect(
		t,
		"too much is said",
		p.said(&long),
		fmt.Sprintf("0 the answer is longer than %d bytes", longestAnswer),
	)
	expect(t, "there is no such pod", p.said(&stopped), "0 there is no pod other")
	select {
	case to := <-led:
		t.Errorf("it was led to %s", to)
	default:
	}
	// Jobs whose pods are silent take no longer than the calls of a while.
	p.http.Timeout = time.Second
	for i := range 3 * callers {
		silent := aToy(
			"lab",
			func(x *toy.Toy) { x.Name, x.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint("s", i)) },
		)
		p.want(silent, []jobs.Call{get("/silent")}, nil)
	}
	quick := get("/quick")
	p.want(job, []jobs.Call{quick}, nil)
	for range 3*callers + 1 {
		select {
		case e := <-p.woken:
			if e.Object.GetName() == "x" {
				expect(t, "the answer", p.said(&quick), "200 ")
				return
			}
		case <-time.After(time.Minute):
			t.Fatal("pods that are silent hold up a job")
		}
	}
}

// TestAddressesOfPods: the controller does not talk to its own machine, nor to where clouds give
// away keys.
func TestAddressesOfPods(t *testing.T) {
	for address, fine := range map[string]bool{
		"10.1.2.3:80": true, "[fd00::1]:80": true, "100.64.0.1:8265": true,
		"127.0.0.1:80": false, "[::1]:80": false, "169.254.169.254:80": false, "0.0.0.0:80": false, "[::ffff:127.0.0.1]:80": false, "224.0.0.1:1": false, "x": false,
	} {
		if err := ofAPod("tcp", address, nil); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
	}
	c := newCalls(nil, nil, nil, clock.RealClock{})
	if a := c.send(
		t.Context(),
		"127.0.0.1",
		"",
		&jobs.Call{Port: 1, Method: http.MethodGet, Path: "/"},
	); !strings.Contains(
		a.Failure,
		errNoPod.Error(),
	) {
		t.Errorf("%+v", a)
	}
}
