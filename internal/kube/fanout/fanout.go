// Package fanout tells what happened to an object to all who want to know in one go.
//
// An informer of client-go gives each of its handlers a queue and two goroutines. Some forty
// handlers watch pods, as each kind of job has several, and nearly all of them pass over nearly
// all pods: handing a pod over costs far more than passing over it. Here an informer has one
// handler, which calls those of all others, one after the other. They must be quick, as
// handlers that fill a queue are, and must not block.
//
// What a handler is told is what the informer would tell it: what there is when it is added, then
// each change in order, and nothing once it was removed. There is what was told last, which can be
// a moment older than what the cache shows: the changes in between follow. The package keeps
// nothing of an object but that form, and does not look into it.
package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache returns a cache whose informers have one handler each, whatever is added to them.
func Cache(c cache.Cache) cache.Cache {
	return &informers{Cache: c, all: map[cache.Informer]*informer{}}
}

type informers struct {
	cache.Cache
	// mu guards what follows.
	mu sync.Mutex
	// all are the informers by those of the cache below.
	all map[cache.Informer]*informer
}

// GetInformer returns the informer of a kind.
func (c *informers) GetInformer(
	ctx context.Context,
	o client.Object,
	opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	is, err := c.Cache.GetInformer(ctx, o, opts...)
	return c.of(is), err
}

// GetInformerForKind returns the informer of a kind.
func (c *informers) GetInformerForKind(
	ctx context.Context,
	gvk schema.GroupVersionKind,
	opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	is, err := c.Cache.GetInformerForKind(ctx, gvk, opts...)
	return c.of(is), err
}

func (c *informers) of(is cache.Informer) cache.Informer {
	if is == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[is] == nil {
		c.all[is] = &informer{Informer: is, objects: map[toolscache.ObjectName]any{}}
	}
	return c.all[is]
}

// informer is one with a single handler of its own, which is itself.
type informer struct {
	cache.Informer
	// mu guards what follows. It is held while handlers are told, so that one that is added
	// then misses nothing and is told nothing twice.
	mu sync.Mutex
	// own is the registration of the single handler; nil before anybody wants to know.
	own toolscache.ResourceEventHandlerRegistration
	// objects are in the form in which they were told last.
	objects  map[toolscache.ObjectName]any
	handlers []*registration
}

// registration is one handler of many. It has been told all that there was when the single one has.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	handler toolscache.ResourceEventHandler
}

// AddEventHandler adds a handler.
func (i *informer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler that is told of all objects again and again; it has a
// queue of its own.
func (i *informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler,
	period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler. One that is to be told of all objects again and again has
// a queue of its own.
func (i *informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler,
	o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if o.ResyncPeriod != nil && *o.ResyncPeriod > 0 || i.IsStopped() { // it refuses if it has stopped
		return i.Informer.AddEventHandlerWithOptions(h, o)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.own == nil {
		own, err := i.Informer.AddEventHandlerWithOptions((*single)(i), toolscache.HandlerOptions{Logger: o.Logger})
		if err != nil {
			return nil, err
		}
		i.own = own
	}
	for _, object := range i.objects {
		h.OnAdd(object, true)
	}
	r := &registration{i.own, h}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// RemoveEventHandler removes a handler, which is told nothing more.
func (i *informer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	mine, is := r.(*registration)
	if !is {
		return i.Informer.RemoveEventHandler(r)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return r == mine })
	return nil
}

// single is an informer as its own handler.
type single informer

// OnAdd tells of an object that is there.
func (s *single) OnAdd(o any, initially bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(o)
	for _, r := range s.handlers {
		r.handler.OnAdd(o, initially)
	}
}

// OnUpdate tells of an object that changed.
func (s *single) OnUpdate(was, is any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(is)
	for _, r := range s.handlers {
		r.handler.OnUpdate(was, is)
	}
}

// OnDelete tells of an object that is gone.
func (s *single) OnDelete(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, err := toolscache.DeletionHandlingObjectToName(o); err == nil {
		delete(s.objects, name)
	}
	for _, r := range s.handlers {
		r.handler.OnDelete(o)
	}
}

func (s *single) keep(o any) {
	if name, err := toolscache.ObjectToName(o); err == nil {
		s.objects[name] = o
	}
}
