package view

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/api/view/v1alpha1"
)

// JobView is a job as the API serves it: how it stands, as far as whoever asks may see it. Nothing stores it.
type JobView struct {
	metav1.TypeMeta `json:",inline"`
	// The namespace, UID and creation time of the job. The name is made of the kind and the name of the job, of
	// which together there is one in a namespace: pytorchjob.train.
	metav1.ObjectMeta `json:"metadata"`
	// Job is how it stands.
	Job Job `json:"job"`
}

// JobViewList are views of jobs, the youngest job first.
type JobViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	// At is the moment of the answer, Replica the controller that gave it.
	At      metav1.Time `json:"at"`
	Replica string      `json:"replica"`
	// Unread are what whoever asks may not list, so that it is left out.
	Unread []string `json:"unread,omitempty"`
	// Items are the views.
	Items []JobView `json:"items"`
}

// NodeView is a node as the API serves it.
type NodeView struct {
	metav1.TypeMeta `json:",inline"`
	// The name and creation time of the node.
	metav1.ObjectMeta `json:"metadata"`
	// Node is how it stands.
	Node Node `json:"node"`
}

// NodeViewList are views of nodes, by name.
type NodeViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	// At is the moment of the answer, Replica the controller that gave it.
	At      metav1.Time `json:"at"`
	Replica string      `json:"replica"`
	// Unread are what whoever asks may not list, so that it is left out.
	Unread []string `json:"unread,omitempty"`
	// Items are the views.
	Items []NodeView `json:"items"`
}

// ServedNode is the view that the API serves of a node.
func ServedNode(n *Node) NodeView {
	return NodeView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeView"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, CreationTimestamp: metav1.NewTime(n.Created)},
		Node:       *n,
	}
}

// Nodes are the nodes of a list that was served; seen is false if the pods on them are not counted.
func (l *NodeViewList) Nodes() (out []Node, seen bool) {
	for i := range l.Items {
		out = append(out, l.Items[i].Node)
	}
	return out, len(l.Unread) == 0
}

// ServedJob is the view that the API serves of a job.
func ServedJob(j *Job) JobView {
	return JobView{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "JobView"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: strings.ToLower(string(j.Kind)) + "." + j.Name, UID: j.UID, CreationTimestamp: metav1.NewTime(j.Created),
		},
		Job: *j,
	}
}

// Jobs are the jobs of a list that was served.
func (l *JobViewList) Jobs() *JobList {
	out := &JobList{Unread: l.Unread, Served: true, Items: make([]Job, len(l.Items))}
	for i := range l.Items {
		out.Items[i] = l.Items[i].Job
		out.Items[i].UID = l.Items[i].UID
	}
	return out
}

// AddToScheme adds the kinds of the API to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(v1alpha1.GroupVersion, &JobView{}, &JobViewList{}, &NodeView{}, &NodeViewList{})
	metav1.AddToGroupVersion(s, v1alpha1.GroupVersion)
	return nil
}
