package chaos

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// head is the first line of a written world.
type head struct {
	World     string
	Seed      uint64
	Start     time.Time
	Engine    cycle.Options
	Cluster   sim.ClusterModel
	Faults    sim.Faults
	Checks    []sim.Check
	Lifecycle *sim.Lifecycle
	Recovery  *sim.Recovery
	// Edge and Tenure are what Cluster and Lifecycle were called before: worlds that
	// were written then are read as well.
	Edge   *sim.ClusterModel
	Tenure *sim.Lifecycle
}

// line is one entry of a script; one field after At is set.
type line struct {
	At             time.Duration
	FlavorSet      *core.FlavorSet
	FlavorGone     *core.FlavorGone
	CohortSet      *core.CohortSet
	CohortGone     *core.CohortGone
	QueueSet       *core.QueueSet
	QueueGone      *core.QueueGone
	LocalQueueSet  *core.LocalQueueSet
	LocalQueueGone *core.LocalQueueGone
	NamespaceSet   *core.NamespaceSet
	NamespaceGone  *core.NamespaceGone
	NodeSet        *core.NodeSet
	NodeGone       *core.NodeGone
	Job            *sim.Job
	Delete         *core.Key
	Finish         *core.Key
	Change         *sim.JobEdit
	Restart        bool
	Refuse         bool
	Act            *sim.Act
	Fault          *sim.Fault
}

// Write writes a world as lines of text: what it is, then its script.
func Write(out io.Writer, w sim.World) error {
	if len(w.Objects) > 0 || len(w.Jobs) > 0 {
		return errors.New("only worlds whose objects and jobs are in the script can be written")
	}
	c := record.NewCodec()
	b, err := c.Append(nil, head{
		World:     w.Name,
		Seed:      w.Seed,
		Start:     w.Start,
		Engine:    w.Engine,
		Cluster:   w.Cluster,
		Faults:    w.Faults,
		Checks:    w.Checks,
		Lifecycle: w.Lifecycle,
		Recovery:  w.Recovery,
	})
	if err != nil {
		return fmt.Errorf("write the world: %w", err)
	}
	b = append(b, '\n')
	for i := range w.Script {
		if b, err = c.Append(b, lineOf(&w.Script[i])); err != nil {
			return fmt.Errorf("write entry %d of the script: %w", i, err)
		}
		b = append(b, '\n')
	}
	_, err = out.Write(b)
	return err
}

// Read reads what Write wrote.
func Read(in io.Reader) (sim.World, error) {
	c := record.NewCodec()
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<22)
	var w sim.World
	for n := 1; s.Scan(); n++ {
		if n == 1 {
			var h head
			if err := c.Decode(s.Bytes(), &h); err != nil {
				return w, fmt.Errorf("line 1: %w", err)
			}
			if h.Edge != nil {
				h.Cluster = *h.Edge
			}
			h.Lifecycle = cmp.Or(h.Lifecycle, h.Tenure)
			w = sim.World{
				Name:      h.World,
				Seed:      h.Seed,
				Start:     h.Start,
				Engine:    h.Engine,
				Cluster:   h.Cluster,
				Faults:    h.Faults,
				Checks:    h.Checks,
				Lifecycle: h.Lifecycle,
				Recovery:  h.Recovery,
			}
			continue
		}
		var l line
		if err := c.Decode(s.Bytes(), &l); err != nil {
			return w, fmt.Errorf("line %d: %w", n, err)
		}
		w.Script = append(w.Script, l.op())
	}
	if err := s.Err(); err != nil {
		return w, fmt.Errorf("read the world: %w", err)
	}
	return w, nil
}

func lineOf(op *sim.Op) line {
	l := line{
		At:      op.At,
		Job:     op.Job,
		Delete:  op.Delete,
		Finish:  op.Finish,
		Change:  op.Change,
		Restart: op.Restart,
		Refuse:  op.Refuse,
		Act:     op.Act,
		Fault:   op.Fault,
	}
	switch ev := op.Object.(type) {
	case core.FlavorSet:
		l.FlavorSet = &ev
	case core.FlavorGone:
		l.FlavorGone = &ev
	case core.CohortSet:
		l.CohortSet = &ev
	case core.CohortGone:
		l.CohortGone = &ev
	case core.QueueSet:
		l.QueueSet = &ev
	case core.QueueGone:
		l.QueueGone = &ev
	case core.LocalQueueSet:
		l.LocalQueueSet = &ev
	case core.LocalQueueGone:
		l.LocalQueueGone = &ev
	case core.NamespaceSet:
		l.NamespaceSet = &ev
	case core.NamespaceGone:
		l.NamespaceGone = &ev
	case core.NodeSet:
		l.NodeSet = &ev
	case core.NodeGone:
		l.NodeGone = &ev
	}
	return l
}

func (l *line) op() sim.Op {
	op := sim.Op{
		At:      l.At,
		Job:     l.Job,
		Delete:  l.Delete,
		Finish:  l.Finish,
		Change:  l.Change,
		Restart: l.Restart,
		Refuse:  l.Refuse,
		Act:     l.Act,
		Fault:   l.Fault,
	}
	switch {
	case l.FlavorSet != nil:
		op.Object = *l.FlavorSet
	case l.FlavorGone != nil:
		op.Object = *l.FlavorGone
	case l.CohortSet != nil:
		op.Object = *l.CohortSet
	case l.CohortGone != nil:
		op.Object = *l.CohortGone
	case l.QueueSet != nil:
		op.Object = *l.QueueSet
	case l.QueueGone != nil:
		op.Object = *l.QueueGone
	case l.LocalQueueSet != nil:
		op.Object = *l.LocalQueueSet
	case l.LocalQueueGone != nil:
		op.Object = *l.LocalQueueGone
	case l.NamespaceSet != nil:
		op.Object = *l.NamespaceSet
	case l.NamespaceGone != nil:
		op.Object = *l.NamespaceGone
	case l.NodeSet != nil:
		op.Object = *l.NodeSet
	case l.NodeGone != nil:
		op.Object = *l.NodeGone
	}
	return op
}
