package views

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// watchEvery is how often what is watched is looked at, and timesLonger how many times longer than that took
// the pause is at least: one that watches tens of thousands of jobs takes no more than a tenth of a
// processor.
const (
	watchEvery  = time.Second
	timesLonger = 9
)

// stream writes the lines of a watch.
type stream struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

// send writes an event; false if the client went away.
func (s *stream) send(as watch.EventType, object any) bool {
	line, err := json.Marshal(struct {
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{as, object})
	if err != nil {
		return false // a view is values
	}
	_, err = s.w.Write(append(line, '\n'))
	return err == nil
}

// change is a view that came, changed or went.
type change struct {
	as watch.EventType
	item
}

// watch writes all views that there are, and then every second those that came, changed or went, until the
// request ends. Views are not stored, so that no watch goes on from where another one ended. It returns an
// error if nothing was written.
func (q *question) watch(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if from := values.Get("resourceVersion"); from != "" && from != "0" {
		return apierrors.NewResourceExpired(
			"a watch of views begins with all that there are: ask without resourceVersion",
		)
	}
	began := q.clock.Now()
	now, err := q.list(r.Context())
	if err != nil {
		return err
	}
	var ends <-chan time.Time
	if n, err := strconv.ParseInt(values.Get("timeoutSeconds"), 10, 32); err == nil && n > 0 {
		ends = q.clock.After(time.Duration(n) * time.Second)
	}
	w.Header().Set("Content-Type", "application/json")
	to := &stream{w, http.NewResponseController(w)}
	known := map[identity]item{}
	goes := q.tell(to, r, known, now)
	if goes && values.Get("sendInitialEvents") == "true" {
		end := metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: viewapi.GroupVersion.String(), Kind: q.of.kind},
		}
		end.ResourceVersion, end.Annotations = "0", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		goes = to.send(watch.Bookmark, end)
	}
	for goes && to.out.Flush() == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-ends:
			return nil
		case <-q.clock.After(max(watchEvery, timesLonger*q.clock.Since(began))):
		}
		began = q.clock.Now()
		if now, err = q.list(r.Context()); err != nil {
			to.send(watch.Error, apierrors.NewInternalError(err).Status())
			return nil
		}
		goes = q.tell(to, r, known, now)
	}
	return nil
}

// tell writes what is other than what is known; false if the client went away.
func (q *question) tell(to *stream, r *http.Request, known map[identity]item, now *list) bool {
	for _, c := range changes(known, now) {
		if !to.send(c.as, q.formed(r, now.At, c.item)) {
			return false
		}
	}
	return true
}

// formed is a view in the form that the client wants.
func (q *question) formed(r *http.Request, at metav1.Time, v item) any {
	if !wantsTable(r) {
		return v
	}
	return q.of.table(&list{Answer: view.Answer{At: at}, Items: []item{v}})
}

// identity is what a view is of: one that has gone and another of its name are two.
type identity struct {
	name types.NamespacedName
	uid  types.UID
}

// changes lead from the views that are known to those that there are now, which are then known. What went
// comes first: another one of its name may have come.
func changes(known map[identity]item, now *list) (out []change) {
	there := make(map[identity]bool, len(now.Items))
	var come []change
	for _, is := range now.Items {
		key := identity{types.NamespacedName{Namespace: is.meta.Namespace, Name: is.meta.Name}, is.meta.UID}
		there[key] = true
		was, before := known[key]
		switch {
		case !before:
			come = append(come, change{watch.Added, is})
		case !reflect.DeepEqual(was.tells, is.tells):
			come = append(come, change{watch.Modified, is})
		default:
			continue
		}
		known[key] = is
	}
	for key, was := range known { // sorted below
		if !there[key] {
			out = append(out, change{watch.Deleted, was})
			delete(known, key)
		}
	}
	slices.SortFunc(out, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.meta.Namespace, b.meta.Namespace), cmp.Compare(a.meta.Name, b.meta.Name))
	})
	return append(out, come...)
}
