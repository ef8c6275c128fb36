package cli

import (
	"context"
	"fmt"
	"math"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// views is a list of views, as a controller serves it.
type views interface {
	client.ObjectList
	Served() bool
}

// served reads views from a controller: one request, however many there are. It is false where no controller
// answers, or not to this user: what is asked is then to be found out here.
func served(ctx context.Context, c client.Reader, list views, options ...client.ListOption) (bool, error) {
	// One page: it is computed for the request, and would be again for the next.
	err := c.List(ctx, list, append(options, client.Limit(math.MaxInt32))...)
	if unserved(err) {
		return false, nil
	}
	return err == nil && list.Served(), err //nolint:wrapcheck // as it would be of a list that is read here
}

// unserved reports whether an error means that no controller answers what is asked, or not to this user.
func unserved(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err)
}

// Jobs are all jobs of a namespace, or of all if it is "", as a controller tells them. Where none does, the
// same list is made here of what the user may read.
func Jobs(
	ctx context.Context,
	c client.Reader,
	namespace string,
	in client.ListOptions,
) (*view.JobList, error) {
	var list view.JobViewList
	if is, err := served(ctx, c, &list, &in, client.InNamespace(namespace)); is || err != nil {
		return list.Jobs(), err
	}
	return gather.Jobs(ctx, c, namespace, in)
}

// Nodes are how the nodes stand, as a controller tells it; where none does, as the user may read. seen is
// false if the pods on them are not counted.
func Nodes(ctx context.Context, c client.Reader) (rows []view.Node, seen bool, err error) {
	var list view.NodeViewList
	if is, err := served(ctx, c, &list); is || err != nil {
		rows, seen = list.Nodes()
		return rows, seen, err
	}
	return gather.Nodes(ctx, c)
}

// Domains are the domains of a Topology or, where none is named and there is one alone, of that; else those that labels
// of nodes tell: as a controller tells them or, where none does, as the user may read. seen is false if nobody knows
// what is free.
func Domains(
	ctx context.Context,
	c client.Reader,
	topology string,
) (out []view.Domain, seen bool, err error) {
	var list view.DomainViewList
	is, err := served(ctx, c, &list)
	if err != nil {
		return nil, false, err
	}
	all, seen := list.Domains(), true
	if !is {
		if all, seen, err = gather.Domains(ctx, c); err != nil {
			return nil, false, err //nolint:wrapcheck // it says what could not be read
		}
	}
	var names []string
	for i := range all {
		if t := all[i].Topology; t != "" && !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	wanted := topology
	if topology == "" && len(names) == 1 &&
		!slices.ContainsFunc(all, func(d view.Domain) bool { return d.Topology == "" }) {
		wanted = names[0]
	}
	for _, d := range all {
		if d.Topology == wanted {
			out = append(out, d)
		}
	}
	return out, seen, nil
}

// Queues are how ClusterQueues and Cohorts stand, as a controller tells it or, where none does, as the user
// may read. In a namespace, and for those who may not read ClusterQueues, they are LocalQueues, as of
// [LocalQueues].
func Queues(ctx context.Context, c client.Reader, namespace string) ([]view.Queue, error) {
	if namespace != "" {
		return LocalQueues(ctx, c, namespace)
	}
	var list view.QueueViewList
	if is, err := served(ctx, c, &list); is || err != nil {
		return list.Queues(), err
	}
	out, _, err := gather.ClusterQueues(ctx, c)
	if apierrors.IsForbidden(err) {
		return LocalQueues(ctx, c, "")
	}
	return out, err
}

// LocalQueues are how the LocalQueues of a namespace stand, of all if it is "", as a controller tells it or,
// where none does, as the user may read.
func LocalQueues(ctx context.Context, c client.Reader, namespace string) ([]view.Queue, error) {
	var list view.LocalQueueViewList
	if is, err := served(ctx, c, &list, client.InNamespace(namespace)); is || err != nil {
		return list.Queues(), err
	}
	out, err := gather.LocalQueues(ctx, c, namespace, gather.Get(c))
	if apierrors.IsForbidden(err) && namespace == "" {
		return nil, fmt.Errorf(
			"you may not list the queues of all namespaces: name a namespace to list its own: %w",
			err,
		)
	}
	return out, err
}

// Teams are how the teams stand, as a controller tells it or, where none does, as the user may read. unread
// names what they may not list and is left out.
func Teams(ctx context.Context, c client.Reader) (teams []view.Team, unread []string, err error) {
	var list view.TeamViewList
	if is, err := served(ctx, c, &list); is || err != nil {
		return list.Teams(), list.Unread, err
	}
	return gather.Teams(ctx, c, gather.Get(c))
}

// Team is how a team stands. The error wraps [gather.ErrNoTeam] if there is none of that name.
func Team(ctx context.Context, c client.Reader, name string) (view.Team, error) {
	var one view.TeamView
	switch err := c.Get(ctx, client.ObjectKey{Name: name}, &one); {
	case err == nil && one.Team.Name == name:
		return one.Team, nil
	case err == nil, unserved(err): // there may be no such team: what is read here says why
		return gather.Team(ctx, c, name, gather.Get(c))
	default:
		return view.Team{}, err //nolint:wrapcheck // as it would be of what is read here
	}
}
