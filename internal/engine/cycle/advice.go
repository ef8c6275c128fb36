package cycle

import "github.com/mlbatch/mlbatch/internal/core"

func (q *question) advice(w *work, why core.Reason, higher []int32) []core.Advice { return nil }
