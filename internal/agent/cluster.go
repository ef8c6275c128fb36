package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Cluster is what the agent asks of the API server and tells it.
type Cluster interface { //nolint:interfacebloat // all that the agent may do
	// Node is a node.
	Node(ctx context.Context, name string) (*Node, error)
	// Patch merges something into a node, and fails with ErrConflict if it has changed since it was read.
	Patch(ctx context.Context, name string, patch any) error
	// Holders are pods on a node that have GPUs and have not ended, as NAMESPACE/NAME.
	Holders(ctx context.Context, node string) ([]string, error)
	// Agents are where agents answer, by the names of their nodes.
	Agents(ctx context.Context, namespace string) ([]Peer, error)
	// NodesOf are the nodes that the pods of a job run on, NodesLike those with a label.
	NodesOf(ctx context.Context, namespace, selector string) ([]string, error)
	NodesLike(ctx context.Context, selector string) ([]string, error)
	// CreateClaim makes a claim for a volume on a node, BoundClaim says whether it has one, DeleteClaim removes it.
	CreateClaim(ctx context.Context, c Claim) error
	BoundClaim(ctx context.Context, namespace, name string) (bool, error)
	DeleteClaim(ctx context.Context, namespace, name string) error
	// Who is the user that a token is of, and May whether users may do something.
	Who(ctx context.Context, token string, audiences []string) (*User, error)
	May(ctx context.Context, u *User, what Action) (bool, error)
	// Take has a Lease that there is for some time, if nobody else has it. Give gives it back.
	Take(ctx context.Context, namespace, name, holder string, hold time.Duration) (bool, error)
	Give(ctx context.Context, namespace, name, holder string) error
}

// ErrConflict says that an object has changed since it was read.
var ErrConflict = errors.New("it has changed since it was read")

// ErrMissing says that there is no such object.
var ErrMissing = errors.New("there is none")

// Node is what is read of one.
type Node struct {
	Version     string
	Labels      map[string]string
	Annotations map[string]string
	// GPUs is how many it has for pods.
	GPUs int
}

// Peer is an agent on some node.
type Peer struct {
	Node, Address string
	Ready         bool
}

// Claim is one for a volume.
type Claim struct{ Namespace, Name, Node, Class string }

// User is who asks.
type User struct {
	Name   string              `json:"username"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Action is something that users may do or not: to get or post a path, or to list a resource of a namespace.
type Action struct{ Verb, Path, Resource, Namespace string }

// API is a cluster behind an API server. It knows nothing of kinds but the few fields that it reads: a client for all
// of Kubernetes would be most of the memory of this process.
type API struct {
	base   *url.URL
	client *http.Client
}

// NewAPI connects to nothing yet.
func NewAPI(cfg *rest.Config) (*API, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	return &API{base, client}, nil
}

// call sends a request and reads its answer into what is given, which may be nil.
func (a *API) call(ctx context.Context, verb, path string, query url.Values, body, into any) error {
	const patience, most = 15 * time.Second, 32 << 20
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var data io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write a request: %w", err)
		}
		data = bytes.NewReader(text)
	}
	to := a.base.JoinPath(path)
	to.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, verb, to.String(), data) //nolint:gosec // to the API server
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	if verb == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := a.client.Do(r) //nolint:gosec // to the API server
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		var status struct{ Message string }
		_ = json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&status) // the code says it, too
		err := fmt.Errorf("%s %s: %s %s", verb, path, answer.Status, status.Message)
		switch answer.StatusCode {
		case http.StatusConflict:
			return errors.Join(ErrConflict, err)
		case http.StatusNotFound:
			return errors.Join(ErrMissing, err)
		}
		return err
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(into); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", verb, path, err)
	}
	return nil
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// gpuResource reports whether a resource is GPUs, or parts of them.
func gpuResource(name string) bool {
	return strings.HasPrefix(name, "nvidia.com/gpu") || strings.HasPrefix(name, "nvidia.com/mig-") ||
		name == "amd.com/gpu" || strings.HasPrefix(name, "gpu.intel.com/")
}

// Node reads a node.
func (a *API) Node(ctx context.Context, name string) (*Node, error) {
	var n struct {
		Metadata metadata `json:"metadata"`
		Status   struct {
			Allocatable map[string]string `json:"allocatable"`
		} `json:"status"`
	}
	if err := a.call(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(name), nil, nil, &n); err != nil {
		return nil, err
	}
	out := &Node{
		Version:     n.Metadata.ResourceVersion,
		Labels:      n.Metadata.Labels,
		Annotations: n.Metadata.Annotations,
	}
	for resource, amount := range n.Status.Allocatable {
		if gpuResource(resource) && amount != "0" && amount != "" {
			out.GPUs++
		}
	}
	return out, nil
}

// Patch merges something into a node.
func (a *API) Patch(ctx context.Context, name string, patch any) error {
	return a.call(ctx, http.MethodPatch, "/api/v1/nodes/"+url.PathEscape(name), nil, patch, nil)
}

type container struct {
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

type podList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			NodeName       string      `json:"nodeName"`
			Containers     []container `json:"containers"`
			InitContainers []container `json:"initContainers"`
			Claims         []struct {
				Name string `json:"name"`
			} `json:"resourceClaims"`
		} `json:"spec"`
		Status struct {
			Phase      string `json:"phase"`
			PodIP      string `json:"podIP"`
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// pods calls with each page of a list of pods.
func (a *API) pods(ctx context.Context, path string, query url.Values, with func(*podList)) error {
	query.Set("limit", "200")
	for {
		var list podList
		if err := a.call(ctx, http.MethodGet, path, query, nil, &list); err != nil {
			return err
		}
		with(&list)
		if list.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// Holders are pods on a node that have GPUs. A claim for devices counts as one for GPUs: what is behind it would be
// another question.
func (a *API) Holders(ctx context.Context, node string) ([]string, error) {
	var out []string
	query := url.Values{"fieldSelector": {"spec.nodeName=" + node}}
	err := a.pods(ctx, "/api/v1/pods", query, func(list *podList) {
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
				continue
			}
			held := len(p.Spec.Claims) > 0
			for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
				for _, set := range []map[string]string{c.Resources.Requests, c.Resources.Limits} {
					for resource, amount := range set {
						held = held || gpuResource(resource) && amount != "0"
					}
				}
			}
			if held {
				out = append(out, p.Metadata.Namespace+"/"+p.Metadata.Name)
			}
		}
	})
	return out, err
}

// agentPods are the labels of the DaemonSet's pods.
const agentPods = "app.kubernetes.io/name=mlbatch,app.kubernetes.io/component=agent"

// Agents are where agents answer.
func (a *API) Agents(ctx context.Context, namespace string) ([]Peer, error) {
	var out []Peer
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
	err := a.pods(ctx, path, url.Values{"labelSelector": {agentPods}}, func(list *podList) {
		for i := range list.Items {
			p := &list.Items[i]
			if p.Spec.NodeName == "" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
				continue
			}
			peer := Peer{Node: p.Spec.NodeName, Address: p.Status.PodIP}
			for _, c := range p.Status.Conditions {
				peer.Ready = peer.Ready || c.Type == "Ready" && c.Status == "True"
			}
			out = append(out, peer)
		}
	})
	return out, err
}

// NodesOf are the nodes that pods with some labels run on.
func (a *API) NodesOf(ctx context.Context, namespace, selector string) ([]string, error) {
	var out []string
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
	err := a.pods(ctx, path, url.Values{"labelSelector": {selector}}, func(list *podList) {
		for i := range list.Items {
			if n := list.Items[i].Spec.NodeName; n != "" {
				out = append(out, n)
			}
		}
	})
	return out, err
}

// NodesLike are the nodes with some labels.
func (a *API) NodesLike(ctx context.Context, selector string) ([]string, error) {
	var list struct {
		Items []struct {
			Metadata metadata `json:"metadata"`
		} `json:"items"`
	}
	query := url.Values{"labelSelector": {selector}}
	if err := a.call(ctx, http.MethodGet, "/api/v1/nodes", query, nil, &list); err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Metadata.Name)
	}
	return out, nil
}

func claimPath(namespace, name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/persistentvolumeclaims/" + url.PathEscape(name)
}

// CreateClaim makes a claim. Classes that wait for a pod get to know the node as they would from a scheduler.
func (a *API) CreateClaim(ctx context.Context, c Claim) error {
	spec := map[string]any{
		"accessModes": []string{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]string{"storage": "100Mi"}},
	}
	if c.Class != "" {
		spec["storageClassName"] = c.Class
	}
	return a.call(ctx, http.MethodPost, strings.TrimSuffix(claimPath(c.Namespace, ""), "/"), nil, map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": metadata{
			Name: c.Name,
			Labels: map[string]string{
				"app.kubernetes.io/name":      "mlbatch",
				"app.kubernetes.io/component": "agent",
			},
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": c.Node},
		},
		"spec": spec,
	}, nil)
}

// BoundClaim says whether a claim has its volume.
func (a *API) BoundClaim(ctx context.Context, namespace, name string) (bool, error) {
	var c struct {
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	err := a.call(ctx, http.MethodGet, claimPath(namespace, name), nil, nil, &c)
	return c.Status.Phase == "Bound", err
}

// DeleteClaim removes a claim; one that is not there is no mistake.
func (a *API) DeleteClaim(ctx context.Context, namespace, name string) error {
	err := a.call(ctx, http.MethodDelete, claimPath(namespace, name), nil, nil, nil)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// Who is the user of a token, nil if it is nobody's.
func (a *API) Who(ctx context.Context, token string, audiences []string) (*User, error) {
	review := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]any{"token": token, "audiences": audiences},
	}
	var answer struct {
		Status struct {
			Authenticated bool     `json:"authenticated"`
			User          User     `json:"user"`
			Audiences     []string `json:"audiences"`
		} `json:"status"`
	}
	err := a.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", nil, review, &answer)
	// An API server that knows no audiences answers without any, and such an answer is worth nothing.
	if err != nil || !answer.Status.Authenticated || len(audiences) > 0 && len(answer.Status.Audiences) == 0 {
		return nil, err
	}
	return &answer.Status.User, nil
}

// May asks whether a user may do something.
func (a *API) May(ctx context.Context, u *User, what Action) (bool, error) {
	spec := map[string]any{"user": u.Name, "uid": u.UID, "groups": u.Groups, "extra": u.Extra}
	if what.Path != "" {
		spec["nonResourceAttributes"] = map[string]string{"path": what.Path, "verb": what.Verb}
	} else {
		spec["resourceAttributes"] = map[string]string{
			"verb": what.Verb, "resource": what.Resource, "namespace": what.Namespace,
		}
	}
	var answer struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err := a.call(
		ctx,
		http.MethodPost,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews",
		nil,
		map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
		},
		&answer,
	)
	return err == nil && answer.Status.Allowed, err
}

type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       struct {
		Holder  string `json:"holderIdentity,omitempty"`
		Seconds int    `json:"leaseDurationSeconds,omitempty"`
		Renewed string `json:"renewTime,omitempty"`
	} `json:"spec"`
}

func leasePath(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/leases"
}

const microTime = "2006-01-02T15:04:05.000000Z07:00"

// Take has a Lease that is installed, if nobody else holds it whose time is not over.
func (a *API) Take(ctx context.Context, namespace, name, holder string, hold time.Duration) (bool, error) {
	var l lease
	path := leasePath(namespace) + "/" + url.PathEscape(name)
	if err := a.call(ctx, http.MethodGet, path, nil, nil, &l); err != nil {
		return false, err
	}
	// Who holds it may have been taken over: it is held for no longer than anybody takes it, from now at the latest.
	const skew = time.Minute
	longest := min(time.Duration(l.Spec.Seconds)*time.Second, hold)
	if renewed, bad := time.Parse(microTime, l.Spec.Renewed); bad == nil && l.Spec.Holder != "" &&
		l.Spec.Holder != holder && time.Since(renewed) < longest && time.Until(renewed) < skew {
		return false, nil
	}
	l.APIVersion, l.Kind, l.Metadata.Name = "coordination.k8s.io/v1", "Lease", name
	l.Spec.Holder, l.Spec.Seconds = holder, int(hold.Seconds())
	l.Spec.Renewed = time.Now().UTC().Format(microTime)
	err := a.call(ctx, http.MethodPut, path, nil, &l, nil)
	if errors.Is(err, ErrConflict) {
		return false, nil // another was faster
	}
	return err == nil, err
}

// Give gives a Lease back.
func (a *API) Give(ctx context.Context, namespace, name, holder string) error {
	var l lease
	path := leasePath(namespace) + "/" + url.PathEscape(name)
	if err := a.call(ctx, http.MethodGet, path, nil, nil, &l); err != nil || l.Spec.Holder != holder {
		return err
	}
	l.Spec.Holder = ""
	return a.call(ctx, http.MethodPut, path, nil, &l, nil)
}
