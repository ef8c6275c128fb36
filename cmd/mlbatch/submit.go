package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/slurm"
	"github.com/mlbatch/mlbatch/internal/cli/submit"
	"github.com/mlbatch/mlbatch/internal/words"
)

// submission is what is typed to submit a job.
type submission struct {
	session

	namespace string
	output    string
	dryRun    string
	strict    bool
	// settings are those of this program, slurm those in sbatch's words.
	settings, slurm []submit.Setting
	// attached says that the command stays with the job until it ends.
	attached bool
	// whenOnly has a dry run on the server say when the job would start, in Slurm's words.
	whenOnly bool
}

// setting is a flag that is noted in the order of the command line.
type setting struct {
	option, kind string
	to           *[]submit.Setting
	bare         bool
}

func (s *setting) String() string { return "" }
func (s *setting) Type() string   { return s.kind }
func (s *setting) Set(value string) error {
	if s.bare {
		value = ""
	}
	*s.to = append(*s.to, submit.Setting{Option: s.option, Value: value})
	return nil
}

// addFlags adds the options of jobs, and in sbatch's words options that have no name here.
func (s *submission) addFlags(f *pflag.FlagSet) {
	f.SetInterspersed(false) // what follows the command or the script is theirs
	f.StringVarP(&s.namespace, "namespace", "n", "",
		"`namespace` of the job (default: that of the kubeconfig's context)")
	for _, o := range submit.Options() {
		f.VarP(&setting{option: o.Name, kind: o.Value, to: &s.settings}, o.Name, o.Letter, o.Usage)
	}
	f.StringVarP(&s.output, "output", "o", "", "yaml or json: print the manifest, and create nothing")
	f.StringVar(
		&s.dryRun,
		"dry-run",
		"",
		"client (check only), server (have the API server check it), plan (ask what would become of it): create nothing",
	)
	f.BoolVar(&s.strict, "strict", false, "refuse scripts with lines that are not heeded")
	for _, o := range submit.SlurmOptions() {
		if f.Lookup(o.Long) != nil {
			continue
		}
		letter := o.Letter
		if letter != "" && f.ShorthandLookup(letter) != nil {
			letter = ""
		}
		s.slurmFlag(f, o, letter)
		f.Lookup(o.Long).Hidden = true
	}
}

// command makes a command that submits; cmd has its names, its help and what arguments it takes. A cluster is
// looked for once what was typed is read (cluster), as not all of it needs one.
func (s *submission) command(cmd *cobra.Command, do func(ctx context.Context) error) *cobra.Command {
	return clusterCommand{
		session: &s.session, check: s.check, offline: func() bool { return true }, do: do,
	}.command(cmd)
}

func (s *submission) slurmFlag(f *pflag.FlagSet, o submit.SlurmOption, letter string) {
	v := &setting{option: o.Long, kind: "string", to: &s.slurm, bare: o.Bare}
	f.VarP(v, o.Long, letter, o.Usage)
	f.Lookup(o.Long).Hidden = o.Rare
	if o.Bare {
		v.kind = "bool"
		f.Lookup(o.Long).NoOptDefVal = "true"
	}
}

// check finds mistakes in the command line.
func (s *submission) check() error {
	if !slices.Contains([]string{"", "client", "server", "plan"}, s.dryRun) {
		return fmt.Errorf("--dry-run %s is not known: use client, server or plan", s.dryRun)
	}
	return knownFormat(s.output, "yaml", "json")
}

// cluster connects, and finds out the namespace. Where nothing is created it may fail: there is no client
// then.
func (s *submission) cluster() error {
	locate(s.conn)
	s.namespace = cmp.Or(s.namespace, s.conn.Namespace())
	cfg, err := s.conn.Config()
	if err != nil {
		return err
	}
	if s.namespace == "" {
		return usagef("say in which namespace: -n NAMESPACE")
	}
	printWarnings(cfg, s.errs)
	c, err := newClient(cfg)
	if err == nil {
		s.cfg, s.c = cfg, c
	}
	return err
}

// offline reports whether no cluster is needed.
func (s *submission) offline() bool {
	return s.dryRun != "plan" && s.output != "" || s.dryRun == "client"
}

// fill makes the request of its parts: the profile, what the file says, the command line.
func (s *submission) fill(ctx context.Context, r *submit.Request, file []submit.Setting) error {
	settings, c := slices.Concat(file, s.settings), s.c
	if c != nil {
		all, err := r.AddProfile(ctx, c, s.namespace, settings)
		switch {
		case err == nil:
			settings = all
		case s.offline() && !apierrors.IsForbidden(err) && !named(settings, "profile"):
			fmt.Fprintf(s.errs, "mlbatch: no cluster was asked for a profile: %s\n", harmless(err))
			c = nil
		default:
			return err
		}
	}
	if c == nil && named(settings, "profile") {
		return errors.New("--profile needs a cluster, and none was found")
	}
	if err := r.Apply(submit.ThisHost(), settings); err != nil {
		return usageError{err}
	}
	if c != nil {
		if err := r.ChooseQueue(ctx, c, s.namespace); err != nil {
			return err
		}
		if err := r.CheckPriority(ctx, c); err != nil {
			return err
		}
	}
	if err := r.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func named(settings []submit.Setting, option string) bool {
	return slices.ContainsFunc(settings, func(s submit.Setting) bool { return s.Option == option })
}

// job fills the request in and creates the job, or what was asked for instead; nil if nothing was
// created.
func (s *submission) job(ctx context.Context, r *submit.Request, file []submit.Setting) (*submitted, error) {
	if err := s.cluster(); err != nil {
		if !s.offline() || errors.As(err, new(usageError)) && s.namespace != "" {
			return nil, err
		}
	}
	if err := s.fill(ctx, r, file); err != nil {
		return nil, err
	}
	if len(r.After) > 0 && s.output == "" && s.dryRun == "" {
		if err := s.comesAfter(ctx, r); err != nil {
			return nil, err
		}
	}
	const tries = 4 // a number may be taken
	for try := 1; ; try++ {
		p, err := r.Pack(s.namespace, submit.Number())
		if err != nil {
			return nil, err
		}
		if s.output != "" && s.dryRun != "plan" {
			return nil, s.print(p)
		}
		switch s.dryRun {
		case "plan":
			return nil, s.plan(ctx, p.Job)
		case "client":
			fmt.Fprintf(s.errs, "%s %s is as it should be; nothing was created.\n", kindOf(p.Job), p.Job.GetName())
			return nil, nil
		case "server":
			kind, job := kindOf( //nolint:forcetypeassert // a copy; the answer leaves out the kind
				p.Job,
			), p.Job.DeepCopyObject().(client.Object)
			if err := submit.Create(ctx, client.NewDryRunClient(s.c), p); err != nil {
				return nil, err
			}
			if s.whenOnly {
				return nil, s.when(ctx, job)
			}
			fmt.Fprintf(
				s.errs,
				"The API server would accept %s %s/%s; nothing was created.\n",
				kind,
				p.Job.GetNamespace(),
				p.Job.GetName(),
			)
			return nil, nil
		}
		kind := kindOf(p.Job)
		err = submit.Create(ctx, s.c, p)
		if apierrors.IsAlreadyExists(err) && r.Name == "" && try < tries {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &submitted{p.Job, kind}, nil
	}
}

// comesAfter waits for the jobs that the new one comes after, if somebody stays with it. Otherwise
// those are left in the request that have not ended yet: the cluster waits for them.
func (s *submission) comesAfter(ctx context.Context, r *submit.Request) error {
	if !s.attached {
		left, err := stillRunning(ctx, s.c, s.namespace, r.After)
		r.After = left
		return err
	}
	err := s.stays().after(ctx, s.namespace, r.After)
	r.After = nil
	return err
}

// plan prints what would become of a job.
func (s *submission) plan(ctx context.Context, job client.Object) error {
	p, err := s.planned(ctx, job)
	if err != nil {
		return err
	}
	if s.output != "" {
		return printObject(s.out, s.output, p)
	}
	name := job.GetName()
	if name == "" { // the API server makes one only when the job is created
		name = job.GetGenerateName() + "..."
	}
	name = fmt.Sprintf("%s %s/%s", kindOf(job), job.GetNamespace(), name)
	return cli.PrintPlan(
		s.out,
		name,
		p,
		cli.Style{Width: widthOf(s.out), Kubectl: kubectlHere()},
		tableWidth(s.out),
	)
}

// planned asks what would become of a job.
func (s *submission) planned(ctx context.Context, job client.Object) (*visibility.WorkloadPlan, error) {
	spec, err := submit.PlanOf(job)
	if err != nil {
		return nil, err
	}
	spec.EstimateStart = true
	return cli.Controller{Config: s.cfg}.Plan(ctx, job.GetNamespace(), spec)
}

// when says when a job would start, as sbatch --test-only does.
func (s *submission) when(ctx context.Context, job client.Object) error {
	p, err := s.planned(ctx, job)
	if err == nil {
		fmt.Fprintln(s.errs, slurm.ToStart(job.GetName(), p))
	}
	return err
}

// submitted is a job that was created.
type submitted struct {
	job client.Object
	// kind of the job, which the API server's answer leaves out.
	kind string
}

// stays is who stays with a job.
func (s *submission) stays() *attached {
	return &attached{cfg: s.cfg, c: s.c, in: s.cmd.InOrStdin(), out: s.out, errs: s.errs}
}

func kindOf(o client.Object) string { return o.GetObjectKind().GroupVersionKind().Kind }

// print prints the manifests of a job.
func (s *submission) print(p *submit.Package) error {
	var objects []*unstructured.Unstructured
	for _, o := range p.Objects() {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		delete(raw, "status")
		objects = append(objects, &unstructured.Unstructured{Object: raw})
	}
	return s.printAll(objects)
}

func (s *submission) printAll(objects []*unstructured.Unstructured) error {
	for i, o := range objects {
		if i > 0 && s.output == "yaml" {
			fmt.Fprintln(s.out, "---")
		}
		if err := printObject(s.out, s.output, o.Object); err != nil {
			return err
		}
	}
	return nil
}

// warn prints what is not heeded in a script, or fails because of it.
func (s *submission) warn(warnings []string) error {
	if len(warnings) > 0 && s.strict {
		return usagef("--strict: %s", strings.Join(warnings, "; "))
	}
	for _, w := range warnings {
		fmt.Fprintf(s.errs, "mlbatch: %s\n", words.Harmless(w))
	}
	return nil
}

// newSubmitCommand submits a file.
func newSubmitCommand() *cobra.Command {
	var s submission
	cmd := s.command(&cobra.Command{
		Use:   "submit [flags] FILE [ARG...]",
		Short: "Submit a script, a task file or a manifest, and print the name of the job",
		Long: `Submit a job and print its name. FILE is a script whose lines #SBATCH and #MLBATCH say what
it needs, a task file (YAML with name, resources, nodes, setup, run, env), or manifests of
Kubernetes, whose jobs get a queue if they name none; - is standard input. Arguments after
a script are its own. What the command line says goes before what the file says.

Amounts are those of each node, and a node is a pod.`,
		Example: `  # a script as Slurm has them
  mlbatch submit -n blue --image python:3.12 train.sh --lr 0.1

  # see what would be created
  mlbatch submit -n blue -o yaml task.yaml

  # a manifest of any kind, in a queue
  mlbatch submit -n blue -q default-queue pytorchjob.yaml`,
		Args: cobra.MinimumNArgs(1),
	}, s.file)
	s.addFlags(cmd.Flags())
	return cmd
}

// scriptsOwn are the arguments after a script, without the -- that may be before them. An option of
// submit among them that keeps a job from being made is refused, since without it one would be
// made in silence; others are the script's, which is told, too.
func (s *submission) scriptsOwn(file string, args []string) ([]string, error) {
	flags := s.cmd.Flags()
	if len(args) > 0 && args[0] == "--" {
		return args[1:], nil
	}
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		prints := (name == "-o" || name == "--output") && (value == "yaml" || value == "json")
		if name == "--dry-run" || name == "--strict" || prints {
			return nil, usagef(
				"%s after %s would be an argument of the script, and the job be made: put options of submit before %s, or -- before arguments of a script",
				arg,
				file,
				file,
			)
		}
		if long, is := strings.CutPrefix(
			name,
			"--",
		); is && flags.Lookup(long) != nil &&
			!flags.Lookup(long).Hidden {
			fmt.Fprintf(
				s.errs,
				"mlbatch: %s after %s is the script's: options of submit go before %s; -- before arguments of the script ends this warning\n",
				words.Harmless(arg),
				file,
				file,
			)
		}
	}
	return args, nil
}

// file submits a file of any kind.
func (s *submission) file(ctx context.Context) error {
	name := s.args[0]
	args, err := s.scriptsOwn(name, s.args[1:])
	if err != nil {
		return err
	}
	data, err := readInput(s.cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	if submit.IsManifest(data) {
		return s.manifests(ctx, name, data, args)
	}
	r := submit.New()
	settings, err := s.read(r, name, data, args)
	if err != nil {
		return err
	}
	made, err := s.job(ctx, r, settings)
	if err != nil || made == nil {
		return err
	}
	fmt.Fprintln(s.out, made.job.GetName())
	return nil
}

// read reads a script or a task file into a request.
func (s *submission) read(
	r *submit.Request,
	name string,
	data []byte,
	args []string,
) ([]submit.Setting, error) {
	r.File, r.Command = name, args
	if name == "-" {
		r.File = "job"
	}
	if !strings.HasPrefix(string(data), "#!") &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		if len(args) > 0 {
			return nil, usagef("%s: a task file has no arguments", name)
		}
		settings, err := r.ReadTask(name, data)
		if err != nil {
			return nil, err
		}
		own, remarks, err := submit.FromSlurm(s.slurm)
		if err != nil {
			return nil, usageError{err}
		}
		return append(settings, own...), s.warn(remarks)
	}
	var err error
	if r.Interpreter, err = submit.Interpreter(name, string(data)); err != nil {
		return nil, err
	}
	r.Script = string(data)
	source, err := submit.ReadScript(name, r.Script, s.slurm)
	if err != nil {
		return nil, usageError{err}
	}
	return source.Settings, s.warn(source.Warnings)
}

// readInput reads a file, or standard input if it is called -.
func readInput(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// manifests submits objects of Kubernetes.
func (s *submission) manifests(ctx context.Context, name string, data []byte, args []string) error {
	if len(args) > 0 {
		return usagef("%s: manifests have no arguments", name)
	}
	own, _, err := submit.FromSlurm(s.slurm)
	if err != nil {
		return usageError{err}
	}
	said := append(own, s.settings...)
	for _, x := range said {
		if !slices.Contains(submit.Labelled(), x.Option) {
			return usagef(
				"--%s: a manifest says that itself; only %s can be given for one",
				x.Option,
				"--"+strings.Join(submit.Labelled(), ", --"),
			)
		}
	}
	objects, err := submit.ReadManifests(name, data)
	if err != nil {
		return err
	}
	r := submit.New()
	if err := r.Apply(submit.ThisHost(), said); err != nil {
		return usageError{err}
	}
	err = s.cluster()
	if err == nil {
		err = cmp.Or(r.ChooseQueue(ctx, s.c, s.namespace), r.CheckPriority(ctx, s.c))
	}
	if err != nil && !s.offline() {
		return err
	}
	r.Label(objects, said)
	switch {
	case s.dryRun == "plan":
		return s.plans(ctx, objects)
	case s.output != "":
		return s.printAll(objects)
	case s.dryRun == "client":
		fmt.Fprintf(s.errs, "%s can be read; nothing was created.\n", name)
		return nil
	}
	var options []client.CreateOption
	if s.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	return submit.CreateManifests(ctx, s.c, s.namespace, objects, func(o *unstructured.Unstructured) {
		if s.dryRun == "server" {
			fmt.Fprintf(
				s.errs,
				"The API server would accept %s %s.\n",
				o.GetKind(),
				cmp.Or(o.GetName(), o.GetGenerateName()),
			)
			return
		}
		fmt.Fprintln(s.out, o.GetName())
	}, options...)
}

// plans prints what would become of each job of manifests.
func (s *submission) plans(ctx context.Context, objects []*unstructured.Unstructured) error {
	planned := 0
	for _, o := range objects {
		job, is, err := submit.Typed(o)
		if err != nil || !is {
			if err != nil {
				return err
			}
			continue
		}
		if job.GetNamespace() == "" {
			job.SetNamespace(s.namespace)
		}
		if planned++; planned > 1 {
			fmt.Fprintln(s.out)
		}
		if err := s.plan(ctx, job); err != nil {
			return err
		}
	}
	if planned == 0 {
		return errors.New("there is no job in it that could be planned")
	}
	return nil
}

// newRunCommand runs a command.
func newRunCommand() *cobra.Command {
	var s submission
	var detach bool
	cmd := s.command(&cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command as a job, and stay with it until it ends",
		Long: `Run a command as a job and stay with it: while it waits, say what for; print what its pods
print; and exit as it does. Ctrl-C asks whether to detach from the job or to cancel it, and
detaches when it comes a second time; where there is no terminal it detaches at once.

Amounts are those of each node, and a node is a pod. With several nodes the command runs on
each of them, and variables tell which one it is (MLBATCH_NODE_RANK, MLBATCH_NODES,
MLBATCH_MASTER_ADDR, MLBATCH_GPUS_PER_NODE, and those that Slurm's users know).

Exit code: that of the container that failed first, 0 if none did; 1 if the job could not
be made, or ended otherwise; 2 for a mistake in the command line; 130 after Ctrl-C, if the
job was canceled or nobody could be asked.`,
		Example: `  # one GPU
  mlbatch run -n blue --image python:3.12 --gpus 1 -- python -c 'print("hello")'

  # two nodes with 8 GPUs each, by torchrun; go away once it is submitted
  mlbatch run -n blue --image pytorch/pytorch --nodes 2 --gpus 8 --detach -- torchrun train.py`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context) error {
		s.attached = !detach
		return s.run(ctx)
	})
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the name of the job, and do not stay")
	s.addFlags(cmd.Flags())
	return cmd
}

// run runs what was typed.
func (s *submission) run(ctx context.Context) error {
	r := submit.New()
	r.Command = s.args
	own, remarks, err := submit.FromSlurm(s.slurm)
	if err != nil {
		return usageError{err}
	}
	if err := s.warn(remarks); err != nil {
		return err
	}
	made, err := s.job(ctx, r, own)
	switch {
	case err != nil || made == nil:
		return err
	case s.attached:
		return s.stays().stay(ctx, made.job, made.kind)
	}
	fmt.Fprintln(s.out, made.job.GetName())
	return nil
}
