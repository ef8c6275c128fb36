package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// ErrNotAll says that an example did not run.
var ErrNotAll = errors.New("not every example ran")

// Collection is a folder of examples.
type Collection struct {
	Name, Title string
	files       fs.FS
}

// Collections are the folders of examples that can be run.
func Collections() []Collection {
	return []Collection{
		{"kinds", "Alice submits one job of each kind", examples.Kinds},
		{"workloads", "Alice submits the example workloads of the tutorial", examples.Workloads},
	}
}

const (
	// patienceForAll is how long all examples together may take: one that runs by the clock
	// begins within a minute.
	patienceForAll = 4 * time.Minute
	lookPause      = 100 * time.Millisecond
)

// example is one ready manifest of a kind of job.
type example struct {
	file string
	// objects are submitted in this order; job is the one that is followed.
	objects []*unstructured.Unstructured
	job     *unstructured.Unstructured
}

// read reads the manifests of a collection.
func (c Collection) read() ([]example, error) {
	names, err := fs.Glob(c.files, c.Name+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list examples: %w", err)
	}
	out := make([]example, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(c.files, name)
		if err != nil {
			return nil, fmt.Errorf("read example: %w", err)
		}
		e := example{file: strings.TrimSuffix(strings.TrimPrefix(name, c.Name+"/"), ".yaml")}
		for docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
			o := &unstructured.Unstructured{}
			if err := docs.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read example %s: %w", name, err)
			}
			e.objects = append(e.objects, o)
			e.job = o // what comes before it is what it needs
		}
		if e.job == nil {
			return nil, fmt.Errorf("example %s is empty", name)
		}
		out = append(out, e)
	}
	return out, nil
}

// progress is how far an example is.
type progress struct {
	pods                     int32
	admitted, running, ended bool
	// endless: it ends with running, what it is for is to serve.
	endless bool
	// failed says why it will not succeed any more.
	failed string
}

// progressOf reads it from a job of any kind.
func progressOf(all jobs.Kinds, o *unstructured.Unstructured) (progress, error) {
	for i := range all { // in whatever version it was written
		if all[i].GroupKind() == o.GroupVersionKind().GroupKind() {
			return progressOfJob(&all[i], o)
		}
	}
	number := func(path ...string) int32 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return int32(n) //nolint:gosec // a number of pods
	}
	switch o.GetKind() {
	case "Pod":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		p := progress{pods: 1, running: phase == "Running", ended: phase == "Succeeded"}
		gates, _, _ := unstructured.NestedSlice(o.Object, "spec", "schedulingGates")
		p.admitted = len(gates) == 0
		if phase == "Failed" {
			p.failed = "its pod failed"
		}
		return p, nil
	case "CronJob":
		_, ended, _ := unstructured.NestedString(o.Object, "status", "lastSuccessfulTime")
		active, _, _ := unstructured.NestedSlice(o.Object, "status", "active")
		began := len(active) > 0 || ended
		return progress{pods: 1, admitted: began, running: began, ended: ended}, nil
	}
	// What serves: it never ends, and has done what it is for when all of it is ready.
	p := progress{pods: number("spec", "replicas"), endless: true}
	p.running = p.pods > 0 && number("status", "readyReplicas") >= p.pods
	p.admitted, p.ended = p.running, p.running
	return p, nil
}

func progressOfJob(k *jobs.Kind, o *unstructured.Unstructured) (progress, error) {
	job := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, job); err != nil {
		return progress{}, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	f, err := k.Read(job)
	if errors.Is(err, jobs.ErrIncomplete) {
		return progress{}, nil // it was written a moment ago
	}
	if err != nil {
		return progress{}, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	p := progress{admitted: !f.Suspended, running: !f.Suspended && f.Ready}
	for i := range f.PodSets {
		p.pods += f.PodSets[i].Count
	}
	if k.Running.Operator != nil {
		if plan, err := k.Running.Operator.Compile(job); err == nil && len(plan.Success) == 0 {
			p.ended, p.endless = p.running, true
		}
	}
	switch {
	case f.Finished == nil:
	case f.Finished.Success:
		p.admitted, p.running, p.ended = true, true, true
	default:
		p.failed = f.Finished.Message
	}
	return p, nil
}

// PlayAll runs the examples of a collection as alice, at the same time, and prints a line for
// each. It returns ErrNotAll if one did not run.
func (t Theatre) PlayAll(ctx context.Context, c Collection) error {
	all, err := c.read()
	if err != nil {
		return err
	}
	cfg := rest.CopyConfig(t.Config)
	cfg.QPS = -1 // the API server limits by itself
	cfg.Impersonate.UserName = "alice"
	alice, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patienceForAll, fmt.Errorf("not within %s", patienceForAll))
	defer cancel()
	fmt.Fprintf(t.Out, "\n%s in namespace blue:\n\n", c.Title)
	var mu sync.Mutex
	ran := 0
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			line, ok := t.playOne(ctx, alice, &all[i])
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(t.Out, line)
			if ok {
				ran++
			}
		})
	}
	group.Wait()
	fmt.Fprintf(t.Out, "\n%d of %d ran.\n", ran, len(all))
	if ran < len(all) {
		return ErrNotAll
	}
	return nil
}

// playOne runs one example and tells how that went.
func (t Theatre) playOne(ctx context.Context, alice client.Client, e *example) (line string, ok bool) {
	began := t.Clock.Now()
	called := fmt.Sprintf("%-20s %-16s", e.job.GetKind(), e.file)
	for _, o := range e.objects {
		o.SetNamespace("blue")
		if err := create(ctx, t.Clock, alice, o); err != nil {
			return fmt.Sprintf("FAIL  %s %v", called, err), false
		}
	}
	var steps []string
	reached := func(what string, is bool) {
		if is && !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, what) }) {
			steps = append(steps, fmt.Sprintf("%s after %.1f s", what, t.Clock.Since(began).Seconds()))
		}
	}
	for {
		p, err := t.look(ctx, alice, e.job)
		switch {
		case err != nil:
			return fmt.Sprintf("FAIL  %s %v; it was %s", called, err, soFar(steps)), false
		case p.failed != "":
			return fmt.Sprintf("FAIL  %s %s", called, p.failed), false
		}
		if e.job.GetKind() == "Pod" {
			p.pods = int32(len(e.objects)) //nolint:gosec // those of a file
		}
		reached("admitted", p.admitted)
		reached("running", p.running)
		if p.ended {
			reached("done", !p.endless)
			return fmt.Sprintf("PASS  %s %2d pods, %s", called, p.pods, strings.Join(steps, ", ")), true
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("FAIL  %s %v; it was %s", called, context.Cause(ctx), soFar(steps)), false
		case <-t.Clock.After(lookPause):
		}
	}
}

func soFar(steps []string) string {
	if len(steps) == 0 {
		return "not admitted"
	}
	return strings.Join(steps, ", ")
}

func (t Theatre) look(ctx context.Context, c client.Reader, o *unstructured.Unstructured) (progress, error) {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(o.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), is); err != nil {
		return progress{}, fmt.Errorf("look at %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return progressOf(kinds.All(), is)
}
