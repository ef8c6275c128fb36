package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/demo/verdict"
)

// ErrFailed says that a statement of a scene did not hold.
var ErrFailed = errors.New("a statement of the scene did not hold")

// Cluster is what a scene plays in: the tutorial's teams on so many nodes.
type Cluster struct {
	Nodes int
	// Racks is in how many racks they are, 0 for none.
	Racks int
	// TimeScale is how many times faster than real time jobs run.
	TimeScale float64
	// Configuration is that of the controller, as a file has it.
	Configuration string
}

// Scene shows one thing.
type Scene struct {
	// Name is typed, Title is what lists have, Opening the first sentence.
	Name, Title, Opening string
	// Cluster is nil for scenes that need none.
	Cluster *Cluster
	// Shell says that commands are typed. Those with a Cluster need one anyway.
	Shell bool
	play  func(context.Context, *show) error
}

// All are the scenes in the order in which a newcomer should see them.
func All() []Scene {
	return []Scene{start(), why(), eta(), bigJob(), rack(), fault(), famousBugs(), fair(), slurm()}
}

// Find returns the scene of a name.
func Find(name string) (Scene, bool) {
	all := All()
	i := slices.IndexFunc(all, func(s Scene) bool { return s.Name == name })
	if i < 0 {
		return Scene{}, false
	}
	return all[i], true
}

// Open prints what the scene is about.
func (s *Scene) Open(out io.Writer) {
	fmt.Fprintf(out, "== %s: %s\n\n%s\n", s.Name, s.Title, cli.Wrap(s.Opening, lineWidth, ""))
}

// Stage is where a scene is played.
type Stage struct {
	Out io.Writer
	// Shell runs what is typed; nil where a scene types nothing.
	Shell Shell
	Clock clock.Clock
}

// Play plays a scene and prints which of its statements held. It returns ErrFailed if one did
// not, or if the scene could not be played to its end.
func (s *Scene) Play(ctx context.Context, stage Stage) error {
	w := &show{Stage: stage, began: stage.Clock.Now()}
	err := s.play(ctx, w)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && len(w.results) == 0 {
		err = errors.New("nothing was stated")
	}
	if err != nil {
		w.results = append(w.results, verdict.Result{Text: "the scene is played to its end", Err: err})
	}
	if verdict.Report(stage.Out, "statements", w.results) > 0 {
		return ErrFailed
	}
	fmt.Fprintf(stage.Out, "\nThe scene took %.1f s.\n", stage.Clock.Since(w.began).Seconds())
	return nil
}
