// Package events keeps what is told within what the API takes: an event whose note
// is too long would be lost, and with it what happened. It does not say when
// something is told.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	eventrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
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

// Manager returns a manager whose recorders cut notes that are too long.
func Manager(mgr manager.Manager) manager.Manager { return teller{mgr} }

type teller struct{ manager.Manager }

// GetEventRecorder returns a recorder in the name of a component.
func (t teller) GetEventRecorder(name string) eventrecorder.EventRecorder {
	return recorder{t.Manager.GetEventRecorder(name)}
}

type recorder struct{ eventrecorder.EventRecorder }

// Eventf tells an event.
//
//nolint:revive // argument-limit: the signature is the interface's
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", Note(note, args...))
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
