package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is how many objects are asked for at once. kubectl asks for as many.
const page = 500

// Paged is a client that reads lists page by page, so that a question about a large cluster does
// not have the API server put all of it into one answer. Who asks for a page gets that.
func Paged(c client.WithWatch) client.WithWatch { return paged{c} }

type paged struct{ client.WithWatch }

// List reads all pages into one list, as of one moment. If that moment is too long ago by the
// time a page is asked for, everything is read at once.
func (p paged) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.Limit != 0 || o.Continue != "" {
		return p.WithWatch.List(ctx, list, opts...)
	}
	whole := o
	empty, is := list.DeepCopyObject().(client.ObjectList)
	if !is {
		return fmt.Errorf("%T is no list", list)
	}
	o.Limit = page
	if err := p.WithWatch.List(ctx, list, &o); err != nil || list.GetContinue() == "" {
		return err
	}
	items, err := apimeta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("read a list of %T: %w", list, err)
	}
	for o.Continue = list.GetContinue(); o.Continue != ""; {
		next, is := empty.DeepCopyObject().(client.ObjectList)
		if !is {
			return fmt.Errorf("%T is no list", list)
		}
		err := p.WithWatch.List(ctx, next, &o)
		if apierrors.IsResourceExpired(err) {
			return p.WithWatch.List(ctx, list, &whole)
		}
		if err != nil {
			return err
		}
		var more []runtime.Object
		if more, err = apimeta.ExtractList(next); err != nil {
			return fmt.Errorf("read a list of %T: %w", next, err)
		}
		items, o.Continue = append(items, more...), next.GetContinue()
	}
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	return apimeta.SetList(list, items)
}
