package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Controller asks through the API server, with the user's own rights.
type Controller struct{ Config *rest.Config }

// Explanation implements Asker.
func (c Controller) Explanation(
	ctx context.Context,
	namespace, name string,
) (*visibility.Explanation, error) {
	out := &visibility.Explanation{}
	if err := c.get(ctx, out, "namespaces", namespace, "workloads", name, "explanation"); err != nil {
		return nil, fmt.Errorf("ask why %s/%s waits: %w", namespace, name, err)
	}
	return out, nil
}

// Contest implements ContestAsker.
func (c Controller) Contest(
	ctx context.Context,
	namespace, name, against string,
) (*visibility.Explanation, error) {
	out := &visibility.Explanation{}
	if err := c.ask(
		ctx,
		out,
		url.Values{"against": {against}},
		"namespaces",
		namespace,
		"workloads",
		name,
		"explanation",
	); err != nil {
		return nil, fmt.Errorf("ask why %s/%s waits and %s does not: %w", namespace, name, against, err)
	}
	return out, nil
}

// Pending are the workloads that wait in a ClusterQueue or, in a namespace, in a LocalQueue, in
// the order in which they are considered.
func (c Controller) Pending(
	ctx context.Context,
	namespace, queue string,
) ([]visibility.PendingWorkload, error) {
	path := []string{"clusterqueues", queue, "pendingworkloads"}
	if namespace != "" {
		path = []string{"namespaces", namespace, "localqueues", queue, "pendingworkloads"}
	}
	var out visibility.PendingWorkloadsSummary
	if err := c.get(ctx, &out, path...); err != nil {
		return nil, fmt.Errorf("ask what waits in queue %s: %w", queue, err)
	}
	return out.Items, nil
}

// NoQueue says of a question about a queue that failed that the queue is not there, if it is
// not; without a namespace it is a ClusterQueue. Else the error is as it was.
func NoQueue(ctx context.Context, c client.Reader, namespace, name string, asked error) error {
	if missing := (*why.NoWorkloadError)(nil); !errors.As(asked, &missing) {
		if namespace == "" {
			return fmt.Errorf("%w; -n NAMESPACE asks for a LocalQueue", asked)
		}
		return asked
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	switch {
	case namespace == "" && apierrors.IsNotFound(c.Get(ctx, key, &kueue.ClusterQueue{})):
		return fmt.Errorf(
			"there is no ClusterQueue %s: mlbatch queue lists those that there are; -n NAMESPACE asks for a LocalQueue",
			name,
		)
	case namespace != "" && apierrors.IsNotFound(c.Get(ctx, key, &kueue.LocalQueue{})):
		return fmt.Errorf(
			"there is no LocalQueue %s in namespace %s: mlbatch queue -n %s lists those that there are",
			name,
			namespace,
			namespace,
		)
	default:
		return asked
	}
}

// get reads what the controllers serve.
func (c Controller) get(ctx context.Context, into any, path ...string) error {
	return c.ask(ctx, into, nil, path...)
}

// ask reads what the controllers serve, with parameters.
func (c Controller) ask(ctx context.Context, into any, with url.Values, path ...string) error {
	web, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Config.Host, err)
	}
	at := base.JoinPath(append([]string{"apis", visibility.GroupVersion.String()}, path...)...)
	at.RawQuery = with.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	answer, err := web.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return &why.NoWorkloadError{Status: answer.Status}
	case http.StatusForbidden:
		return apierrors.NewForbidden(
			visibility.GroupVersion.WithResource(path[len(path)-1]).GroupResource(),
			path[len(path)-2],
			errors.New(answer.Status),
		)
	default:
		return errors.New(answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
