package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// find asks who the asker is, if that is wanted.
func (w *whose) find(ctx context.Context, c client.Client) error {
	if !w.me {
		return nil
	}
	var err error
	w.user, err = cli.WhoAmI(ctx, c)
	return err //nolint:wrapcheck // it says what it asked
}

func (w *whose) wants(user string) bool { return w.user == "" || w.user == user }

// slurmWhose is the same for Slurm's commands, which take several users.
type slurmWhose struct{ me bool }

func (w *slurmWhose) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.me, "me", false, "your own jobs only")
}

// find adds the asker to the users that are wanted.
func (w *slurmWhose) find(ctx context.Context, conn *cli.Connection, users []string) ([]string, error) {
	if !w.me {
		return users, nil
	}
	if len(users) > 0 {
		return nil, usageError{errors.New("--me and -u " + strings.Join(users, ",") + ": give one of them")}
	}
	cfg, c, err := connect(conn)
	if err != nil {
		return nil, err
	}
	me, err := cli.WhoAmI(ctx, c)
	if err != nil {
		return nil, conn.Unreachable(err, cfg.Host)
	}
	return []string{me}, nil
}

// strangers says that users who were asked for have no jobs here, "" if one of them has.
// People type the names that they have on the machine in front of them ("-u $USER").
func strangers(users []string, rows []view.Job) string {
	if len(users) == 0 || slices.ContainsFunc(rows, func(r view.Job) bool { return slices.Contains(users, r.User) }) {
		return ""
	}
	return fmt.Sprintf("No job here that you may see is of %s. Users have the names by which the API server knows them; --me is you.", strings.Join(users, ", "))
}
