// Package webhook answers the API server's questions about objects that are
// about to be written: it fills in defaults, refuses nonsense with the field
// and the cure, and converts between the versions of our kinds.
//
// The rules are pure functions in api/ and internal/kube/jobs; this package
// looks up what they need to know of other objects, and knows who asks. What
// the schema can rule is ruled there (defaults of queues, what may change in a
// Workload), because a webhook costs every writer a round trip. For the same
// reason the configurations (see Configurations) carry conditions under which
// the API server does not call at all, above all for the writes of the
// controllers themselves.
package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Options are the choices of an installation.
type Options struct {
	// Schedulers say which scheduler the pods of jobs have.
	Schedulers jobs.Schedulers
	// DefaultQueue is the LocalQueue of jobs of kinds that are only ever queued and
	// that name none; empty gives them none.
	DefaultQueue string
	// Scope says which jobs wait for admission.
	Scope jobs.Scope
	// Limits are what users may ask for in their jobs.
	Limits jobs.Limits
	// Policy is that of AppWrappers without annotations; nil means
	// lifecycle.Defaults.
	Policy *lifecycle.Policy
	// Kinds are the kinds of jobs that there are; nil is kinds.All().
	Kinds jobs.Kinds
	// Frameworks names the kinds of jobs that are queued, see Kind.Framework; nil is
	// all of them. Objects of the others are left as they are.
	Frameworks []string
	// NoDefaultPriorityClass gives jobs that name no WorkloadPriorityClass none,
	// even if one is named default.
	NoDefaultPriorityClass bool
	// NoAdmissionGates ignores the annotation that names the gates of an
	// admission.
	NoAdmissionGates bool
	// WritePodGroups: PodGroups of Kubernetes are written for groups of pods, and these name them.
	WritePodGroups bool
	// Composites: CompositePodGroups of Kubernetes are served, and cached.
	Composites bool
	// Clock tells when a job was created; nil means the real one.
	Clock clock.PassiveClock
	// AllowedKinds are what an AppWrapper may create in a team namespace
	// whatever its author may create directly; nil means DefaultAllowedKinds.
	AllowedKinds []schema.GroupKind
	// Callers say who may call.
	Callers Callers
	// SlackQueue is the ClusterQueue whose lending limits follow the nodes, "" if there is none.
	SlackQueue string
	// Never says which jobs can never start as they are; nil says it of none.
	Never Never
}

// DefaultAllowedKinds are the kinds that users of a team may wrap although they
// may not create all of them directly.
func DefaultAllowedKinds(all jobs.Kinds) []schema.GroupKind {
	var out []schema.GroupKind
	for _, w := range all.Wrappable() {
		out = append(out, w.GVK.GroupKind())
	}
	return out
}

// Register serves the webhooks from the manager's webhook server.
func Register(ctx context.Context, mgr manager.Manager, opts Options) error {
	if opts.Kinds == nil {
		opts.Kinds = kinds.All()
	}
	have, err := newCount(ctx, mgr.GetCache(), opts.Kinds, opts.Scope)
	if err != nil {
		return fmt.Errorf("count jobs: %w", err)
	}
	handlers, err := Handlers(Cluster{
		Scheme: mgr.GetScheme(),
		Cached: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Access: mgr.GetClient(),
		Jobs:   have.in,
		Size:   have.sizeIn,
		Trial:  mgr.GetClient(),
		Mapper: mgr.GetRESTMapper(),
	}, opts)
	if err != nil {
		return err
	}
	for path, handler := range handlers {
		mgr.GetWebhookServer().Register(path, handler)
	}
	return nil
}

// Paths below which the webhooks are served.
const (
	pathValidateClusterQueue   = "/validate-kueue-x-k8s-io-v1beta2-clusterqueue"
	pathValidatePriorityClass  = "/validate-kueue-x-k8s-io-v1beta2-workloadpriorityclass"
	pathValidateCohort         = "/validate-kueue-x-k8s-io-v1beta2-cohort"
	pathValidateLocalQueue     = "/validate-kueue-x-k8s-io-v1beta2-localqueue"
	pathValidateResourceFlavor = "/validate-kueue-x-k8s-io-v1beta2-resourceflavor"
	pathValidateWorkload       = "/validate-kueue-x-k8s-io-v1beta2-workload"
	pathValidateWorkloadKept   = "/validate-kueue-x-k8s-io-v1beta2-workload-kept"
)

// Handlers returns all webhooks by path.
func Handlers(c Cluster, opts Options) (map[string]http.Handler, error) {
	if opts.Kinds == nil {
		opts.Kinds = kinds.All()
	}
	if opts.AllowedKinds == nil {
		opts.AllowedKinds = DefaultAllowedKinds(opts.Kinds)
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Policy == nil {
		opts.Policy = new(lifecycle.Defaults())
	}
	decoder := admission.NewDecoder(c.Scheme)
	queueing := &queueingHandler{decoder: decoder, cluster: c, slack: opts.SlackQueue}
	convert, err := newConverter(c.Scheme)
	if err != nil {
		return nil, fmt.Errorf("set up conversion: %w", err)
	}
	validateQueueing := &admission.Webhook{Handler: admission.HandlerFunc(queueing.validate)}
	handlers := map[string]http.Handler{
		pathConvert: convert,
		pathDisown:  &admission.Webhook{Handler: admission.HandlerFunc(disown)},
		pathStamp:   &admission.Webhook{Handler: admission.HandlerFunc(stamp)},
		pathPin:     &admission.Webhook{Handler: admission.HandlerFunc(pin)},

		pathValidateClusterQueue:   validateQueueing,
		pathValidatePriorityClass:  validateQueueing,
		pathValidateCohort:         validateQueueing,
		pathValidateLocalQueue:     validateQueueing,
		pathValidateResourceFlavor: validateQueueing,
		pathValidateWorkload:       validateQueueing,
		pathValidateWorkloadKept:   &admission.Webhook{Handler: admission.HandlerFunc(queueing.validateKept)},
	}
	for i := range opts.Kinds {
		k := &opts.Kinds[i]
		h := newJobHandler(c, decoder, k, opts)
		handlers[pathOf(mutate, k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.mutate)}
		handlers[pathOf(validate, k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.validate)}
		handlers[pathOf(keep, k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.keep)}
		if k.Queueing.Basis == nil {
			continue
		}
		for j := range k.Queueing.Basis.Kinds {
			b := &basisHandler{h, &k.Queueing.Basis.Kinds[j]}
			if b.basis.Templates == nil || handlers[basisPath(b.basis)] != nil {
				continue // it has no pods, or is that of several kinds
			}
			handlers[basisPath(b.basis)] = &admission.Webhook{Handler: admission.HandlerFunc(b.validate)}
		}
	}
	pods := newPodHandler(newJobHandler(c, decoder, &jobs.Kind{}, opts), opts.pods())
	handlers[pathMutatePod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.mutate)}
	handlers[pathValidatePod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.validate)}
	handlers[pathPlacePod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.place)}
	handlers[pathShareMemory] = &admission.Webhook{Handler: admission.HandlerFunc(pods.share)}
	handlers[pathTellPod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.tell)}
	handlers[pathGroupPod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.group)}
	handlers[pathRestorePod] = &admission.Webhook{Handler: admission.HandlerFunc(pods.restore)}
	handlers[pathValidatePodKept] = &admission.Webhook{Handler: admission.HandlerFunc(pods.validateKept)}
	handlers[pathKeepPart] = &admission.Webhook{Handler: admission.HandlerFunc(pods.keepPart)}
	handlers[pathValidateGrace] = &admission.Webhook{Handler: admission.HandlerFunc(pods.validateGrace)}
	for _, k := range serving.All() {
		h := newServingHandler(newJobHandler(c, decoder, &jobs.Kind{}, opts), &k, opts.Frameworks)
		handlers[servingPath(mutate, &k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.mutate)}
		handlers[servingPath(validate, &k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.validate)}
	}
	for _, k := range serving.Grouped() {
		h := newGroupedHandler(newJobHandler(c, decoder, &jobs.Kind{}, opts), &k, opts.Frameworks)
		handlers[groupedPath(identify, &k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.identify)}
		handlers[groupedPath(mutate, &k)] = &admission.Webhook{Handler: admission.HandlerFunc(signGrouped)}
		handlers[groupedPath(validate, &k)] = &admission.Webhook{Handler: admission.HandlerFunc(h.validate)}
	}
	for path, h := range handlers {
		handlers[path] = opts.Callers.guard(path, h)
	}
	return handlers, nil
}

// pods says which pods are queued by themselves.
func (o *Options) pods() Pods {
	return Pods{
		Off:     o.Frameworks != nil && !slices.Contains(o.Frameworks, podmeta.Framework),
		Parents: o.Frameworks,
	}
}

func newJobHandler(c Cluster, decoder admission.Decoder, k *jobs.Kind, opts Options) *jobHandler {
	return &jobHandler{
		kind:       k,
		counts:     countsAsJob(opts.Kinds, k, opts.Scope),
		makes:      opts.Kinds.Make,
		kinds:      opts.Kinds,
		off:        opts.Frameworks != nil && !slices.Contains(opts.Frameworks, k.Naming.Framework),
		decoder:    decoder,
		cluster:    c,
		clock:      opts.Clock,
		schedulers: opts.Schedulers,

		writesPodGroups: opts.WritePodGroups,
		composites:      opts.Composites,

		defaultQueue: opts.DefaultQueue,
		scope:        opts.Scope,
		limits:       limited{opts.Limits, c.Jobs, c.Size},
		policy:       *opts.Policy,
		gates:        gateRules{off: opts.NoAdmissionGates},
		defaultClass: !opts.NoDefaultPriorityClass,
		passed:       newPassed(opts.Clock),
		allowed:      opts.AllowedKinds,
		never:        opts.Never,
	}
}
