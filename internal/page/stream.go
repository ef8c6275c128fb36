package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// lists are what one stream may carry, by the name that the page has for it.
func lists() map[string]string {
	return map[string]string{
		"jobs":        "jobviews",
		"nodes":       "nodeviews",
		"queues":      "queueviews",
		"domains":     "domainviews",
		"teams":       "teamviews",
		"localqueues": "localqueueviews",
	}
}

const (
	// together is how long changes are gathered that go out together.
	together = 100 * time.Millisecond
	// beat is how often a stream says that it is alive, patience how long a viewer may take to read what was sent.
	beat, patience = 15 * time.Second, 20 * time.Second
	// again is after how long a list is asked for anew whose watch has ended.
	again = 2 * time.Second
	// refusedAgain is after how long a list is asked for anew that this viewer may not have: rights change rarely, and
	// each refusal is in a log that people read.
	refusedAgain = time.Minute
	// mostObjectBytes bounds one object of a list.
	mostObjectBytes = 16 << 20
)

// change is what happened to a list: since the last one, or, of a list that begins, all of it.
type change struct {
	List string `json:"list"`
	// All says that what is not in Set is gone.
	All bool `json:"all,omitempty"`
	// Set are views that came or changed, Gone the names of those that went, with the namespace before a slash.
	Set  []json.RawMessage `json:"set,omitempty"`
	Gone []string          `json:"gone,omitempty"`
	// Refused is why there is no such list for this viewer; Lost why it is not up to date.
	Refused string `json:"refused,omitempty"`
	Lost    string `json:"lost,omitempty"`
}

// stream sends what is in lists and what changes in them, until the viewer goes or the session ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, in *session) {
	var names []string
	for name := range strings.SplitSeq(r.URL.Query().Get("lists"), ",") {
		if lists()[name] == "" {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("lists: %q is none", name))
			return
		}
		names = append(names, name)
	}
	if !in.open() {
		refuse(w, http.StatusTooManyRequests, "the page is open too often: close a tab")
		return
	}
	defer in.close()
	ctx, stop := context.WithCancel(in.context(r.Context()))
	changes := make(chan change)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		f := follower{name: name, answer: s.options.Answer(in.viewer), clock: s.options.Clock, to: changes}
		asking.Go(func() { f.follow(ctx) })
	}
	out, err := s.begin(w, r)
	if err != nil {
		return
	}
	tick := s.options.Clock.NewTicker(beat)
	defer tick.Stop()
	until := s.options.Clock.NewTimer(in.viewer.Until.Sub(s.options.Clock.Now()))
	defer until.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-until.C():
			_ = out.send("ended", struct{}{})
			return
		case <-tick.C():
			err = out.send("alive", struct{}{})
		case c := <-changes:
			err = out.send("change", c)
		}
		if err != nil {
			return // the viewer is gone, or reads too slowly: the page asks again
		}
	}
}

// sender writes events, compressed where the viewer takes that.
type sender struct {
	control *http.ResponseController
	to      io.Writer
	packed  *gzip.Writer
	clock   clock.PassiveClock
}

// begin sends the head of a stream.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
func (s *Server) begin(w http.ResponseWriter, r *http.Request) (*sender, error) {
	out := &sender{control: http.NewResponseController(w), to: w, clock: s.options.Clock}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		out.packed = gzip.NewWriter(w)
		out.to = out.packed
	}
	w.WriteHeader(http.StatusOK)
	return out, out.send("alive", struct{}{})
}

func (o *sender) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := o.control.SetWriteDeadline(
		o.clock.Now().Add(patience),
	); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write an event: %w", err)
	}
	if _, err := fmt.Fprintf(o.to, "event: %s\ndata: %s\n\n", event, text); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if o.packed != nil {
		if err := o.packed.Flush(); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	if err := o.control.Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

// follower follows one list.
type follower struct {
	name   string
	answer http.Handler
	clock  interface {
		After(time.Duration) <-chan time.Time
	}
	to chan<- change
}

// follow tells what is in the list and what changes, until the context ends. A watch that ends is begun anew, with all that
// there is.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		c := f.watch(ctx)
		c.List = f.name
		select {
		case f.to <- c:
		case <-ctx.Done():
			return
		}
		wait := again
		if c.Refused != "" {
			wait = refusedAgain
		}
		select {
		case <-f.clock.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// watch follows the list once, and returns why that ended.
func (f *follower) watch(ctx context.Context) change {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reader, writer := io.Pipe()
	reply := &reply{header: http.Header{}, body: writer, began: make(chan struct{})}
	u := url.URL{
		Path:     "/apis/view.mlbatch.dev/v1alpha1/" + lists()[f.name],
		RawQuery: "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return change{Lost: err.Error()}
	}
	r.Header.Set("Accept", "application/json")
	go func() {
		defer func() { _ = writer.Close() }() // it never fails
		defer reply.begin()
		defer func() {
			// A handler says by this panic that it cannot go on; net/http knows it, but did not call this one.
			if is := recover(); is != nil && is != http.ErrAbortHandler { //nolint:errorlint // it is that very value
				panic(is)
			}
		}()
		f.answer.ServeHTTP(reply, r)
	}()
	defer func() { _ = reader.Close() }() // it never fails
	select {
	case <-reply.began:
	case <-ctx.Done():
		return change{}
	}
	if reply.code != http.StatusOK {
		return refusal(reply.code, reader)
	}
	events := make(chan event)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, mostObjectBytes)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return f.gather(ctx, events)
}

// refusal is why a list was not answered.
func refusal(code int, body io.Reader) change {
	text, _ := io.ReadAll(io.LimitReader(body, 64<<10))
	var said problem
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = http.StatusText(code)
	}
	if code == http.StatusForbidden || code == http.StatusNotFound {
		return change{All: true, Refused: said.Message}
	}
	return change{Lost: said.Message}
}

// event of a watch, as the Kubernetes API has them.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// named is what is read of the object of an event.
type named struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Message string `json:"message"` // of a failure
}

// gather sends events of a watch: those up to the first bookmark together, and later those that come together.
func (f *follower) gather(ctx context.Context, events <-chan event) change {
	next, begun := change{List: f.name, All: true}, false
	set := map[string]int{}
	var due <-chan time.Time
	for {
		var e event
		var open bool
		select {
		case <-ctx.Done():
			return change{}
		case <-due:
			select {
			case f.to <- next:
			case <-ctx.Done():
				return change{}
			}
			next, due = change{List: f.name}, nil
			clear(set)
			continue
		case e, open = <-events:
		}
		if !open {
			return change{Lost: "the controller does not answer"}
		}
		var o named
		if json.Unmarshal(e.Object, &o) != nil {
			continue
		}
		key := o.Metadata.Namespace + "/" + o.Metadata.Name
		switch e.Type {
		case "ADDED", "MODIFIED":
			next.Gone = slices.DeleteFunc(next.Gone, func(gone string) bool { return gone == key })
			if i, there := set[key]; there {
				next.Set[i] = bytes.Clone(e.Object)
				break
			}
			set[key] = len(next.Set)
			next.Set = append(next.Set, bytes.Clone(e.Object))
		case "DELETED":
			if i, there := set[key]; there {
				next.Set[i] = json.RawMessage("null")
				delete(set, key)
			}
			next.Gone = append(next.Gone, key)
		case "BOOKMARK":
			begun = true
		case "ERROR":
			return change{Lost: o.Message}
		}
		if begun && due == nil && (next.All || len(next.Set)+len(next.Gone) > 0) {
			wait := together
			if next.All {
				wait = 0
			}
			due = f.clock.After(wait)
		}
	}
}

// reply hands what a handler writes on as it is written.
type reply struct {
	header http.Header
	body   io.Writer
	once   sync.Once
	code   int
	began  chan struct{}
}

func (r *reply) Header() http.Header { return r.header }

func (r *reply) WriteHeader(code int) {
	r.once.Do(func() {
		r.code = code
		close(r.began)
	})
}

func (r *reply) Write(b []byte) (int, error) {
	r.begin()
	return r.body.Write(b)
}

func (r *reply) begin() { r.WriteHeader(http.StatusOK) }

// Flush does nothing: what is written is handed on at once.
func (*reply) Flush() {}
