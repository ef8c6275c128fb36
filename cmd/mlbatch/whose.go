package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// whose says whose jobs are listed: those of a user, or those of the asker.
type whose struct {
	user string
	me   bool
}

func (w *whose) flags(f *pflag.FlagSet) {
	f.StringVarP(&w.user, "user", "u", "", "jobs that this user submitted only")
	f.BoolVar(&w.me, "me", false, "your own jobs only")
}

func (w *whose) check() error {
	if w.me && w.user != "" {
		return fmt.Errorf("--me and -u %s: give one of them", w.user)
	}
	return nil
}

// find asks who the asker is, if that is wanted, once.
func (w *whose) find(ctx context.Context, c client.Client) error {
	if !w.me || w.user != "" {
		return nil
	}
	var err error
	w.user, err = cli.WhoAmI(ctx, c)
	return err //nolint:wrapcheck // it says what it asked
}

func (w *whose) wants(user string) bool { return w.user == "" || w.user == user }

// jobFilter says which jobs are listed: those of a namespace, a queue, a user, in some states.
type jobFilter struct {
	namespace string
	all       bool
	queue     string
	whose     whose
	// states are names with commas between them, "" for any. Which there are, and the flag, are the command's.
	states string
}

func (f *jobFilter) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the jobs")
	fs.BoolVarP(&f.all, "all-namespaces", "A", false, "jobs of all namespaces")
	fs.StringVarP(&f.queue, "queue", "q", "", "jobs of this LocalQueue or ClusterQueue only")
	f.whose.flags(fs)
}

// check refuses two answers to which namespace it is.
func (f *jobFilter) check() error {
	if f.all && f.namespace != "" {
		return fmt.Errorf("-A and -n %s: give one of them", f.namespace)
	}
	return nil
}

// chosen reports whether any jobs are left out.
func (f *jobFilter) chosen() bool {
	return f.all || f.namespace != "" || f.queue != "" || f.whose != whose{}
}

// find asks who the asker is, if that is wanted, and fills in the namespace of the kubeconfig's context.
func (f *jobFilter) find(ctx context.Context, q *query) error {
	if f.namespace == "" && !f.all {
		f.namespace = q.conn.Namespace()
	}
	return f.whose.find(ctx, q.c)
}

func (f *jobFilter) wants(j view.Job) bool {
	return (f.queue == "" || j.Queue == f.queue || j.ClusterQueue == f.queue || j.ClusterQueue == "" && j.Target == f.queue) &&
		f.whose.wants(j.User) &&
		amongStates(f.states, j.State)
}

// wantsPast is wants for jobs that ended.
func (f *jobFilter) wantsPast(j view.PastJob) bool {
	return (f.queue == "" || j.Queue == f.queue || j.ClusterQueue == f.queue) && f.whose.wants(j.User) &&
		amongStates(f.states, j.State)
}

// unknownState is the first of the states that were typed which there is not, "" if there are all.
func unknownState[S ~string](states string, known []S) string {
	for state := range strings.SplitSeq(states, ",") {
		if !slices.ContainsFunc(
			known,
			func(s S) bool { return state == "" || strings.EqualFold(state, string(s)) },
		) {
			return state
		}
	}
	return ""
}

// amongStates reports whether a state is one of those that were typed, or none was.
func amongStates[S ~string](states string, state S) bool {
	return states == "" ||
		slices.ContainsFunc(
			strings.Split(states, ","),
			func(s string) bool { return strings.EqualFold(s, string(state)) },
		)
}

// strangers says that users who were asked for have no jobs here, "" if one of them has.
// People type the names that they have on the machine in front of them ("-u $USER").
func strangers(users []string, rows []view.Job) string {
	if len(users) == 0 ||
		slices.ContainsFunc(rows, func(r view.Job) bool { return slices.Contains(users, r.User) }) {
		return ""
	}
	return fmt.Sprintf(
		"No job here that you may see is of %s. Users have the names by which the API server knows them; --me is you.",
		strings.Join(users, ", "),
	)
}
