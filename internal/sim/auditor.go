package sim

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Auditor knows what must always hold.
type Auditor struct{}

func newAuditor(*World) *Auditor                                                { return &Auditor{} }
func (a *Auditor) told(core.Event) error                                        { return nil }
func (a *Auditor) decided(e *cycle.Engine, now time.Time, plan core.Plan) error { return e.Check() }
func (a *Auditor) moment(*Run) error                                            { return nil }
func (a *Auditor) restarted()                                                   {}
