package view

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/api/view/v1alpha1"
)

// Answer is what every list of views says of itself.
// +kubebuilder:object:generate=true
type Answer struct {
	// At is the moment of the answer, Replica the controller that gave it.
	At      metav1.Time `json:"at"`
	Replica string      `json:"replica"`
	// Unread are what whoever asks may not list, so that it is left out.
	Unread []string `json:"unread,omitempty"`
}

// Served reports whether a controller gave it.
func (a *Answer) Served() bool { return !a.At.IsZero() }

// JobView is a job as the API serves it: how it stands, as far as whoever asks may see it. Nothing stores it.
// +kubebuilder:object:root=true
type JobView struct {
	metav1.TypeMeta `json:",inline"`
	// The namespace, UID and creation time of the job. The name is made of the kind and the name of the job, of
	// which together there is one in a namespace: pytorchjob.train.
	metav1.ObjectMeta `json:"metadata"`
	// Job is how it stands.
	Job Job `json:"job"`
}

// JobViewList are views of jobs, the youngest job first.
// +kubebuilder:object:root=true
type JobViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
	// Items are the views.
	Items []JobView `json:"items"`
}

// NodeView is a node as the API serves it.
// +kubebuilder:object:root=true
type NodeView struct {
	metav1.TypeMeta `json:",inline"`
	// The name and creation time of the node.
	metav1.ObjectMeta `json:"metadata"`
	// Node is how it stands.
	Node Node `json:"node"`
}

// NodeViewList are views of nodes, by name.
// +kubebuilder:object:root=true
type NodeViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
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

// DomainView is a rack, a block or another domain of nodes as the API serves it. The name is made of that of the
// Topology, or of "labels", and the values of the levels: default.block-1.rack-3.
// +kubebuilder:object:root=true
type DomainView struct {
	metav1.TypeMeta `json:",inline"`
	// The name.
	metav1.ObjectMeta `json:"metadata"`
	// Domain is how its nodes stand.
	Domain Domain `json:"domain"`
}

// DomainViewList are views of domains, each before those that are in it.
// +kubebuilder:object:root=true
type DomainViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
	// Items are the views.
	Items []DomainView `json:"items"`
}

// Domains are the domains of a list that was served.
func (l *DomainViewList) Domains() (out []Domain) {
	for i := range l.Items {
		out = append(out, l.Items[i].Domain)
	}
	return out
}

// ServedDomain is the view that the API serves of a domain.
func ServedDomain(d *Domain) DomainView {
	name := slices.Concat([]string{cmp.Or(d.Topology, "labels")}, d.Path, []string{d.Name})
	return DomainView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DomainView"},
		ObjectMeta: metav1.ObjectMeta{Name: strings.Join(name, ".")},
		Domain:     *d,
	}
}

// ServedJob is the view that the API serves of a job.
func ServedJob(j *Job) JobView {
	return JobView{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "JobView"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         j.Namespace,
			Name:              strings.ToLower(string(j.Kind)) + "." + j.Name,
			UID:               j.UID,
			CreationTimestamp: metav1.NewTime(j.Created),
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

// QueueView is a ClusterQueue or a Cohort as the API serves it. The name is made of its kind and its name:
// clusterqueue.blue.
// +kubebuilder:object:root=true
type QueueView struct {
	metav1.TypeMeta `json:",inline"`
	// The kind and name.
	metav1.ObjectMeta `json:"metadata"`
	// Queue is how it stands.
	Queue Queue `json:"queue"`
}

// QueueViewList are views of ClusterQueues and Cohorts, by name.
// +kubebuilder:object:root=true
type QueueViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
	// Items are the views.
	Items []QueueView `json:"items"`
}

// Queues are the queues of a list that was served.
func (l *QueueViewList) Queues() (out []Queue) {
	for i := range l.Items {
		out = append(out, l.Items[i].Queue)
	}
	return out
}

// LocalQueueView is a LocalQueue as the API serves it.
// +kubebuilder:object:root=true
type LocalQueueView struct {
	metav1.TypeMeta `json:",inline"`
	// The namespace and name of the LocalQueue.
	metav1.ObjectMeta `json:"metadata"`
	// Queue is how it stands.
	Queue Queue `json:"queue"`
}

// LocalQueueViewList are views of LocalQueues, by namespace and name.
// +kubebuilder:object:root=true
type LocalQueueViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
	// Items are the views.
	Items []LocalQueueView `json:"items"`
}

// Queues are the queues of a list that was served.
func (l *LocalQueueViewList) Queues() (out []Queue) {
	for i := range l.Items {
		out = append(out, l.Items[i].Queue)
	}
	return out
}

// TeamView is a team as the API serves it.
// +kubebuilder:object:root=true
type TeamView struct {
	metav1.TypeMeta `json:",inline"`
	// The name of the team, which is that of its namespace.
	metav1.ObjectMeta `json:"metadata"`
	// Team is how it stands.
	Team Team `json:"team"`
}

// TeamViewList are views of teams, by name.
// +kubebuilder:object:root=true
type TeamViewList struct {
	metav1.TypeMeta `json:",inline"`
	// Where the list goes on, and how many more there are.
	metav1.ListMeta `json:"metadata"`
	Answer          `json:",inline"`
	// Items are the views.
	Items []TeamView `json:"items"`
}

// Teams are the teams of a list that was served.
func (l *TeamViewList) Teams() (out []Team) {
	for i := range l.Items {
		out = append(out, l.Items[i].Team)
	}
	return out
}

// ServedQueue is the view that the API serves of a ClusterQueue or a Cohort.
func ServedQueue(q *Queue) QueueView {
	return QueueView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "QueueView"},
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(q.Kind) + "." + q.Name}, Queue: *q,
	}
}

// ServedLocalQueue is the view that the API serves of a LocalQueue.
func ServedLocalQueue(q *Queue) LocalQueueView {
	return LocalQueueView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LocalQueueView"},
		ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: q.Name}, Queue: *q,
	}
}

// ServedTeam is the view that the API serves of a team.
func ServedTeam(t *Team) TeamView {
	return TeamView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TeamView"},
		ObjectMeta: metav1.ObjectMeta{Name: t.Name}, Team: *t,
	}
}

// AddToScheme adds the kinds of the API to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(
		v1alpha1.GroupVersion,
		&JobView{},
		&JobViewList{},
		&NodeView{},
		&NodeViewList{},
		&DomainView{},
		&DomainViewList{},
		&QueueView{},
		&QueueViewList{},
		&LocalQueueView{},
		&LocalQueueViewList{},
		&TeamView{},
		&TeamViewList{},
	)
	metav1.AddToGroupVersion(s, v1alpha1.GroupVersion)
	return nil
}
