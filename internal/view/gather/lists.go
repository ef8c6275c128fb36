package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Readable drops the errors that mean that there is nothing to tell.
func Readable(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// List is a list to read.
type List struct {
	// What is in it, as people call it.
	What    string
	Into    client.ObjectList
	Options []client.ListOption
}

// ReadLists reads lists at the same time. Kinds that the cluster does not have are empty, and
// lists that the user may not read are, too, and are named, sorted.
func ReadLists(ctx context.Context, c client.Reader, lists ...List) (unread []string, err error) {
	forbidden, errs := make([]bool, len(lists)), make([]error, len(lists))
	var reading sync.WaitGroup
	for i := range lists {
		reading.Go(func() { forbidden[i], errs[i] = readList(ctx, c, lists[i]) })
	}
	reading.Wait()
	for i := range lists {
		if forbidden[i] {
			unread = append(unread, lists[i].What)
		}
	}
	slices.Sort(unread)
	return unread, errors.Join(errs...)
}

// readList reads one, and reports whether the user may not.
func readList(ctx context.Context, c client.Reader, l List) (forbidden bool, err error) {
	switch err := c.List(ctx, l.Into, l.Options...); {
	case err == nil, apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil
	default:
		return false, fmt.Errorf("list %s: %w", l.What, err)
	}
}
