package cache

import (
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// rejection is why an admission of a workload can never be written, and what its
// object was like then. Deciding it again would find the same: it is put aside
// until it, or a ClusterQueue, is changed.
type rejection struct {
	why        string
	uid        types.UID
	generation int64
}

// reject puts a waiting workload aside.
func (b *batch) reject(k core.Key, why string) {
	o := b.world.workloads[k].object
	if o == nil {
		return
	}
	b.world.rejected[k] = rejection{why: why, uid: o.UID, generation: o.Generation}
	b.workloads[k] = true
}

// reconsider takes all rejections back if a ClusterQueue changed: what was wrong
// may be right now.
func (b *batch) reconsider(was, is *kueue.ClusterQueue) {
	if was != nil && is != nil && was.UID == is.UID && was.Generation == is.Generation {
		return
	}
	for k := range b.world.rejected {
		delete(b.world.rejected, k)
		b.workloads[k] = true
	}
}
