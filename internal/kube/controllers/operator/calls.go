package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Limits of calls.
const (
	// callTimeout is how long a pod may take to answer, longestAnswer how much it may say.
	callTimeout   = 5 * time.Second
	longestAnswer = 1 << 20
	// callers are how many calls are made at the same time, and silentCallers how many more to
	// pods that did not answer before: they take all of the timeout each, and hold up no others.
	callers, silentCallers = 16, 16
	// longestSilence is the longest pause after calls that nobody answered.
	longestSilence = time.Minute
)

// calls asks pods of jobs by HTTP, beside the reconcilers, and wakes a job when an answer
// changes. What was answered is kept in memory: it is asked again by who comes after.
type calls struct {
	client client.Reader
	// live reads Secrets: they are kept in no cache.
	live  client.Reader
	clock clock.PassiveClock
	http  *http.Client
	// woken are jobs of which an answer changed.
	woken chan event.GenericEvent
	// due are calls to make, and silent those to pods that did not answer before.
	due, silent workqueue.TypedDelayingInterface[callID]

	mu   sync.Mutex
	jobs map[types.NamespacedName]*asked
	// last are calls of jobs that were deleted.
	last map[callID]*lastCall
}

// lastCall is a call of a job that was deleted, and how often it was tried.
type lastCall struct {
	jobs.Call
	tries int
}

// lastTries is how often it is tried.
const lastTries = 3

// callID is one call of one job.
type callID struct {
	job types.NamespacedName
	uid types.UID
	key string
}

// asked is what is asked of one job.
type asked struct {
	job   client.Object // its name and UID
	uid   types.UID
	calls map[string]*ask
	// farewell is what is asked when the job is deleted.
	farewell []jobs.Call
}

// ask is a call and what came of it.
type ask struct {
	jobs.Call
	// pod is the one that answered last, and token what it was shown.
	pod      types.UID
	token    string
	answer   *jobs.Answer
	failures int
	// again: it is asked at once when the call that is under way is over.
	underway, again bool
}

// said is what came of a call, and of which pod; nobody: none was there to be asked.
type said struct {
	pod    types.UID
	token  string
	answer jobs.Answer
	nobody bool
}

// newCalls returns one that goes through a proxy; nil goes to the pods themselves.
func newCalls(c, live client.Reader, proxy *url.URL, now clock.PassiveClock) *calls {
	queue := func(name string) workqueue.TypedDelayingInterface[callID] {
		return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[callID]{Name: name})
	}
	t := &http.Transport{
		// A pod that is asked every few seconds keeps no connection: there are as many as jobs.
		DisableKeepAlives:      true,
		DisableCompression:     true,
		ResponseHeaderTimeout:  callTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DialContext:            (&net.Dialer{Timeout: callTimeout, Control: ofAPod}).DialContext,
	}
	if proxy != nil {
		t.Proxy, t.DialContext = http.ProxyURL(proxy), (&net.Dialer{Timeout: callTimeout}).DialContext
	}
	return &calls{
		client: c,
		live:   live,
		clock:  now,
		woken:  make(chan event.GenericEvent, 1024),
		due:    queue("calls"),
		silent: queue("silent-calls"),
		jobs:   map[types.NamespacedName]*asked{},
		last:   map[callID]*lastCall{},
		http: &http.Client{
			Transport:     t,
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// errNoPod: an address is none that pods have.
var errNoPod = errors.New("no pod has such an address")

// ofAPod refuses addresses that no pod has: those of the controller's own machine, and those at
// which clouds give away keys.
func ofAPod(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, errNoPod)
	}
	if ip := at.Addr().Unmap(); !ip.IsGlobalUnicast() {
		return fmt.Errorf("%s: %w", address, errNoPod)
	}
	return nil
}

// Start makes calls until the context ends.
func (c *calls) Start(ctx context.Context) error {
	var all sync.WaitGroup
	for queue, n := range map[workqueue.TypedDelayingInterface[callID]]int{c.due: callers, c.silent: silentCallers} {
		for range n {
			all.Go(func() {
				for {
					id, quit := queue.Get()
					if quit {
						return
					}
					c.make(ctx, id)
					queue.Done(id)
				}
			})
		}
	}
	<-ctx.Done()
	c.due.ShutDown()
	c.silent.ShutDown()
	all.Wait()
	return nil
}

// want says what is asked of a job from now on, and when it is deleted.
func (c *calls) want(job jobs.Object, all, farewell []jobs.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := client.ObjectKeyFromObject(job)
	a := c.jobs[name]
	if len(all)+len(farewell) == 0 && a == nil {
		return
	}
	if a == nil || a.uid != job.GetUID() {
		a = &asked{uid: job.GetUID(), calls: map[string]*ask{}}
		a.job, _ = job.DeepCopyObject().(client.Object)
		c.jobs[name] = a
	}
	a.farewell = farewell
	wanted := make(map[string]bool, len(all))
	for _, call := range all {
		key := call.Key()
		wanted[key] = true
		if is := a.calls[key]; is != nil {
			is.Every, is.Once, is.Token = call.Every, call.Once, call.Token
			continue
		}
		a.calls[key] = &ask{Call: call}
		c.due.Add(callID{name, a.uid, key})
	}
	for key := range a.calls {
		if !wanted[key] {
			delete(a.calls, key)
		}
	}
}

// answers are the answers that a job got.
func (c *calls) answers(job jobs.Object) jobs.Answers {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.jobs[client.ObjectKeyFromObject(job)]
	if a == nil || a.uid != job.GetUID() {
		return nil
	}
	out := jobs.Answers{}
	for key, is := range a.calls {
		if is.answer != nil {
			out[key] = *is.answer
		}
	}
	return out
}

func (c *calls) forget(job types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, job)
}

// leave forgets a job that was deleted, once what is to be asked then is.
func (c *calls) leave(job types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.jobs[job]
	if a == nil {
		return
	}
	delete(c.jobs, job)
	for _, call := range a.farewell {
		id := callID{job, a.uid, call.Key()}
		c.last[id] = &lastCall{Call: call}
		c.due.Add(id)
	}
}

// part makes a call of a job that was deleted.
func (c *calls) part(ctx context.Context, id callID) {
	c.mu.Lock()
	is := c.last[id]
	c.mu.Unlock()
	if is == nil {
		return
	}
	said := c.ask(ctx, id.job.Namespace, &ask{Call: is.Call})
	c.mu.Lock()
	defer c.mu.Unlock()
	is.tries++
	if said.nobody || said.answer.Status != 0 && said.answer.Status < http.StatusInternalServerError ||
		is.tries >= lastTries {
		delete(c.last, id)
		return
	}
	c.silent.AddAfter(id, is.Every)
}

// begin returns a call that is to be made; nil if it is not any more.
func (c *calls) begin(id callID) *ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.jobs[id.job]
	if a == nil || a.uid != id.uid || a.calls[id.key] == nil || a.calls[id.key].underway {
		return nil
	}
	is := a.calls[id.key]
	is.underway = true
	return &ask{Call: is.Call, pod: is.pod, token: is.token, answer: is.answer}
}

// make makes a call, notes what came of it and says when to make it again.
func (c *calls) make(ctx context.Context, id callID) {
	is := c.begin(id)
	if is == nil {
		c.part(ctx, id)
		return
	}
	said := c.ask(ctx, id.job.Namespace, is)
	if job := c.note(id, &said); job != nil {
		select {
		case c.woken <- event.GenericEvent{Object: job}:
		case <-ctx.Done():
		}
	}
}

// note takes in what came of a call, and returns the job if that is new. A pod that is not
// there is looked for again without longer and longer pauses, since nobody is asked.
func (c *calls) note(id callID, x *said) client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.jobs[id.job]
	if a == nil || a.uid != id.uid || a.calls[id.key] == nil {
		return nil
	}
	is := a.calls[id.key]
	answer := &x.answer
	is.underway, is.pod, is.token = false, x.pod, x.token
	if is.again { // it was asked before something changed
		is.again = false
		c.due.Add(id)
		return nil
	}
	changed := is.answer == nil || is.answer.Status != answer.Status || !bytes.Equal(is.answer.Body, answer.Body)
	is.answer = answer
	is.failures++
	if x.nobody || answer.Status != 0 && answer.Status < http.StatusInternalServerError {
		is.failures = 0
	}
	pause := min(is.Every<<min(is.failures, 8), longestSilence)
	switch {
	case answer.Status == 0 && is.failures > 0:
		c.silent.AddAfter(id, pause)
	default:
		c.due.AddAfter(id, pause)
	}
	if !changed {
		return nil
	}
	if is.Method != http.MethodGet && answer.Status != 0 {
		c.askAgain(id, a)
	}
	return a.job
}

// askAgain asks at once how things stand that a call may have changed: what was answered
// before it is not known any more.
func (c *calls) askAgain(id callID, a *asked) {
	for key, is := range a.calls {
		if is.Method != http.MethodGet {
			continue
		}
		is.answer = nil
		if is.underway {
			is.again = true
			continue
		}
		c.due.Add(callID{id.job, id.uid, key})
	}
}

// ask makes a call. One that went well and is made once is not made again at the same pod.
func (c *calls) ask(ctx context.Context, namespace string, is *ask) said {
	var pod corev1.Pod
	err := c.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: is.Pod}, &pod)
	switch {
	case err != nil:
		return said{nobody: true, answer: jobs.Answer{Failure: "there is no pod " + is.Pod}}
	case pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning:
		return said{nobody: true, pod: pod.UID, answer: jobs.Answer{Failure: "pod " + is.Pod + " does not run"}}
	case is.Once && is.pod == pod.UID && is.answer != nil && is.answer.Well():
		return said{pod: pod.UID, answer: *is.answer}
	}
	at, token := c.clock.Now(), is.token
	if is.pod != pod.UID || token == "" {
		if token, err = c.token(ctx, &pod, is.Token); err != nil {
			return said{pod: pod.UID, answer: jobs.Answer{Failure: err.Error(), At: at}}
		}
	}
	answer := c.send(ctx, pod.Status.PodIP, token, &is.Call)
	answer.At = at
	if answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden {
		token = "" // it may be another one by now
	}
	return said{pod: pod.UID, token: token, answer: answer}
}

// token is what a pod was given in a variable; "" if it has no such variable. Nothing but what
// the pod itself has is ever read. The pod is read anew: those in the cache are without variables.
func (c *calls) token(ctx context.Context, cached *corev1.Pod, variable string) (string, error) {
	if variable == "" {
		return "", nil
	}
	var pod corev1.Pod
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(cached), &pod); err != nil {
		return "", fmt.Errorf("read pod %s: %w", cached.Name, err)
	}
	if pod.UID != cached.UID || len(pod.Spec.Containers) == 0 {
		return "", nil
	}
	for _, e := range pod.Spec.Containers[0].Env {
		switch {
		case e.Name != variable:
			continue
		case e.ValueFrom == nil:
			return e.Value, nil
		case e.ValueFrom.SecretKeyRef == nil:
			return "", nil
		}
		from := e.ValueFrom.SecretKeyRef
		var secret corev1.Secret
		if err := c.live.Get(
			ctx,
			types.NamespacedName{Namespace: pod.Namespace, Name: from.Name},
			&secret,
		); err != nil {
			return "", fmt.Errorf("read the token of pod %s: %w", pod.Name, err)
		}
		return string(secret.Data[from.Key]), nil
	}
	return "", nil
}

func (c *calls) send(ctx context.Context, ip, token string, call *jobs.Call) jobs.Answer {
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(ip, strconv.Itoa(int(call.Port))), Path: call.Path}
	req, err := http.NewRequestWithContext(ctx, call.Method, at.String(), bytes.NewReader(call.Body))
	if err != nil {
		return jobs.Answer{Failure: err.Error()}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mlbatch")
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" { // Ray reads either; something on the way may take the first away
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("X-Ray-Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return jobs.Answer{Failure: err.Error()}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer+1))
	switch {
	case err != nil:
		return jobs.Answer{Failure: err.Error()}
	case len(body) > longestAnswer:
		return jobs.Answer{Failure: fmt.Sprintf("the answer is longer than %d bytes", longestAnswer)}
	}
	return jobs.Answer{Status: res.StatusCode, Body: body}
}
