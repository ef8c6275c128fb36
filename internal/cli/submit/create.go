package submit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Package is a job as it goes to the cluster.
type Package struct {
	Job client.Object
	// Files is the ConfigMap with its working directory; nil for none.
	Files *corev1.ConfigMap
}

// Objects are those of the package.
func (p *Package) Objects() []client.Object {
	if p.Files == nil {
		return []client.Object{p.Job}
	}
	return []client.Object{p.Job, p.Files}
}

// Pack makes the objects of a request. Its name gets a number, if it has to have one.
func (r *Request) Pack(namespace string, number int) (*Package, error) {
	p := &Package{}
	upload := ""
	if r.Workdir != "" {
		files, err := PackDir(r.Workdir)
		if err != nil {
			return nil, fmt.Errorf("--workdir %s: %w", r.Workdir, err)
		}
		p.Files = files.ConfigMap(namespace)
		upload = p.Files.Name
	}
	var err error
	if p.Job, err = r.Render(namespace, r.NameWith(number), upload); err != nil {
		return nil, err
	}
	if len(r.After) > 0 {
		all := maps.Clone(p.Job.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		all[kueue.AfterAnnotation] = jobs.FormatDependencies(r.After)
		p.Job.SetAnnotations(all)
	}
	return p, nil
}

// Number is one of five digits for the name of a job.
func Number() int {
	const least, most = 10_000, 99_999
	return least + rand.IntN(most-least+1) //nolint:gosec // it need not be secret
}

// ChooseQueue fills in the LocalQueue of a request that names none: the only one of the namespace,
// or the one with the usual name.
func (r *Request) ChooseQueue(ctx context.Context, c client.Reader, namespace string) error {
	var list kueue.LocalQueueList
	err := c.List(ctx, &list, client.InNamespace(namespace))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	switch {
	case apierrors.IsForbidden(err):
		return nil // what is named is taken as it is
	case err != nil:
		return fmt.Errorf("list LocalQueues: %w", err)
	case r.Queue != "" && !slices.Contains(names, r.Queue):
		return fmt.Errorf(
			"--queue %s: there is no LocalQueue of this name in namespace %s%s",
			r.Queue,
			namespace,
			thereAre(names),
		)
	case r.Queue != "":
	case len(names) == 0:
		return fmt.Errorf(
			"namespace %s has no LocalQueue, so nothing could start there: choose another with -n, or ask an administrator for one",
			namespace,
		)
	case len(names) == 1:
		r.Queue = names[0]
	case slices.Contains(names, DefaultQueue):
		r.Queue = DefaultQueue
	case slices.Contains(names, "default"):
		r.Queue = "default"
	default:
		return fmt.Errorf("--queue is missing: namespace %s has several (%s)", namespace, strings.Join(names, ", "))
	}
	return nil
}

// CheckPriority refuses a priority that no WorkloadPriorityClass has: the job would wait for that
// to be made. What the user may not list is taken as it is.
func (r *Request) CheckPriority(ctx context.Context, c client.Reader) error {
	if r.Priority == "" {
		return nil
	}
	var list kueue.WorkloadPriorityClassList
	switch err := c.List(ctx, &list); {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("list WorkloadPriorityClasses: %w", err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Name == r.Priority {
			return nil
		}
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	if err := c.Get(ctx, client.ObjectKey{Name: r.Priority}, &schedulingv1.PriorityClass{}); err == nil {
		return fmt.Errorf(
			"--priority %[1]s: there is no WorkloadPriorityClass of this name, but a PriorityClass of pods: use --pod-priority %[1]s",
			r.Priority,
		)
	}
	return fmt.Errorf(
		"--priority %s: there is no WorkloadPriorityClass of this name%s%s",
		r.Priority,
		thereAre(names),
		podPriorities(ctx, c),
	)
}

// podPriorities names the PriorityClasses of pods that jobs may have, which are given by another
// option.
func podPriorities(ctx context.Context, c client.Reader) string {
	var list schedulingv1.PriorityClassList
	if err := c.List(ctx, &list); err != nil {
		return ""
	}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Name; !strings.HasPrefix(name, "system-") { // these are for Kubernetes itself
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "; --pod-priority takes the PriorityClasses of pods: " + strings.Join(names, ", ")
}

func thereAre(names []string) string {
	if len(names) == 0 {
		return ", nor any other"
	}
	return ": use " + strings.Join(names, ", ")
}

// Create creates a job and what belongs to it, which goes away with it. What cannot be completed is
// taken back.
func Create(ctx context.Context, c client.Client, p *Package) error {
	if err := c.Create(ctx, p.Job); err != nil {
		return refused(err)
	}
	if p.Files == nil {
		return nil
	}
	if err := createFiles(ctx, c, p); err != nil {
		undo := c.Delete(
			context.WithoutCancel(ctx),
			p.Job,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		)
		return errors.Join(err, client.IgnoreNotFound(undo))
	}
	return nil
}

// createFiles creates the ConfigMap with the files of a job, or adds the job to the owners of the
// one that there is: equal files have equal names.
func createFiles(ctx context.Context, c client.Client, p *Package) error {
	gvk, err := apiutil.GVKForObject(p.Job, c.Scheme())
	if err != nil {
		return err
	}
	owner := metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Name:       p.Job.GetName(),
		UID:        p.Job.GetUID(),
	}
	const tries = 5
	for range tries {
		files := p.Files.DeepCopy()
		files.OwnerReferences = []metav1.OwnerReference{owner}
		err = c.Create(ctx, files)
		if !apierrors.IsAlreadyExists(err) {
			break
		}
		var has corev1.ConfigMap
		if err = c.Get(ctx, client.ObjectKeyFromObject(files), &has); err == nil {
			if has.DeletionTimestamp != nil {
				err = apierrors.NewConflict(corev1.Resource("configmaps"), has.Name, errors.New("it is being deleted"))
				continue
			}
			has.OwnerReferences = append(has.OwnerReferences, owner)
			err = c.Update(ctx, &has)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("store the files of --workdir as ConfigMap %s: %w", p.Files.Name, err)
	}
	return nil
}

// refused is an error of the API server in words for those who typed a command.
func refused(err error) error {
	if apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook") {
		return fmt.Errorf("you may not create it: %w", err)
	}
	return err
}
