package place

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What Kueue's own tables of cases for topology-aware scheduling ask, and what comes out there and here. Where it is not
// the same, one of these rules differs on purpose (docs/queueing.md, "Racks and blocks"; docs/adr/0042, 0044, 0048):
//
//   - One search for all. Kueue has profiles: pods that ask for nothing (unconstrained) take the smallest or the largest
//     nodes first, wherever these are. Here they are as near as those that prefer to be, and small ones go where domains are
//     broken already.
//   - As few domains as do, of the widest level first, found exactly. Kueue goes down level by level and fills the largest
//     domains; it comes to as few or to more.
//   - Whole domains and whole nodes stay whole, and only then the tightest fit counts, by what is left of GPUs. Kueue takes
//     the domain with the fewest pods that suffices.
//   - Ties go by name of the domain from the widest level on, names as people count; Kueue's go by name of the node.
//   - Equal shares (balanced) are asked for by level and differ by one pod, or slice, at most. Kueue balances, if its gate is
//     on, over the level that is preferred or the one below, and its last domain gets what is left above a threshold.
//   - Pod sets of a group share one domain of the level that they require, or else one as narrow as there is one. A set
//     that asks for nothing knows no nodes as a level, and is near to the others by the levels above.
//   - What can never be is told apart from what has no room now.

// kueueCase is a case of Kueue's tables in a few words.
type kueueCase struct {
	name string
	// levels of the topology, the widest first; host is the node. nodes are a word each: PATH/NAME=GPUS, the path with a
	// value for each level but host, then, behind commas, RES=N, pods=N (100), others=GPUS of a pod that is not ours,
	// otherpods=N of them without, @LABEL=VALUE and !TAINT; a - at the end is one out of service. What Kueue calls cpu,
	// where it is the only resource, is gpu here.
	levels, nodes string
	// asks are pod sets, with a + between them: how many pods, then what each has (gpu=1 unless said) and must be near to;
	// stay are pods of the set that have places, beside is a node with one of another set of the group.
	asks string
	// kueue is where its pods are: nodes, or domains of the narrowest level where that is not the node; or "none N" where N
	// would fit. ours is the same unless said otherwise, with a cause for none.
	kueue, ours string
	why         string
}

// Trees that several cases have.
const (
	smallTree  = "b1/r1/x3=1 b1/r2/x5=1 b1/r2/x1=1 b1/r2/x6=1 b2/r1/x2=1 b2/r2/x4=2"
	largeTree  = "b1/r1/x3=10 b1/r2/x5=10 b1/r2/x1=10 b1/r2/x6=10 b2/r1/x2=10 b2/r2/x4=20"
	twoRacks   = "b1/r1/x3=4 b1/r1/x5=1 b1/r1/x1=1 b2/r1/x6=2 b2/r1/x2=1"
	binaryTree = "b1/r1/x3=1 b1/r1/x5=1 b1/r2/x1=1 b1/r2/x6=1 b2/r1/x2=1 b2/r1/x4=1 b2/r2/x7=1 b2/r2/x8=1"
	threeHosts = "b1/r1/x3=3 b1/r1/x5=3 b1/r1/x1=3"
	subBlocks  = "b1/s1/r1/x1=18 b1/s1/r2/x2=8 b1/s2/r3/x3=15 b1/s2/r4/x4=9 b1/s2/r4/x5=7"
	uneven     = "b1/r1/x1=1 b1/r1/x2=4 b1/r2/x3=3 b1/r2/x4=4"
	tree3      = "block rack host"
	tree2      = "block rack"
)

var kueueTables = []struct {
	family string
	cases  []kueueCase
}{
	{
		"Required, preferred and unconstrained levels",
		[]kueueCase{
			{
				"racks before nodes", tree3, "b1/r1/x3=2 b1/r2/x5=2 b1/r3/x1=1 b1/r3/x6=1 b1/r3/x2=1 b1/r3/x4=1",
				"4 required=block", "x1*1 x2*1 x4*1 x6*1", "", "",
			},
			{
				"a node for all", tree3, "b1/r1/x3=2 b1/r1/x5=1 b1/r1/x1=1",
				"2 required=block", "x3*2", "", "",
			},
			{
				"asks for nothing, six pods, and a rack has room for all", tree3, twoRacks,
				"6", "x1*1 x2*1 x3*1 x5*1 x6*2", "x1*1 x3*4 x5*1",
				"one rack has room for all",
			},
			{
				"unconstrained, one pod", tree3, smallTree,
				"1", "x3*1", "x2*1",
				"of nodes that are alike the one whose block has the least room: the larger block stays whole",
			},
			{
				"a block of four nodes", tree3, binaryTree,
				"4 required=block", "x1*1 x3*1 x5*1 x6*1", "", "",
			},
			{
				"a node for one pod", tree3, smallTree,
				"1 required=host", "x3*1", "x2*1",
				"as above",
			},
			{
				"a rack for one pod", tree2, smallTree,
				"1 required=rack", "b1/r1*1", "b2/r1*1",
				"as above",
			},
			{
				"a rack for three pods", tree2, smallTree,
				"3 required=rack", "b1/r2*3", "", "",
			},
			{
				"a rack for two pods", tree2, smallTree,
				"2 required=rack", "b2/r2*2", "", "",
			},
			{
				"a rack for four pods", tree2, smallTree,
				"4 required=rack", "none 3", "none 3 DomainTooSmall", "",
			},
			{
				"blocks preferred, and none has room", "block", "b1/m1=2 b2/m2=1 b3/m3=4",
				"5 preferred=block", "b2*1 b3*4", "", "",
			},
			{
				"a block for one pod", tree2, smallTree,
				"1 required=block", "b2/r1*1", "", "",
			},
			{
				"a block for four pods", tree2, smallTree,
				"4 required=block", "b1/r1*1 b1/r2*3", "", "",
			},
			{
				"a pod that is too large", tree2, smallTree,
				"1 gpu=4 required=block", "none 0", "none 0 PodTooLarge", "",
			},
			{
				"a block for five pods", tree2, smallTree,
				"5 required=block", "none 4", "none 4 DomainTooSmall", "",
			},
			{
				"a rack preferred, a block has room", tree2, smallTree,
				"4 preferred=rack", "b1/r1*1 b1/r2*3", "", "",
			},
			{
				"a rack preferred, only two blocks have room", tree2, smallTree,
				"6 preferred=rack", "b1/r1*1 b1/r2*3 b2/r2*2", "b1/r2*3 b2/r1*1 b2/r2*2",
				"as few racks and blocks, and the smaller block is full instead of the larger",
			},
			{
				"a block preferred, only two have room", tree2, smallTree,
				"6 preferred=block", "b1/r1*1 b1/r2*3 b2/r2*2", "b1/r2*3 b2/r1*1 b2/r2*2",
				"as above",
			},
			{
				"a block preferred, all have too little", tree2, smallTree,
				"10 preferred=block", "none 7", "none 7 GangTooLarge", "",
			},
			{
				"memory alone",
				tree2,
				"b1/r1/x3=1,mem=1048576,pods=10 b1/r2/x5=1,mem=1048576,pods=10 b1/r2/x1=1,mem=1048576,pods=10 b1/r2/x6=1,mem=1048576,pods=10 b2/r1/x2=1,mem=1048576,pods=10 b2/r2/x4=2,mem=4194304,pods=40",
				"4 gpu=0 mem=1 required=rack",
				"b1/r1*4",
				"",
				"",
			},
			{
				"equal nodes, by name", tree3, "b1/r1/x2=1 b1/r1/x1=1",
				"1 required=host", "x1*1", "", "",
			},
			{
				"of racks in use the others", tree2, "b1/r1/n1=1,others=1 b1/r2/n2=1,others=1 b2/r1/n3=1 b2/r2/n4=1",
				"1 required=rack", "b2/r1*1", "", "",
			},
			{
				"nodes without room beside others, unconstrained", "rack host", "r1/x1=0 r1/x2=1 r1/x3=1",
				"2", "x2*1 x3*1", "", "",
			},
			{
				"nodes without room beside others, preferred", "rack host", "r1/x1=0 r1/x2=1 r1/x3=1",
				"2 preferred=rack", "x2*1 x3*1", "", "",
			},
			{
				"nodes without room beside others, required", "rack host", "r1/x1=0 r1/x2=1 r1/x3=1",
				"2 required=rack", "x2*1 x3*1", "", "",
			},
		},
	},
	{"Which nodes count", []kueueCase{
		{
			"no node has the label of the flavor", "host", "x3=1,@zone=a",
			"1 required=host select=zone:b", "none 0", "none 0 NoSuchNode", "",
		},
		{
			"a node has it", "host", "x3=1,@zone=a",
			"1 required=host select=zone:a", "x3*1", "", "",
		},
		{
			"no host label", tree3, "b1/r1/x3=1,@nohost=1",
			"1 required=rack", "none 0", "x3*1",
			"nodes are known by name, and the label counts only where it is asked for",
		},
		{
			"a pod that is on no node", "host", "x3=10",
			"1 gpu=6 required=host", "x3*1", "", "",
		},
		{
			"pods of others", "host", "x3=10,others=6",
			"1 gpu=6 required=host", "none 0", "none 0 DomainsShort", "",
		},
		{
			"pods of others have all", "host", "x3=10,pods=1,others=10",
			"1 required=host", "none 0", "none 0 DomainsShort", "",
		},
		{
			"pods of others, counted as pods", "host", "x3=0,pods=10,otherpods=2",
			"9 gpu=0 required=host", "none 8", "none 8 DomainsShort", "",
		},
		{
			"pods of others, and another node", "host", "x3=10,others=6 x5=10",
			"1 gpu=6 required=host", "x5*1", "", "",
		},
		{
			"a node that is not ready", "host", "x3=1-",
			"1 required=host", "none 0", "none 0 DomainsShort", "",
		},
		{
			"a node that is not ready, and another", "host", "x1=1- x2=1",
			"1 required=host", "x2*1", "", "",
		},
		{
			"a node that is not ready, and another with room for half", "host", "x1=1- x2=1",
			"2 required=host", "none 1", "none 1 DomainTooSmall", "",
		},
		{
			"a taint", "host", "x3=1,!accelerator",
			"1 required=host", "none 0", "none 0 NoSuchNode", "",
		},
		{
			"a taint that is tolerated", "host", "x3=1,!accelerator",
			"1 required=host tolerate=accelerator", "x3*1", "", "",
		},
		{
			"each for another reason", "host", "x1=10,!key x2=10,@zone=b x3=20,@zone=b x4=1,@zone=a",
			"1 gpu=10 required=host select=zone:a", "none 0", "none 0 PodTooLarge", "",
		},
		{
			"too little of two resources", "host", "x1=0,cpu=5",
			"1 cpu=10 required=host", "none 0", "none 0 PodTooLarge", "",
		},
		{
			"no pod more", "host", "x3=10,pods=1,others=3",
			"1 gpu=3 required=host", "none 0", "none 0 DomainsShort", "",
		},
		{
			"no label", "host", "x3=10",
			"1 gpu=3 required=host select=kind:one", "none 0", "none 0 NoSuchNode", "",
		},
		{
			"another value of the label", "host", "x3=10,@kind=one",
			"1 gpu=3 required=host select=kind:two", "none 0", "none 0 NoSuchNode", "",
		},
		{
			"the value of the label", "host", "x3=10,@kind=one x5=10,@kind=two",
			"1 gpu=10 required=host select=kind:two", "x5*1", "", "",
		},
		{
			"two pod sets, and one pod more", "host", "x1=2,pods=1",
			"1 required=host + 1 required=host", "none 0", "none 0 DomainsShort", "",
		},
		{
			"two pod sets, of which one selects nothing", "host", "x1=4 x2=4",
			"1 + 1 select=never:match", "none 0", "none 0 NoSuchNode", "",
		},
		{
			"pods of another queue on the node", "block host", "b1/x1=1,others=1 b1/x2=1",
			"1 required=host", "x2*1", "", "",
		},
		{
			"memory that pods have and quota does not count", "host", "x1=4,mem=20 x2=4,mem=20",
			"2 mem=15 preferred=host", "x1*1 x2*1", "", "",
		},
	}},
	{
		"Slices",
		[]kueueCase{
			{
				"nodes of three, slices of two", tree3, threeHosts,
				"6 required=block slice=host:2", "x1*2 x3*2 x5*2", "", "",
			},
			{
				"the largest first, then what just does", tree3, "b1/r1/x3=6 b1/r1/x5=5 b1/r1/x1=4 b1/r1/x6=2",
				"12 required=block slice=host:2", "x1*4 x3*6 x6*2", "", "",
			},
			{
				"nodes without a rest", tree3, "b1/r1/x3=3 b1/r1/x5=2 b1/r1/x1=2",
				"4 required=block slice=host:2", "x1*2 x5*2", "", "",
			},
			{
				"two racks of a block",
				tree3,
				"b1/r1/x3=1 b1/r1/x5=1 b1/r2/x1=1 b1/r2/x6=1 b1/r2/x2=1 b2/r1/x4=1 b2/r1/x7=1",
				"4 required=block slice=rack:2",
				"x1*1 x2*1 x3*1 x5*1",
				"",
				"",
			},
			{
				"a block preferred, its racks have too little", tree3, smallTree,
				"4 preferred=block slice=rack:2", "x1*1 x4*2 x5*1", "", "",
			},
			{
				"the last node just does", tree3, "b1/r1/x3=4 b1/r1/x5=3 b1/r1/x1=2",
				"6 required=block slice=host:2", "x1*2 x3*4", "", "",
			},
			{
				"blocks of unequal nodes", tree3, "b1/r1/x3=3 b1/r1/x5=3 b1/r1/x1=3 b2/r1/x6=6",
				"12 preferred=block slice=host:3", "x1*3 x3*3 x6*6", "", "",
			},
			{
				"a block has room, its racks have no slice", tree3, "b1/r1/x3=2 b1/r2/x5=2 b1/r3/x1=2",
				"6 required=block slice=rack:3", "none 0", "none 0 DomainTooSmall", "",
			},
			{
				"one slice of two", tree3, "b1/r1/x3=3 b1/r2/x5=1 b1/r3/x1=1 b1/r4/x6=1",
				"6 required=block slice=rack:3", "none 3", "none 3 DomainTooSmall", "",
			},
			{
				"the block whose racks have slices", tree3, "b1/r1/x3=2 b1/r2/x5=2 b1/r3/x1=2 b2/r4/x6=3 b2/r5/x2=3",
				"6 required=block slice=rack:3", "x2*3 x6*3", "", "",
			},
			{
				"no level but that of slices", tree3, threeHosts,
				"6 slice=host:2", "x1*2 x3*2 x5*2", "", "",
			},
			{
				"no level but that of slices, two blocks", tree3, twoRacks,
				"6 slice=host:2", "x3*4 x6*2", "", "",
			},
			{
				"no level but that of slices, racks", tree3, smallTree,
				"4 slice=rack:2", "x1*1 x4*2 x5*1", "", "",
			},
			{
				"one of two racks required", "rack", "small/n1=6 large/n2=10",
				"8 required=rack slice=rack:2", "large*8", "", "",
			},
			{
				"the smaller of two racks", "rack", "small/n1=6 large/n2=10",
				"4 required=rack slice=rack:2", "small*4", "", "",
			},
			{
				"both racks", "rack", "small/n1=6 large/n2=10",
				"14 preferred=rack slice=rack:2", "large*10 small*4", "large*8 small*6",
				"as few nodes broken and as much left: the smaller is full instead of the larger",
			},
			{
				"both racks, unconstrained", "rack", "small/n1=6 large/n2=10",
				"14 slice=rack:2", "large*10 small*4", "large*8 small*6",
				"as above",
			},
			{
				"the smaller of two racks, unconstrained", "rack", "small/n1=6 large/n2=10",
				"4 slice=rack:2", "small*4", "", "",
			},
			{
				"more than either rack", "rack", "small/n1=6 large/n2=10",
				"18 required=rack slice=rack:2", "none 10", "none 10 GangTooLarge", "",
			},
		},
	},
	{
		"Slices of slices",
		[]kueueCase{
			{
				"racks of four, nodes of two", tree3, uneven,
				"8 required=block slice=rack:4 slice=host:2", "x2*4 x3*2 x4*2", "x2*4 x4*4",
				"a node less",
			},
			{
				"racks of four", tree3, uneven,
				"8 required=block slice=rack:4", "x1*1 x2*3 x3*3 x4*1", "x2*4 x4*4",
				"two nodes less",
			},
			{
				"two zones of 48 and racks of 16",
				"dc az block rack",
				gb200(),
				"96 gpu=2 required=dc slice=az:48 slice=rack:16",
				"dc/az0/b0/r0*16 dc/az0/b0/r1*16 dc/az0/b1/r2*16 dc/az1/b2/r4*16 dc/az1/b2/r5*16 dc/az1/b3/r6*16",
				"dc/az0/b0/r0*16 dc/az0/b1/r2*16 dc/az0/b1/r3*16 dc/az1/b2/r4*16 dc/az1/b3/r6*16 dc/az1/b3/r7*16",
				"as many racks and blocks, others by name",
			},
			{
				"nodes leave no slice of the rack", tree3, "b1/r1/x1=3 b1/r1/x2=3 b1/r1/x3=0",
				"6 required=block slice=rack:6 slice=host:2", "none 0", "none 0 DomainTooSmall", "",
			},
			{
				"a small node leaves no slice of its rack", tree3, "b1/r1/x1=7 b1/r1/x2=4 b1/r2/x3=7 b1/r2/x4=3",
				"16 required=block slice=rack:8 slice=host:4", "none 8", "none 8 DomainTooSmall", "",
			},
			{
				"slices of nodes, and none of racks", tree3, "b1/r1/x1=4 b1/r2/x2=4 b1/r3/x3=4",
				"12 required=block slice=rack:6 slice=host:2", "none 0", "none 0 DomainTooSmall", "",
			},
			{
				"three layers, and small nodes",
				"dc block rack host",
				"dc1/b1/r1/x1=4 dc1/b1/r1/x2=4 dc1/b1/r2/x3=4 dc1/b1/r2/x4=4 dc1/b2/r3/x5=4 dc1/b2/r3/x6=4 dc1/b2/r4/x7=1 dc1/b2/r4/x8=1",
				"24 required=dc slice=block:12 slice=rack:6 slice=host:3",
				"none 12",
				"none 12 DomainTooSmall",
				"",
			},
		},
	},
	{
		"Equal shares",
		[]kueueCase{
			{
				"two racks", tree3, "b1/r1/x1=15 b1/r2/x2=15",
				"25 balanced=rack", "x1*13 x2*12", "x1*12 x2*13",
				"the same shares, the other way round",
			},
			{
				"two nodes of three", tree3, "b1/r1/x1=15 b1/r1/x2=13 b1/r1/x3=10",
				"23 balanced=host", "x1*12 x2*11", "", "",
			},
			{
				"two nodes of three, in slices", tree3, "b1/r1/x1=20 b1/r1/x2=15 b1/r1/x3=10",
				"25 balanced=host slice=host:5", "x2*15 x3*10", "", "",
			},
			{
				"the block where it goes", tree3, "b1/r1/x1=20 b1/r1/x2=10 b2/r2/x3=15 b2/r2/x4=15",
				"22 balanced=host", "x3*11 x4*11", "", "",
			},
			{
				"not across blocks", tree3, "b1/r1/x1=14 b1/r1/x2=11 b2/r2/x3=15 b2/r2/x4=10",
				"25 required=block balanced=host", "x1*14 x2*11", "", "",
			},
			{
				"one rack before two, in slices", tree3, "b1/r1/x1=15 b1/r2/x2=15 b1/r3/x3=15 b1/r3/x4=15",
				"25 balanced=host slice=host:5", "x3*15 x4*10", "x3*10 x4*15",
				"the same shares, the other way round",
			},
			{
				"racks of a part of a block, slices of nodes", "block sub rack host", subBlocks,
				"20 preferred=sub balanced=rack slice=host:2", "x3*10 x4*8 x5*2", "x3*10 x4*4 x5*6",
				"the same shares of racks, and as many nodes",
			},
			{
				"racks of a part of a block, slices of racks", "block sub rack host", subBlocks,
				"20 preferred=sub balanced=rack slice=rack:2", "x3*10 x4*3 x5*7", "", "",
			},
			{
				"racks of a part of a block, racks the narrowest",
				"block sub rack",
				"b1/s1/r1/x1=18 b1/s1/r2/x2=8 b1/s2/r3/x3=15 b1/s2/r4/x4=15",
				"20 preferred=sub balanced=rack slice=rack:2",
				"b1/s2/r3*10 b1/s2/r4*10",
				"",
				"",
			},
			{
				"nodes of a rack, in slices", tree3, "b1/r1/x1=15 b1/r1/x2=13 b1/r1/x3=10 b1/r2/x4=20 b1/r2/x5=8",
				"22 balanced=host slice=host:2", "x2*12 x3*10", "", "",
			},
			{
				"nodes of a rack", tree3, "b1/r1/x1=20 b1/r1/x2=8 b1/r2/x3=15 b1/r2/x4=13 b1/r2/x5=10",
				"22 balanced=host", "x3*11 x4*11", "", "",
			},
			{
				"the rack with equal nodes, the second", tree3, "b1/r1/x1=10 b1/r1/x2=5 b1/r2/x3=5 b1/r2/x4=5 b1/r2/x5=5",
				"15 balanced=host", "x3*5 x4*5 x5*5", "", "",
			},
			{
				"the rack with equal nodes, the first", tree3, "b1/r1/x1=8 b1/r1/x2=8 b1/r1/x3=8 b1/r2/x4=16 b1/r2/x5=8",
				"24 balanced=host", "x1*8 x2*8 x3*8", "", "",
			},
			{
				"across racks", "rack host", "r1/x1=21 r1/x2=9 r2/x3=11 r2/x4=10 r2/x5=10",
				"23 balanced=rack", "x1*12 x3*11", "x1*14 x2*9",
				"one rack has room for all, which is nearer than equal shares of two",
			},
			{
				"two blocks",
				tree3,
				"b1/r1/x1=5 b1/r1/x2=5 b1/r2/x3=5 b1/r2/x4=5 b2/r3/x5=10 b2/r3/x6=4 b2/r3/x7=4 b2/r3/x8=4 b2/r4/x9=5 b2/r5/x10=5",
				"20 balanced=rack",
				"x1*5 x2*5 x3*5 x4*5",
				"x5*8 x6*4 x7*4 x8*4",
				"one rack has room for all",
			},
			{
				"two domains of three", "rack", "d1/n1=18 d2/n2=18 d3/n3=18",
				"20 balanced=rack", "d1*10 d2*10", "", "",
			},
			{
				"three domains", "rack", "d1/n1=18 d2/n2=18 d3/n3=18",
				"40 balanced=rack", "d1*14 d2*13 d3*13", "d1*13 d2*13 d3*14",
				"the same shares, the third pod elsewhere",
			},
			{
				"the smallest domain", "rack", "d1/n1=18 d2/n2=18 d3/n3=18 d4/n4=10 d5/n5=2",
				"2 balanced=rack", "d5*2", "", "",
			},
			{
				"the least share that does", "rack", "d1/n1=18 d2/n2=18 d3/n3=18 d4/n4=10 d5/n5=2",
				"25 balanced=rack", "d1*15 d4*10", "d1*12 d2*13",
				"shares differ by one pod instead of five",
			},
			{
				"slices in two domains", "rack", "a/n1=4 b/n2=8",
				"10 balanced=rack slice=rack:2", "a*4 b*6", "", "",
			},
			{
				"no domain more", "rack", "d1/n1=9 d2/n2=6 d3/n3=4 d4/n4=2",
				"22 balanced=rack", "none 21", "none 21 GangTooLarge", "",
			},
			{
				"one domain, the best", "rack", "d1/n1=9 d2/n2=6 d3/n3=4 d4/n4=2",
				"5 balanced=rack", "d2*5", "", "",
			},
		},
	},
	{
		"Leader and workers",
		[]kueueCase{
			{
				"slices of nodes beside the leader", tree3, "b1/r1/x1=5 b1/r1/x2=5",
				"1 required=block group=g + 4 gpu=2 required=block slice=host:2 group=g", "x1*1 + x1*2 x2*2", "", "",
			},
			{
				"slices of racks and nodes beside the leader",
				tree3,
				"b1/r1/x1=5 b1/r1/x2=5 b1/r2/x3=5 b1/r2/x4=5",
				"1 required=block group=g + 8 gpu=2 required=block slice=rack:4 slice=host:2 group=g",
				"x1*1 + x1*2 x2*2 x3*2 x4*2",
				"",
				"",
			},
			{
				"equal shares beside the leader, in slices", tree3, "b1/r1/x1=20 b1/r1/x2=15 b1/r1/x3=12",
				"1 preferred=rack group=g + 25 balanced=host slice=host:5 group=g", "x3*1 + x2*15 x3*10", "", "",
			},
			{
				"equal shares beside the leader, nothing left", tree3, "b1/r1/x1=6 b1/r1/x2=5",
				"1 preferred=rack group=g + 10 balanced=host group=g", "x1*1 + x1*5 x2*5", "", "",
			},
			{
				"equal shares beside the leader, one left", tree3, "b1/r1/x1=7 b1/r1/x2=5",
				"1 preferred=rack group=g + 10 balanced=host group=g", "x1*1 + x1*5 x2*5", "", "",
			},
			{
				"a large leader, a block preferred",
				tree3,
				"b1/r1/x1=3 b1/r2/x2=3 b1/r3/x3=8 b2/r1/x4=11",
				"1 gpu=5 preferred=block group=g + 7 preferred=block group=g",
				"x3*1 + x1*3 x2*1 x3*3",
				"",
				"",
			},
			{
				"two sets that overlap", "block", "b1/m1=2 b2/m2=2 b3/m3=2",
				"3 preferred=block + 3 preferred=block", "b1*2 b2*1 + b2*1 b3*2", "b1*1 b2*2 + b1*1 b3*2",
				"as many blocks, others by name",
			},
			{
				"the block with cpu for the leader", "block", "b1/m1=2,cpu=2 b2/m2=4,cpu=5 b3/m3=2,cpu=2",
				"1 gpu=0 cpu=1 required=block group=g + 4 cpu=1 required=block group=g", "b2*1 + b2*4", "", "",
			},
			{
				"the leader leaves the workers room", "rack host", "r1/h1=2 r1/h2=4 r1/h3=3",
				"1 required=rack group=g + 4 gpu=2 required=rack group=g", "h3*1 + h1*1 h2*2 h3*1", "", "",
			},
			{
				"the leader leaves the slices room", "rack host", "r1/h1=2 r1/h2=4 r1/h3=3",
				"1 required=rack group=g + 8 required=rack slice=host:2 group=g", "h3*1 + h1*2 h2*4 h3*2", "", "",
			},
			{
				"the leader leaves the workers room, preferred", "host", "h1=8 h2=3",
				"1 preferred=host group=g + 5 gpu=2 preferred=host group=g", "h2*1 + h1*4 h2*1", "", "",
			},
			{
				"each has a node of its own kind, unconstrained", "host", "h1=0,cpu=1 h2=1,cpu=0",
				"1 gpu=0 cpu=1 group=g + 1 group=g", "h1*1 + h2*1", "", "",
			},
			{
				"each has a node of its own kind, in a rack",
				"rack host",
				"r1/lead=0,cpu=1 r1/work=1,cpu=0",
				"1 gpu=0 cpu=1 required=rack slice=rack:1 group=g + 1 required=rack slice=rack:1 group=g",
				"lead*1 + work*1",
				"",
				"",
			},
			{
				"the block that just holds both", "block", "b1/m1=2,cpu=2 b2/m2=8,cpu=8 b3/m3=2,cpu=2",
				"1 gpu=0 cpu=1 required=block group=g + 4 gpu=2 cpu=1 required=block group=g", "b2*1 + b2*4", "", "",
			},
			{
				"a rack that holds the workers alone", tree3, "b1/small/s1=28,others=25 b1/small/s2=28 b1/large/l=60",
				"1 gpu=25 required=rack group=g + 1 gpu=25 required=rack group=g", "l*1 + l*1", "", "",
			},
			{
				"a rack that holds small workers alone", tree3, "b1/small/s1=28,others=25 b1/small/s2=28 b1/large/l=60",
				"1 gpu=25 required=rack group=g + 2 gpu=5 required=rack group=g", "l*1 + l*2", "", "",
			},
			{
				"a rack that just holds both", tree3, "b1/small/s1=28,others=25 b1/small/s2=28 b1/large/l=60",
				"1 gpu=10 required=rack group=g + 1 gpu=10 required=rack group=g", "s2*1 + s2*1", "", "",
			},
			{
				"no block holds both",
				"block",
				"b1/m1=0,cpu=1 b2/m2=4,cpu=4",
				"1 gpu=0 cpu=1 required=block group=g + 4 cpu=1 required=block group=g",
				"none 4",
				"none 0 DomainsShort",
				"",
			},
			{
				"the block that holds both, and not the tighter", "block", "b1/m1=8,cpu=11 b2/m2=4,cpu=4",
				"1 gpu=0 cpu=1 required=block group=g + 4 cpu=1 required=block group=g", "b1*1 + b1*4", "", "",
			},
			{
				"workers over nodes, in slices",
				tree3,
				"b1/r1/x1=4,cpu=20 b1/r1/x2=2,cpu=20 b1/r1/x3=2,cpu=20 b1/r1/x4=2,cpu=20",
				"1 gpu=0 cpu=1 preferred=block group=g + 6 cpu=1 preferred=block slice=host:2 group=g",
				"x1*1 + x1*4 x2*2",
				"",
				"",
			},
			{
				"a leader that fits nowhere",
				"block",
				"b1/m1=4,cpu=4 b2/m2=4,cpu=4",
				"1 gpu=0 cpu=10 required=block group=g + 4 cpu=1 required=block group=g",
				"none 0",
				"none 0 PodTooLarge",
				"",
			},
			{
				"a leader that has a node for itself",
				tree3,
				"b1/r1/x3=1,cpu=2 b1/r1/x5=1,cpu=2 b1/r1/x1=1,cpu=2 b2/r4/x6=1,cpu=1 b2/r5/x2=1,cpu=2 b2/r6/x4=1,cpu=2",
				"1 gpu=0 cpu=2 required=block group=g + 2 cpu=1 required=block group=g",
				"x1*1 + x3*1 x5*1",
				"",
				"",
			},
			{
				"three pods of a kind, two racks of a block",
				tree3,
				"b1/r1/x3=1 b1/r1/x5=1 b1/r2/x1=1 b1/r2/x6=1 b2/r3/x2=1 b2/r3/x4=1 b2/r4/x7=1 b2/r4/x8=1",
				"1 required=block group=g + 2 required=block group=g",
				"x3*1 + x1*1 x5*1",
				"x3*1 + x1*1 x6*1",
				"both workers in one rack",
			},
			{
				"the last zone just does", "zone rack host", "d1/r1/n1=10 d2/r2/n2=6",
				"1 required=zone slice=rack:1 group=g + 5 required=zone slice=rack:1 group=g", "n2*1 + n2*5", "", "",
			},
			{
				"a zone for the leader, another for the workers",
				"zone host",
				"west/w1=8,cpu=8 west/w2=8,cpu=8 east/e1=0,cpu=32",
				"1 gpu=0 cpu=16 preferred=zone group=g + 2 gpu=8 cpu=4 preferred=zone group=g",
				"e1*1 + w1*1 w2*1",
				"",
				"",
			},
			{
				"a domain that holds the leader, and five", "host", "d1=9,@lead=yes d2=6 d3=4,@lead=yes d4=2",
				"1 select=lead:yes group=g + 5 preferred=host group=g", "d1*1 + d1*5", "d3*1 + d2*5",
				"the leader asks for nothing; what just does comes first",
			},
			{
				"two domains with nothing left beside the leader", "host", "d1=9,@lead=yes d2=6 d3=4,@lead=yes d4=2",
				"1 select=lead:yes group=g + 9 preferred=host group=g", "d3*1 + d2*6 d3*3", "d3*1 + d1*9",
				"as above: the workers are on one node instead of two",
			},
			{
				"two domains, the leader in the larger", "host", "d1=9,@lead=yes d2=6 d3=4,@lead=yes d4=2",
				"1 select=lead:yes group=g + 10 preferred=host group=g", "d1*1 + d1*8 d4*2", "d3*1 + d1*9 d3*1",
				"as above, on as many nodes",
			},
		},
	},
	{
		"Several pod sets that are no group",
		[]kueueCase{
			{
				"a rack for each, by different resources",
				tree2,
				"b1/r1/x3=10,mem=1048576 b1/r2/x5=10,mem=1048576 b1/r2/x1=10,mem=1048576 b1/r2/x6=10,mem=1048576 b2/r1/x2=10,mem=1048576 b2/r2/x4=20,mem=4194304",
				"2 required=rack + 1 gpu=0 mem=1 required=rack",
				"b1/r1*2 + b1/r1*1",
				"b2/r1*2 + b2/r1*1",
				"the smaller block is used, and the larger stays whole",
			},
			{
				"a block for one, anywhere for the other", tree3, largeTree,
				"8 required=block + 2", "x2*8 + x2*2", "", "",
			},
			{
				"one that fits, one that does not", "rack host", "r1/x1=3 r1/y1=3",
				"1 preferred=host + 1 gpu=7 preferred=host", "none 0", "none 0 PodTooLarge", "",
			},
			{
				"a node for the launcher, the rest for workers", "rack host", "r1/x1=8 r1/y1=8",
				"1 required=host + 15 preferred=host", "x1*1 + x1*7 y1*8", "", "",
			},
			{
				"a rack for the launcher and for the workers", "rack host", "r1/x1=8 r1/y1=8",
				"1 required=rack + 15 required=rack", "x1*1 + x1*7 y1*8", "", "",
			},
		},
	},
	{
		"Pods that stay while others come",
		[]kueueCase{
			{
				"two more, unconstrained", "host", "x1=0 x2=2 x3=2",
				"2 stay=x1*2", "x2*2", "", "",
			},
			{
				"two more, beside two nodes", "host", "x1=1 x2=1 x3=2",
				"2 stay=x1*1,x2*1", "x3*2", "", "",
			},
			{
				"a slice of workers, the leader and another slice stay",
				tree3,
				"b1/r1/x1=0 b1/r1/x3=5 b1/r2/x4=2 b1/r2/x5=2",
				"2 gpu=2 required=block slice=host:2 stay=x1*2 beside=x1",
				"x3*2",
				"",
				"",
			},
			{
				"two more workers, the leader stays", "host", "x1=0 x2=0 x3=2",
				"2 stay=x1*2,x2*1", "x3*2", "", "",
			},
		},
	},
}

// gb200 are eight racks of 18 nodes with two GPUs in two zones.
func gb200() string {
	var b strings.Builder
	for i := range 8 * 18 {
		r := i / 18
		fmt.Fprintf(&b, " dc/az%d/b%d/r%d/n%d=2", r/4, r/2, r, i)
	}
	return b.String()
}

// labelled is the label of a level.
func labelled(level string) string {
	if level == "host" {
		return core.HostnameLabel
	}
	return level
}

// number is a number in a word of a case.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tree makes the nodes of a case.
func (tc *kueueCase) tree(t *testing.T) *Nodes {
	t.Helper()
	s := New(core.GPU)
	for word := range strings.FieldsSeq(tc.nodes) {
		word, down := strings.CutSuffix(word, "-")
		parts := strings.Split(word, ",")
		path, free, _ := strings.Cut(parts[0], "=")
		values := strings.Split(path, "/")
		n := machine(values[len(values)-1], core.Amount(number(t, free)), core.NodeReady)
		n.Allocatable = n.Allocatable.With(core.CPU, 1000).With(core.Pods, 100).With(core.Memory, 1<<30)
		if down {
			n.State = core.NodeClosed
		}
		for i, value := range values[:len(values)-1] {
			n.Labels[strings.Fields(tc.levels)[i]] = value
		}
		for _, part := range parts[1:] {
			key, value, _ := strings.Cut(part, "=")
			switch {
			case key[0] == '!':
				n.Taints = append(n.Taints, core.Taint{Key: key[1:], Effect: core.NoSchedule})
			case key == "@nohost":
				delete(n.Labels, core.HostnameLabel)
			case key[0] == '@':
				n.Labels[key[1:]] = value
			case key == "others":
				n.Foreign = n.Foreign.With(core.GPU, core.Amount(number(t, value))).With(core.Pods, 1)
			case key == "otherpods":
				n.Foreign = n.Foreign.With(core.Pods, core.Amount(number(t, value)))
			default:
				n.Allocatable = n.Allocatable.With(resourceNamed(key), core.Amount(number(t, value)))
			}
		}
		s.Set(n)
	}
	return s
}

func resourceNamed(short string) string {
	switch short {
	case "gpu":
		return core.GPU
	case "mem":
		return core.Memory
	case "pods":
		return core.Pods
	}
	return short
}

// request is what the case asks of the nodes.
func (tc *kueueCase) request(t *testing.T, s *Nodes) Request {
	t.Helper()
	r := Request{View: Free}
	topology := core.Topology{Name: "default"}
	for level := range strings.FieldsSeq(tc.levels) {
		topology.Levels = append(topology.Levels, labelled(level))
	}
	for i, text := range strings.Split(tc.asks, " + ") {
		var is core.Constraints
		needs := gpus(1)
		words := strings.Fields(text)
		set, stay := Set{Index: i, Count: int32(number(t, words[0]))}, ""
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			name, more, _ := strings.Cut(value, ":")
			switch key {
			case "required":
				is.Topology.Required = labelled(value)
			case "preferred":
				is.Topology.Preferred = labelled(value)
			case "balanced":
				is.Topology.Balanced = labelled(value)
			case "slice":
				size := int32(number(t, more))
				is.Topology.Slices = append(is.Topology.Slices, core.PodSetSlice{Level: labelled(name), Size: size})
			case "group":
				set.Group = value
			case "select":
				is.Filter.Must = append(
					is.Filter.Must, core.Requirement{Key: name, Operator: core.In, Values: []string{more}},
				)
			case "tolerate":
				is.Filter.Tolerations = append(is.Filter.Tolerations, core.Toleration{Key: value, Exists: true})
			case "stay":
				stay = value
			case "beside":
				set.Peers = append(set.Peers, Hold{Node: s.Node(value), Count: 1})
			default:
				needs = needs.With(resourceNamed(key), core.Amount(number(t, value)))
			}
		}
		set.Class = s.Class(needs, is, topology)
		others := len(set.Peers)
		for _, spot := range strings.FieldsFunc(stay, func(r rune) bool { return r == ',' }) {
			name, count, _ := strings.Cut(spot, "*")
			n := s.Node(name).spec // what is free there is free beside the pods that stay
			held := core.Amount(number(t, count)) * needs.Of(core.GPU)
			n.Allocatable = n.Allocatable.With(core.GPU, n.Allocatable.Of(core.GPU)+held)
			s.Set(n)
			set.Peers = append(set.Peers, Hold{s.Node(name), set.Class, int32(number(t, count))})
		}
		r.Sets, r.Kept = append(r.Sets, set), append(r.Kept, set.Peers[others:]...)
	}
	s.Take(core.Current, r.Kept, 1)
	s.Take(core.Projected, r.Kept, 1)
	return r
}

// domain names what a node stands for in an outcome: itself, or its domain if the node is no level.
func (tc *kueueCase) domain(n *Node) string {
	if strings.HasSuffix(tc.levels, "host") {
		return n.Name()
	}
	var values []string
	for level := range strings.FieldsSeq(tc.levels) {
		values = append(values, n.spec.Labels[level])
	}
	return strings.Join(values, "/")
}

// outcome are places in the words of a case.
func (tc *kueueCase) outcome(spots [][]Spot) string {
	var sets []string
	for _, list := range spots {
		pods := map[string]int32{}
		for _, sp := range list {
			pods[tc.domain(sp.Node)] += sp.Count
		}
		var words []string
		for _, name := range slices.SortedFunc(maps.Keys(pods), core.CompareNames) {
			words = append(words, fmt.Sprintf("%s*%d", name, pods[name]))
		}
		sets = append(sets, strings.Join(words, " "))
	}
	return strings.Join(sets, " + ")
}

// spread is how many domains of each level an outcome has, the widest first: of all sets together where a group requires
// that they share one, of each where it does not.
func (tc *kueueCase) spread(s *Nodes, outcome string) []int {
	levels := strings.Fields(tc.levels)
	count := make([]int, len(levels))
	at := map[string]*Node{}
	for _, n := range s.order {
		at[tc.domain(n)] = n
	}
	seen := map[string]bool{}
	for i, set := range strings.Split(outcome, " + ") {
		if strings.Contains(tc.asks, "group=") && strings.Contains(tc.asks, "required=") {
			i = 0
		}
		for word := range strings.FieldsSeq(set) {
			name, _, _ := strings.Cut(word, "*")
			path := fmt.Sprint(i)
			for k, level := range levels {
				path += "/" + at[name].spec.Labels[labelled(level)]
				if !seen[path] {
					seen[path] = true
					count[k]++
				}
			}
		}
	}
	return count
}

func TestKueueTables(t *testing.T) {
	for _, family := range kueueTables {
		for i := range family.cases {
			tc := &family.cases[i]
			t.Run(family.family+"/"+tc.name, func(t *testing.T) {
				s := tc.tree(t)
				r := tc.request(t, s)
				spots, short, ok := s.Place(r)
				got := tc.outcome(spots)
				if !ok {
					got = fmt.Sprintf("none %d %s", short.Fit, short.Cause)
				}
				want := tc.ours
				if want == "" {
					want = tc.kueue
				}
				if got != want {
					t.Fatalf("pods are on %q, want %q; on Kueue %q. %s", got, want, tc.kueue, tc.why)
				}
				none := strings.HasPrefix(tc.kueue, "none")
				if ok == none && tc.why == "" {
					t.Errorf("placed: %t, by Kueue: %t", ok, !none)
				}
				if !ok || none || tc.ours == "" {
					return
				}
				if tc.why == "" || tc.ours == tc.kueue {
					t.Error("the case does not say what differs")
				}
				ours, theirs := tc.spread(s, got), tc.spread(s, tc.kueue)
				for k, level := range strings.Fields(tc.levels) {
					if ours[k] > theirs[k] {
						t.Errorf("pods are in %d domains of level %s, on Kueue in %d", ours[k], level, theirs[k])
					}
				}
			})
		}
	}
}
