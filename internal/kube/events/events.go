// Package events keeps what is told within what the API takes: an event whose note
// is too long would be lost, and with it what happened. Events of which there are very many at once are put off
// (yield.go). It does not say otherwise when something is told.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	eventrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
)

// longestNote is how many bytes the API takes as the note of an event.
const longestNote = 1024

// Note is the note of an event, no longer than the API takes it.
func Note(format string, args ...any) string {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return convert.Cut(format, longestNote)
}

// Manager returns a manager whose recorders cut notes that are too long, and put off what tells that a workload was
// stopped while a crowd is; nil never is.
func Manager(mgr manager.Manager, c *crowd.Crowd) (manager.Manager, error) {
	if c == nil {
		return teller{Manager: mgr}, nil
	}
	y := &yielding{crowd: c, clock: clock.RealClock{}}
	return teller{mgr, y}, mgr.Add(y)
}

type teller struct {
	manager.Manager
	yielding *yielding
}

// GetEventRecorder returns a recorder in the name of a component.
func (t teller) GetEventRecorder(name string) eventrecorder.EventRecorder {
	return recorder{t.Manager.GetEventRecorder(name), t.yielding}
}

type recorder struct {
	eventrecorder.EventRecorder
	yielding *yielding
}

// Eventf tells an event.
//
//nolint:revive // argument-limit: the signature is the interface's
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	text := Note(note, args...)
	r.yielding.later(reason, func() {
		r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", text)
	})
}

// AnnotatedEventf tells an event with annotations.
//
//nolint:revive // argument-limit: the signature is the interface's
func (r recorder) AnnotatedEventf(
	regarding, related runtime.Object,
	annotations map[string]string,
	kind, reason, action, note string,
	args ...any,
) {
	r.EventRecorder.AnnotatedEventf(
		regarding,
		related,
		annotations,
		kind,
		reason,
		action,
		"%s",
		Note(note, args...),
	)
}
