package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Planner says what would become of a job that is not there.
type Planner interface {
	// Plan fails if no controller answers, or the user may not ask.
	Plan(
		ctx context.Context,
		namespace string,
		spec visibility.WorkloadPlanSpec,
	) (*visibility.WorkloadPlan, error)
}

// CapacityRow is the largest gang of pods of a size that would start now.
type CapacityRow struct {
	// Namespace and LocalQueue are the ones that were asked, ClusterQueue the one behind.
	Namespace    string `json:"namespace"`
	LocalQueue   string `json:"localQueue"`
	ClusterQueue string `json:"clusterQueue"`
	// GPUsPerPod is what each pod asks for, Pods how many such pods start together, GPUs what they
	// have all together.
	GPUsPerPod int64 `json:"gpusPerPod"`
	// PodsPerGang is of how many pods each gang is and Gangs how many of them start, each in one domain of the level that
	// was asked about; 0 if it was asked about the largest gang.
	PodsPerGang int32 `json:"podsPerGang,omitempty"`
	Gangs       int32 `json:"gangs,omitempty"`
	Pods        int32 `json:"pods"`
	GPUs        int64 `json:"gpus"`
	// Borrowed is how many of these GPUs would not be the queue's own.
	Borrowed int64    `json:"borrowed"`
	Flavors  []string `json:"flavors,omitempty"`
	// Nodes is how many nodes they would be on.
	Nodes int `json:"nodes"`
	// MorePreempts says that one pod more would start, after others were stopped for it.
	MorePreempts bool `json:"morePreempts,omitempty"`
	// Bound is what one pod more is refused for: quota, nodes, fragmentation or another reason's
	// code; Why says it in words. Both are "" if more than MostPods start.
	Bound string `json:"bound,omitempty"`
	Why   string `json:"why,omitempty"`
}

// What bounds a gang.
const (
	BoundQuota         = "quota"
	BoundNodes         = "nodes"
	BoundFragmentation = "fragmentation" // enough GPUs are free, and not enough on one node
	BoundPreemption    = "preemption"    // more start only if others are stopped for them
)

// MostPods is how many pods of a gang are tried at most.
const MostPods = 4096

// CapacityQuestion is what is asked.
type CapacityQuestion struct {
	Namespace, LocalQueue, ClusterQueue string
	// Resource is what GPUs are called, "" for those of NVIDIA.
	Resource string
	// Level is the node label of which one value holds all pods of a gang, "" for anywhere.
	Level string
	// PriorityClass of the pods, "" is the cluster's default.
	PriorityClass string
	// Sizes are GPUs of a pod.
	Sizes []int64
	// Pods are those of a gang, of which as many as start are counted; empty for the largest gang that starts.
	Pods []int32
}

// Capacity asks the engine for the largest gangs that start now, of each size, or for how many of some numbers of pods
// do. Nothing is submitted; each answer is what would become of such a job at that moment.
func Capacity(ctx context.Context, plan Planner, q CapacityQuestion) ([]CapacityRow, error) {
	var out []CapacityRow
	numbers := slices.Sorted(slices.Values(q.Pods))
	if len(numbers) == 0 {
		numbers = []int32{0}
	}
	for _, pods := range numbers {
		s := gangs{plan: plan, question: q, pods: pods}
		most := int64(MostPods)
		for _, size := range slices.Sorted(slices.Values(q.Sizes)) {
			limit := int32(max(1, min(int64(s.most()), most/size/int64(s.each())))) //nolint:gosec // most() at most
			row, err := s.largest(ctx, size, limit)
			if err != nil {
				return nil, err
			}
			if row.Bound != "" { // larger pods have no more GPUs together, with one pod to be sure
				most = min(most, row.GPUs+size*int64(s.each()))
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// gangs are asked for one by one: of so many pods each or, if that is 0, one of as many pods as start.
type gangs struct {
	plan     Planner
	question CapacityQuestion
	pods     int32
}

// each is how many pods come at a time.
func (s *gangs) each() int32 { return max(1, s.pods) }

// most is how many times so many are tried.
func (s *gangs) most() int32 { return max(1, MostPods/s.each()) }

// largest finds how many gangs start or, of one, how many pods, at most limit.
func (s *gangs) largest(ctx context.Context, size int64, limit int32) (CapacityRow, error) {
	row := CapacityRow{
		Namespace:    s.question.Namespace,
		LocalQueue:   s.question.LocalQueue,
		ClusterQueue: s.question.ClusterQueue,
		GPUsPerPod:   size,
	}
	var best, worse *visibility.WorkloadPlanStatus
	starts, fails := int32(0), limit+1
	try := func(n int32) error {
		is, err := s.ask(ctx, size, n)
		if err != nil {
			return err
		}
		if is.Outcome == visibility.PlanStarts {
			starts, best = n, is
		} else {
			fails, worse = n, is
		}
		return nil
	}
	if limit < s.most() { // smaller pods say so
		if err := try(limit); err != nil {
			return row, err
		}
	}
	for n := int32(1); n < fails && starts < limit; n = min(2*n, limit) { // up to twice what starts
		if err := try(n); err != nil {
			return row, err
		}
	}
	for fails-starts > 1 {
		if err := try(starts + (fails-starts)/2); err != nil {
			return row, err
		}
	}
	if starts == limit && limit < s.most() { // the limit was a guess
		if err := try(limit + 1); err != nil {
			return row, err
		}
		if starts > limit {
			return s.largest(ctx, size, s.most())
		}
	}
	row.Pods, row.GPUs = starts*s.each(), int64(starts*s.each())*size
	if s.pods > 0 {
		row.PodsPerGang, row.Gangs = s.pods, starts
	}
	row.starts(best, s.resource())
	row.bound(worse)
	return row, nil
}

func (s *gangs) resource() string { return cmp.Or(s.question.Resource, core.GPU) }

// ask asks what would become of so many gangs or, of one, of so many pods. Several gangs are asked about as one that is
// cut into runs of the pods of each, every one of them in one domain.
func (s *gangs) ask(ctx context.Context, size int64, n int32) (*visibility.WorkloadPlanStatus, error) {
	amount := *resource.NewQuantity(size, resource.DecimalSI)
	list := corev1.ResourceList{corev1.ResourceName(s.resource()): amount}
	var near metav1.ObjectMeta
	n *= s.each()
	switch {
	case s.question.Level != "" && s.pods > 0:
		near.Annotations = map[string]string{
			kueue.PodSetSliceRequiredTopologyAnnotation: s.question.Level,
			kueue.PodSetSliceSizeAnnotation:             strconv.Itoa(int(s.pods)),
		}
	case s.question.Level != "":
		near.Annotations = map[string]string{kueue.PodSetRequiredTopologyAnnotation: s.question.Level}
	}
	said, err := s.plan.Plan(ctx, s.question.Namespace, visibility.WorkloadPlanSpec{
		QueueName: s.question.LocalQueue,
		PodSets: []visibility.PlannedPodSet{{
			Name: string(kueue.DefaultPodSetName), Count: n,
			Template: corev1.PodTemplateSpec{ObjectMeta: near, Spec: corev1.PodSpec{
				PriorityClassName: s.question.PriorityClass,
				Containers: []corev1.Container{
					{Name: "gang", Image: "gang", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}},
				},
			}},
		}},
	})
	if err != nil {
		return nil, err
	}
	if said.Status == nil {
		return nil, fmt.Errorf(
			"ask what %d pods of %d GPUs would get in queue %s/%s: there was no answer",
			n,
			size,
			s.question.Namespace,
			s.question.LocalQueue,
		)
	}
	return said.Status, nil
}

// starts notes where the gang would be.
func (r *CapacityRow) starts(is *visibility.WorkloadPlanStatus, gpu string) {
	if is == nil {
		return
	}
	nodes, flavors := map[string]bool{}, map[string]bool{}
	for _, set := range is.PodSets {
		for _, n := range set.Nodes {
			nodes[n.Name] = true
		}
		for _, f := range set.Flavors {
			if f.Resource == gpu {
				flavors[f.Flavor] = true
			}
		}
	}
	r.Nodes, r.Flavors = len(nodes), slices.Sorted(maps.Keys(flavors))
	for _, q := range is.Quotas {
		if q.Resource == gpu {
			r.Borrowed += min(q.Borrowed.Value(), r.GPUs)
		}
	}
}

// bound notes what stands in the way of one pod more.
func (r *CapacityRow) bound(is *visibility.WorkloadPlanStatus) {
	switch {
	case is == nil:
		return
	case is.Outcome == visibility.PlanStartsAfterStops:
		n := len(is.Preempts)
		r.Bound, r.MorePreempts = BoundPreemption, n > 0
		r.Why = fmt.Sprintf(
			"one more starts when %s %s stopped for it",
			words.Count(n, "job"),
			words.Verb(n, "is", "are"),
		)
		if n == 0 {
			r.Why = "one more starts when jobs that are being stopped have ended"
		}
		return
	case is.Explanation == nil:
		r.Bound = string(is.Outcome)
		return
	}
	x := is.Explanation
	r.Bound, r.Why = x.Reason, why.Plain(x.Message)
	switch core.Code(x.Reason) {
	case core.WaitingForQuota, core.ExceedsMaxQuota:
		r.Bound = BoundQuota
	case core.TopologyPlacementFailed:
		r.Bound = BoundNodes
		each := r.GPUsPerPod * int64(max(1, r.PodsPerGang))
		if n := x.Nodes; n != nil && n.Free != nil && n.Free.Value()-r.GPUs >= each {
			r.Bound = BoundFragmentation // what the gang leaves is enough, and not on one node
		}
	default:
		// The code says it.
	}
}

// CapacityQueues are the queues that can be asked about: all LocalQueues of a namespace or, of all
// namespaces, one for each ClusterQueue. queue leaves the others out; it may be the name of either.
func CapacityQueues(
	ctx context.Context,
	c client.Reader,
	namespace, queue string,
) ([]CapacityQuestion, error) {
	var list kueue.LocalQueueList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		if apierrors.IsForbidden(err) && namespace == "" {
			return nil, fmt.Errorf(
				"you may not list the queues of all namespaces: -n NAMESPACE asks for those of one: %w",
				err,
			)
		}
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b kueue.LocalQueue) int {
		return cmp.Or(
			cmp.Compare(a.Spec.ClusterQueue, b.Spec.ClusterQueue),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	var out []CapacityQuestion
	for i := range list.Items {
		q := &list.Items[i]
		behind := string(q.Spec.ClusterQueue)
		if queue != "" && queue != q.Name && queue != behind {
			continue
		}
		if namespace == "" && len(out) > 0 && out[len(out)-1].ClusterQueue == behind {
			continue
		}
		out = append(out, CapacityQuestion{Namespace: q.Namespace, LocalQueue: q.Name, ClusterQueue: behind})
	}
	if queue != "" && len(out) == 0 {
		return nil, fmt.Errorf(
			"no LocalQueue that you may see is called %s or leads to such a ClusterQueue: jobs could not be submitted to it",
			queue,
		)
	}
	return out, nil
}

// CapacityColumns are those of a list of gangs; counted says that it has how many of some numbers of pods start.
func CapacityColumns(local, counted bool) []Column[CapacityRow] { //nolint:revive // what queues are called
	number := func(title string, rank int, of func(CapacityRow) int64) Column[CapacityRow] {
		return NumberColumn(Column[CapacityRow]{Title: title, Rank: rank}, of)
	}
	name := Column[CapacityRow]{Title: "QUEUE", Text: func(r CapacityRow) string { return r.ClusterQueue }}
	if local {
		name.Text = func(r CapacityRow) string { return r.LocalQueue }
	}
	var gang []Column[CapacityRow]
	pods := 0
	if counted {
		pods = 6 // they follow from the gangs
		gang = []Column[CapacityRow]{
			number("PODS EACH", 0, func(r CapacityRow) int64 { return int64(r.PodsPerGang) }),
			number("GANGS NOW", 0, func(r CapacityRow) int64 { return int64(r.Gangs) }),
		}
	}
	return slices.Concat([]Column[CapacityRow]{
		name,
		number("GPUS EACH", 0, func(r CapacityRow) int64 { return r.GPUsPerPod }),
	}, gang, []Column[CapacityRow]{
		number("PODS NOW", pods, func(r CapacityRow) int64 { return int64(r.Pods) }),
		number("GPUS", 2, func(r CapacityRow) int64 { return r.GPUs }),
		number("BORROWED", 5, func(r CapacityRow) int64 { return r.Borrowed }),
		number("NODES", 3, func(r CapacityRow) int64 { return int64(r.Nodes) }),
		{Title: "FLAVOR", Rank: 4, Text: func(r CapacityRow) string { return strings.Join(r.Flavors, ",") }},
		{Title: "BOUND BY", Text: func(r CapacityRow) string { return r.Bound }},
		{Title: "WHY NOT MORE", Rank: 1, Text: func(r CapacityRow) string { return r.Why }},
	})
}
