package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// tried answers like a cluster whose API server says something to creations, by
// kind.
func tried(t *testing.T, say map[string]error, a ask) reply {
	t.Helper()
	c := cluster(t, nil, nil, world()...)
	kept := 0
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
				t.Errorf("a trial has some time, and not all that there is: %v", ctx.Err())
			}
			all := client.CreateOptions{}
			all.ApplyOptions(opts)
			if len(all.DryRun) == 0 {
				kept++
			}
			if len(o.GetOwnerReferences()) == 0 && o.GetGenerateName() == "" {
				t.Errorf(
					"%s %s is not tried as it is to be created",
					o.GetObjectKind().GroupVersionKind().Kind,
					o.GetName(),
				)
			}
			return say[o.GetObjectKind().GroupVersionKind().Kind]
		},
	})
	r := send(t, handle(t, c, webhook.Options{}), a)
	if kept > 0 {
		t.Errorf("%d objects were stored", kept)
	}
	return r
}

// What the API server would refuse when the job starts, it refuses when the
// job is submitted.
func TestComponentsAreTried(t *testing.T) {
	good := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	create := ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", podComponent, good)}
	image := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image")
	invalid := apierrors.NewInvalid(
		schema.GroupKind{Group: "batch", Kind: "Job"},
		"j",
		field.ErrorList{
			field.Required(image, ""),
			field.Invalid(field.NewPath("spec", "parallelism"), -4, "must be greater than or equal to 0"),
		},
	)
	cases := map[string]struct {
		why    string
		say    map[string]error
		refuse []string
		warn   string
	}{
		"fine": {"nothing is said", nil, nil, ""},
		"invalid": {
			"in the words of the API server, at the fields of the AppWrapper",
			map[string]error{"Job": invalid},
			[]string{
				"spec.components[1].template.spec.template.spec.containers[0].image: Required value, ",
				"spec.components[1].template.spec.parallelism: Invalid value: -4: must be greater than or equal to 0",
			},
			"",
		},
		"unreadable": {
			"a field of another type",
			map[string]error{"Job": apierrors.NewBadRequest("json: cannot unmarshal")},
			[]string{"spec.components[1].template: Forbidden: json: cannot unmarshal"},
			"",
		},
		"forbidden": {
			"which may change until it starts",
			map[string]error{
				"Pod": apierrors.NewForbidden(
					schema.GroupResource{Resource: "pods"},
					"p",
					errors.New("no ServiceAccount"),
				),
			},
			nil,
			"spec.components[0].template: as things are now, the job could not start",
		},
		"there already": {
			"it may go until then",
			map[string]error{"Job": apierrors.NewAlreadyExists(schema.GroupResource{Resource: "jobs"}, "j")},
			nil,
			"there is a Job j already",
		},
		"cannot be tried": {
			"no user waits for that",
			map[string]error{"Job": fmt.Errorf("trial: %w", context.DeadlineExceeded)},
			nil,
			"could not be tried",
		},
		"webhook of others": {
			"one that does not support trials",
			map[string]error{"Job": apierrors.NewBadRequest("admission webhook x does not support dry run")},
			nil,
			"could not be tried",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := tried(t, tc.say, create)
			if r.Allowed != (len(tc.refuse) == 0) {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
			for _, part := range tc.refuse {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%s: message lacks %q: %s", tc.why, part, r.Message)
				}
			}
			if told := strings.Join(
				r.Warnings,
				"\n",
			); !strings.Contains(told, tc.warn) ||
				(tc.warn == "") != (told == "") {
				t.Errorf("%s: warnings are %q, want one with %q", tc.why, r.Warnings, tc.warn)
			}
		})
	}
}

// A trial has all of its four seconds. One that is cut short under load lets through what can never start.
func TestTrialsHaveTheirTime(t *testing.T) {
	c := cluster(t, nil, nil, world()...)
	var left time.Duration
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			if until, bounded := ctx.Deadline(); bounded {
				left = time.Until(until)
			}
			return nil
		},
	})
	component := `{template: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {containers: [{name: c, image: a}]}}}}}`
	r := send(
		t,
		handle(t, c, webhook.Options{Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))}),
		ask{user: "admin", path: validateWrapper, new: wrapper("blue", queueLabel, "true", component)},
	)
	if !r.Allowed || left <= 3*time.Second || left > 4*time.Second {
		t.Errorf("allowed: %v; it had %s", r.Allowed, left)
	}
}

// The API server does not know the pods of custom resources, so that they are
// tried by themselves.
func TestPodsOfCustomResources(t *testing.T) {
	invalid := apierrors.NewInvalid(
		schema.GroupKind{Kind: "Pod"},
		"p",
		field.ErrorList{field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), "")},
	)
	trainer := `{template: {apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: [{name: c}]}}}}}}}`
	r := tried(
		t,
		map[string]error{"Pod": invalid},
		ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", trainer)},
	)
	if want := "spec.components[0].template.spec.pytorchReplicaSpecs.Master.template.spec.containers[0].image: Required value"; !strings.Contains(
		r.Message,
		want,
	) {
		t.Errorf("the message lacks %q: %s", want, r.Message)
	}
}

// Of many equal jobs only the first of each minute is tried, whatever their
// names; what was refused, or warned about, is tried again.
func TestEqualComponentsAreTriedOnce(t *testing.T) {
	there := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "taken"}}
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := cluster(t, nil, nil, append(world(), there)...)
	trials := 0
	var say error
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			trials++
			return say
		},
	})
	handlers := handle(t, c, webhook.Options{Clock: now})
	job := func(name, image string) string {
		return `{template: {apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `}, spec: {template: {spec: {containers: [{name: c, image: ` + image + `}]}}}}}`
	}
	refused := apierrors.NewInvalid(
		schema.GroupKind{Group: "batch", Kind: "Job"},
		"j",
		field.ErrorList{field.Required(field.NewPath("spec"), "")},
	)
	for _, step := range []struct {
		why             string
		after           time.Duration
		name, component string
		namespace       string
		say             error
		tries           int
		warn            string
		refuse          bool
	}{
		{why: "it is not known yet", name: "w1", component: job("first", "a"), tries: 1},
		{why: "only the names differ", name: "w2", component: job("other", "a")},
		{why: "something else differs", name: "w3", component: job("other", "b"), tries: 1},
		{why: "other rules may hold in another namespace", name: "w4", component: job("other", "a"), namespace: "lab", tries: 1},
		{why: "a longer name may be too long", name: "w5", component: job("much-longer", "a"), tries: 1},
		{why: "so may be the name of the AppWrapper, which labels the pods", name: "w6-longer", component: job("first", "a"), tries: 1},
		{why: "these names passed meanwhile", name: "w6", component: job("much-longer", "a")},
		{why: "not every kind takes such a name", name: "w7", component: job("'1st'", "a"), tries: 1},
		{why: "the name is looked for all the same", name: "w8", component: job("taken", "a"), warn: "there is a Job taken already"},
		{why: "a minute later things may have changed", after: time.Minute + time.Second, name: "w9", component: job("first", "a"), say: refused, tries: 1, refuse: true},
		{why: "what was refused is tried again", name: "w9", component: job("first", "a"), tries: 1},
		{why: "and known from then on", name: "w9", component: job("first", "a")},
		{why: "what was warned about is tried again", name: "w10", component: job("x", "c"), say: apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil), tries: 1, warn: "could not start"},
		{why: "until it passes", name: "w10", component: job("x", "c"), tries: 1},
	} {
		now.SetTime(now.Now().Add(step.after))
		namespace := step.namespace
		if namespace == "" {
			namespace = "blue"
		}
		trials, say = 0, step.say
		r := send(
			t,
			handlers,
			ask{
				user: "admin",
				path: validateWrapper,
				new: strings.Replace(
					wrapper(namespace, queueLabel, "true", step.component),
					"name: w,",
					"name: "+step.name+",",
					1,
				),
			},
		)
		if trials != step.tries {
			t.Errorf("%s %s: %s: tried %d times, want %d", step.name, step.component, step.why, trials, step.tries)
		}
		if told := strings.Join(
			r.Warnings,
			"\n",
		); !strings.Contains(told, step.warn) ||
			(step.warn == "") != (told == "") {
			t.Errorf("%s: %s: warnings are %q, want one with %q", step.name, step.why, r.Warnings, step.warn)
		}
		if r.Allowed == step.refuse {
			t.Errorf("%s: %s: allowed is %v: %s", step.name, step.why, r.Allowed, r.Message)
		}
	}
}

// Right after a queue was made in a namespace, the controller has no rights
// there yet, which is nothing to warn about.
func TestRightsComeAMomentLater(t *testing.T) {
	c := cluster(t, nil, nil, world()...)
	none := apierrors.NewForbidden(
		schema.GroupResource{Group: "batch", Resource: "jobs"},
		"",
		errors.New(
			`User "mlbatch-controller" cannot create resource "jobs" in API group "batch" in the namespace "blue"`,
		),
	)
	quota := apierrors.NewForbidden(
		schema.GroupResource{Group: "batch", Resource: "jobs"},
		"j",
		errors.New("exceeded quota"),
	)
	for name, tc := range map[string]struct {
		why   string
		say   []error // by trial; the last one stays
		warn  string
		tries int
	}{
		"soon":  {"it gets them", []error{none, none, nil}, "", 3},
		"quota": {"waiting does not help", []error{quota}, "exceeded quota", 1},
		"then":  {"with its rights it meets a limit", []error{none, quota}, "exceeded quota", 2},
	} {
		t.Run(name, func(t *testing.T) {
			trials := 0
			c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					trials++
					return tc.say[min(trials, len(tc.say))-1]
				},
			})
			good := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
			r := send(
				t,
				handle(t, c, webhook.Options{}),
				ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", good)},
			)
			if told := strings.Join(
				r.Warnings,
				"\n",
			); !r.Allowed || !strings.Contains(told, tc.warn) ||
				(tc.warn == "") != (told == "") {
				t.Errorf("%s: allowed is %v, warnings are %q, want one with %q", tc.why, r.Allowed, r.Warnings, tc.warn)
			}
			if trials != tc.tries {
				t.Errorf("%s: tried %d times, want %d", tc.why, trials, tc.tries)
			}
		})
	}
}
