package submit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Profiles are ConfigMaps of these names, in the namespace of the job or, for all, in
// ProfileNamespace.
const (
	ProfilePrefix    = "mlbatch-profile-"
	ProfileNamespace = "mlbatch-profiles"
	// defaultProfile is that of those who name none.
	defaultProfile = "default"
	// gpuTypeKey begins keys that say which node label a type of GPUs means.
	gpuTypeKey = "gpu-type."
)

// AddProfile puts the settings of a profile before all others. Of several that are named the last
// one counts; the one called default is used if none is named, and need not exist.
func (r *Request) AddProfile(
	ctx context.Context,
	c client.Reader,
	namespace string,
	settings []Setting,
) ([]Setting, error) {
	name, named := defaultProfile, false
	for _, s := range settings {
		if s.Option == "profile" {
			name, named = s.Value, true
		}
	}
	data, err := readProfile(ctx, c, namespace, name)
	var missing *noProfileError
	if errors.As(err, &missing) && !named {
		return settings, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Setting
	allowed := append(resourceKeys(), "nodes", "env")
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value := strings.TrimSpace(data[key])
		if kind, is := strings.CutPrefix(key, gpuTypeKey); is {
			if r.GPUTypes == nil {
				r.GPUTypes = map[string]string{}
			}
			r.GPUTypes[strings.ToLower(kind)] = value
			continue
		}
		option := find(Options(), key)
		if option == nil || !slices.Contains(allowed, key) || key == "profile" {
			return nil, fmt.Errorf(
				"profile %s: there is no such key %s%s: ask who made the ConfigMap %s%s",
				name,
				key,
				orAll(Closest(key, allowed), allowed),
				ProfilePrefix,
				name,
			)
		}
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, Setting{key, line, "profile " + name})
			}
		}
	}
	r.Profile = name
	return append(out, settings...), nil
}

// noProfileError says that there is no profile of a name.
type noProfileError struct{ name, namespace string }

func (e *noProfileError) Error() string {
	return fmt.Sprintf(
		"--profile %s: there is no ConfigMap %s%s in namespace %s, nor one in %s that you may read",
		e.name,
		ProfilePrefix,
		e.name,
		e.namespace,
		ProfileNamespace,
	)
}

func readProfile(ctx context.Context, c client.Reader, namespace, name string) (map[string]string, error) {
	for _, in := range []string{namespace, ProfileNamespace} {
		var cm corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: in, Name: ProfilePrefix + name}, &cm)
		switch {
		case err == nil:
			return cm.Data, nil
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read profile %s: %w", name, err)
		}
	}
	return nil, &noProfileError{name, namespace}
}
