package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// OnNode is a job with pods on a node that is to be drained.
type OnNode struct {
	// Job is NAMESPACE/NAME, Pods and GPUs what it has there.
	Job  string `json:"job"`
	Pods int    `json:"pods"`
	GPUs int64  `json:"gpus"`
	// Moves says that what it has there leaves, How in which way or why not.
	Moves bool   `json:"moves"`
	How   string `json:"how"`
}

// Node is a node with what runs on it.
type Node struct {
	*corev1.Node
	Jobs []OnNode
}

// FindNodes reads nodes, and what is on them.
func FindNodes(ctx context.Context, c client.Reader, names []string) ([]Node, error) {
	var out []Node
	for _, name := range names {
		var n corev1.Node
		err := c.Get(ctx, client.ObjectKey{Name: name}, &n)
		if err != nil {
			return nil, notThere(err, "node", name, "mlbatch nodes")
		}
		out = append(out, Node{Node: &n})
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var workloads kueue.WorkloadList
	if err := gather.Readable(c.List(ctx, &workloads)); err != nil {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	owners := map[string]string{}
	for i := range workloads.Items {
		w := &workloads.Items[i]
		if o := metav1.GetControllerOf(w); o != nil {
			owners[w.Namespace+"/"+w.Name] = o.Name
		}
	}
	for i := range out {
		out[i].Jobs = onNode(out[i].Node, pods.Items, owners)
	}
	return out, nil
}

// onNode are the jobs with pods on a node, those with most GPUs first. What belongs to the node
// itself, as DaemonSets' pods do, is left out.
func onNode(n *corev1.Node, pods []corev1.Pod, owners map[string]string) []OnNode {
	found := map[string]*OnNode{}
	for i := range pods {
		p := &pods[i]
		owner := metav1.GetControllerOf(p)
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Spec.NodeName != n.Name || ended ||
			owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") {
			continue
		}
		name := cmp.Or(
			owners[p.Namespace+"/"+p.Annotations[kueue.WorkloadAnnotation]],
			p.Labels[appwrapper.AppWrapperLabel],
		)
		if name == "" && owner != nil {
			name = owner.Name
		}
		job := p.Namespace + "/" + cmp.Or(name, p.Name)
		gpus := int64(0)
		for _, r := range convert.PodRequests(&p.Spec) {
			if view.IsGPU(r.Resource) {
				gpus += int64(r.Amount)
			}
		}
		moves, how := leaves(p, owner, gpus)
		key := job + how
		if found[key] == nil {
			found[key] = &OnNode{Job: job, Moves: moves, How: how}
		}
		found[key].Pods++
		found[key].GPUs += gpus
	}
	var out []OnNode
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[key])
	}
	slices.SortStableFunc(out, func(a, b OnNode) int { return cmp.Compare(b.GPUs, a.GPUs) })
	return out
}

// leaves says how a pod leaves a node with the label EVICT, as docs/node-health.md has it.
func leaves(p *corev1.Pod, owner *metav1.OwnerReference, gpus int64) (moves bool, how string) {
	all := kinds.All()
	switch {
	case gpus == 0:
		return false, "stays: it has no GPUs"
	case p.Labels[appwrapper.AppWrapperLabel] != "":
		return true, "starts again elsewhere, all of it"
	case owner == nil:
		return false, "stays: nobody would make it anew"
	}
	for i := range all {
		k := &all[i]
		if gvk := k.GVK(); gvk.Kind == owner.Kind && gvk.GroupVersion().String() == owner.APIVersion {
			if k.Queueing.Replaces == nil && k.Running.Operator == nil {
				return false, "stays: who runs it has to move it"
			}
			return true, "pods here are made anew elsewhere, as far as the job survives it"
		}
	}
	if slices.Contains([]string{"ReplicaSet", "StatefulSet"}, owner.Kind) {
		return true, "pods here are made anew elsewhere"
	}
	return false, "stays: who runs it has to move it"
}

// nodePatch is what changes of a node, in one write.
type nodePatch struct {
	Metadata struct {
		ResourceVersion string             `json:"resourceVersion"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
		Labels          map[string]*string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *struct {
		Unschedulable *bool `json:"unschedulable"`
	} `json:"spec,omitempty"`
}

func (p *nodePatch) cordon(yes bool) { //nolint:revive // a fact
	p.Spec = &struct {
		Unschedulable *bool `json:"unschedulable"`
	}{nil}
	if yes {
		p.Spec.Unschedulable = &yes
	}
}

func (p *nodePatch) write(ctx context.Context, c client.Client, n *corev1.Node) error {
	p.Metadata.ResourceVersion = n.ResourceVersion
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	err = c.Patch(ctx, n, client.RawPatch(types.MergePatchType, data))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("node %s was changed at this moment: try again: %w", n.Name, err)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// again reads the node afresh: somebody may have thought about a question for a while.
func (n Node) again(ctx context.Context, c client.Client) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(n.Node), n.Node); err != nil {
		return fmt.Errorf("read node %s: %w", n.Name, err)
	}
	return nil
}

// Drain takes a node out of service: nothing more starts on it and, with evict, what has GPUs
// leaves it. It reports whether anything had to be written. What others did before is noted, so
// that putting the node back leaves it.
func (n Node) Drain( //nolint:revive // a fact
	ctx context.Context,
	c client.Client,
	who, reason string,
	evict bool,
	now time.Time,
) (bool, error) {
	if err := n.again(ctx, c); err != nil {
		return false, err
	}
	d := view.Drain{By: who, Reason: reason, At: now.UTC().Truncate(time.Second)}
	health := n.Labels[nodehealth.HealthLabel]
	was := view.DrainOf(n.Node)
	if was != nil {
		d.Cordoned, d.Labelled, d.Health = was.Cordoned, was.Labelled, was.Health
	}
	var p nodePatch
	if !n.Spec.Unschedulable {
		d.Cordoned = true
		p.cordon(true)
	}
	if evict && health != nodehealth.Evict {
		d.Labelled, d.Health = true, health
		p.Metadata.Labels = map[string]*string{nodehealth.HealthLabel: new(nodehealth.Evict)}
	}
	if was != nil && p.Spec == nil && p.Metadata.Labels == nil && (reason == "" || reason == was.Reason) {
		return false, nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return false, fmt.Errorf("node %s: %w", n.Name, err)
	}
	p.Metadata.Annotations = map[string]*string{view.DrainAnnotation: new(string(text))}
	return true, p.write(ctx, c, n.Node)
}

// Undrain puts a node back: it undoes what Drain did, and leaves what others did. left says what
// that is.
func (n Node) Undrain(ctx context.Context, c client.Client) (left []string, err error) {
	if err := n.again(ctx, c); err != nil {
		return nil, err
	}
	d := view.DrainOf(n.Node)
	if d == nil {
		if !n.Spec.Unschedulable && n.Labels[nodehealth.HealthLabel] != nodehealth.Evict {
			return nil, fmt.Errorf("node %s is not drained", n.Name)
		}
		var cures []string
		if n.Spec.Unschedulable {
			cures = append(cures, "kubectl uncordon "+n.Name)
		}
		switch m := convert.HealthMark(n.Node); {
		case n.Labels[nodehealth.HealthLabel] != nodehealth.Evict:
		case m != nil && m.Set == nodehealth.Evict:
			cures = append(cures, "mlbatch nodes clear "+n.Name)
		default:
			cures = append(cures, fmt.Sprintf("kubectl label node %s %s-", n.Name, nodehealth.HealthLabel))
		}
		return nil, fmt.Errorf(
			"node %s was taken out of service by somebody else (%s), not by mlbatch drain: it stays; %s puts it back if you know why it was",
			n.Name,
			convert.Node(n.Node).Why,
			strings.Join(cures, " and "),
		)
	}
	p := nodePatch{}
	p.Metadata.Annotations = map[string]*string{view.DrainAnnotation: nil}
	switch {
	case d.Cordoned:
		p.cordon(false)
	case n.Spec.Unschedulable:
		left = append(left, "it was cordoned before it was drained")
	}
	health := n.Labels[nodehealth.HealthLabel]
	switch {
	case d.Labelled && health == nodehealth.Evict:
		var before *string
		if d.Health != "" {
			before = &d.Health
		}
		p.Metadata.Labels = map[string]*string{nodehealth.HealthLabel: before}
		health = d.Health
	case !d.Labelled && health == nodehealth.Evict:
		left = append(left, "its label "+nodehealth.HealthLabel+"="+health+" was there before")
	}
	if nodehealth.MarkedState(map[string]string{nodehealth.HealthLabel: health}) == core.NodeClosed {
		left = append(left, "its label is "+nodehealth.HealthLabel+"="+health)
	}
	return left, p.write(ctx, c, n.Node)
}

// Leaving are the jobs on a node that leave it, and the jobs that stay.
func (n Node) Leaving(evict bool) (leave, stay []OnNode) { //nolint:revive // a fact
	for _, j := range n.Jobs {
		if evict && j.Moves {
			leave = append(leave, j)
		} else {
			stay = append(stay, j)
		}
	}
	return leave, stay
}

// OnNodeColumns are those of the jobs on nodes.
func OnNodeColumns(evict bool) []cli.Column[OnNode] { //nolint:revive // a fact
	return []cli.Column[OnNode]{
		{Title: "JOB", Text: func(j OnNode) string { return j.Job }},
		{Title: "PODS", Rank: 1, Text: func(j OnNode) string { return fmt.Sprint(j.Pods) }},
		{Title: "GPUS", Text: func(j OnNode) string { return fmt.Sprint(j.GPUs) }},
		{Title: "WHAT BECOMES OF IT", Text: func(j OnNode) string {
			if !evict {
				return "runs on"
			}
			return j.How
		}},
	}
}

// Emptied says of nodes what is on them still that has to leave; nothing if they are empty.
func Emptied(ctx context.Context, c client.Reader, names []string) ([]string, error) {
	nodes, err := FindNodes(ctx, c, names)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range nodes {
		leave, _ := n.Leaving(true)
		for _, j := range leave {
			out = append(out, n.Name+": "+j.Job)
		}
	}
	return out, nil
}
