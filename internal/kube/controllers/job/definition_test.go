package job

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// Where the definition of a kind is another program's, which drops what has to be remembered of a
// job, its jobs are held from the first moment, with the reason, and nobody is stopped for them.
// Once it is back they are queued. The API server is asked once each half minute for a kind, and
// stores nothing.
func TestJobsOfReplacedDefinitionsAreHeld(t *testing.T) {
	for _, k := range kinds.All() {
		if k.Operated == nil {
			continue
		}
		t.Run(k.GVK().Kind, func(t *testing.T) {
			replaced, asked := true, 0
			clock := clocktesting.NewFakePassiveClock(now)
			w := kindWorld(t, k, sample(t, &k, 2, "i", false), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}})
			inner, _ := w.c.(client.WithWatch)
			w.r.opts.Clock = clock
			w.r.opts.Client = interceptor.NewClient(inner, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if _, is := o.(*kueue.Workload); is {
					return c.SubResource(sub).Update(ctx, o, opts...)
				}
				asked++
				all := client.SubResourceUpdateOptions{}
				all.ApplyOptions(opts)
				if job, is := o.(jobs.Object); len(all.DryRun) == 0 || all.FieldValidation != "Strict" || !is || k.Operated.Recall(job) == nil {
					t.Errorf("it is not asked whether a memory would be kept: %+v of %T", all, o)
				}
				if replaced {
					return apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`)
				}
				return nil
			}})
			w.settle()
			if why := w.workload().Annotations[kueue.PodsRefusedAnnotation]; !strings.Contains(why, "is not this program's") || !strings.Contains(why, "mlbatch install") {
				t.Fatalf("it is not held: %q", why)
			}
			w.settle()
			if asked != 1 {
				t.Errorf("the API server was asked %d times in a moment", asked)
			}
			replaced = false
			clock.SetTime(now.Add(trialPause))
			w.settle()
			if why := w.workload().Annotations[kueue.PodsRefusedAnnotation]; why != "" {
				t.Errorf("the definition is back, and it is held: %s", why)
			}
			if asked != 2 {
				t.Errorf("the API server was asked %d times", asked)
			}
		})
	}
}

// An AppWrapper around a kind whose definition another program replaced is held as a job of the kind
// by itself is, and queued once the definition is back. One that wraps nothing of the kind, and one
// whose part cannot be asked about, is as ever; what is asked is not stored.
func TestWrappersOfReplacedDefinitionsAreHeld(t *testing.T) {
	const set = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}]}}"
	const plain = "{apiVersion: batch/v1, kind: Job, metadata: {name: other}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"
	for name, tc := range map[string]struct {
		why    string
		parts  string
		answer error
		held   bool
		asked  int
	}{
		"replaced":  {"what has to be remembered of it would be dropped", set, apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`), true, 1},
		"beside":    {"one part that cannot run is enough", plain + "}, {template: " + set, apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`), true, 1},
		"two":       {"it is asked once for a kind", set + "}, {template: " + strings.Replace(set, "name: x", "name: z", 1), apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`), true, 1},
		"none":      {"nobody asks for others", plain, apierrors.NewBadRequest(`strict decoding error: unknown field "status.recovery"`), false, 0},
		"ours":      {"it is read, and refused for its name alone", set, apierrors.NewAlreadyExists(schema.GroupResource{}, "x"), false, 1},
		"forbidden": {"that says nothing", set, apierrors.NewForbidden(schema.GroupResource{}, "x", nil), false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			k := kinds.All().Find(appwrapper.Kind().GVK())
			o := sample(t, k, 2, "i", false)
			if err := yaml.Unmarshal([]byte("{spec: {components: [{template: "+tc.parts+"}]}}"), o); err != nil {
				t.Fatal(err)
			}
			o.SetGeneration(1)
			clock := clocktesting.NewFakePassiveClock(now)
			w := kindWorld(t, *k, o, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}})
			inner, _ := w.c.(client.WithWatch)
			answer, asked := tc.answer, 0
			w.r.opts.Clock = clock
			w.r.opts.Client = interceptor.NewClient(inner, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				part, is := o.(*unstructured.Unstructured)
				if !is {
					return c.Create(ctx, o, opts...)
				}
				asked++
				all := client.CreateOptions{}
				all.ApplyOptions(opts)
				if _, remembers, _ := unstructured.NestedMap(part.Object, "status", "recovery"); len(all.DryRun) == 0 || all.FieldValidation != "Strict" || !remembers || part.GetKind() != "JobSet" {
					t.Errorf("it is not asked whether a memory would be kept: %+v of %v", all, part)
				}
				return answer
			}})
			w.settle()
			if w.workload() == nil {
				t.Fatal("it has no Workload")
			}
			why := w.workload().Annotations[kueue.PodsRefusedAnnotation]
			if held := strings.Contains(why, "the definition of JobSet is not this program's"); held != tc.held {
				t.Fatalf("%s: %q", tc.why, why)
			}
			w.settle()
			if tc.held && asked != tc.asked || tc.asked == 0 && asked > 0 || asked < min(tc.asked, 1) {
				t.Errorf("%s: asked %d times", tc.why, asked)
			}
			answer = nil
			clock.SetTime(now.Add(trialPause))
			w.settle()
			if why := w.workload().Annotations[kueue.PodsRefusedAnnotation]; why != "" {
				t.Errorf("the definition is back, and it is held: %s", why)
			}
		})
	}
}
