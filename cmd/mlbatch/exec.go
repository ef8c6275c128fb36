package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	oldstream "k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go takes this one
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	remoteexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// podCommand is a command that works with one pod of a job, as a value. The runner (command) finds the pod.
type podCommand struct {
	session

	job                    jobArg
	role, ranks, container string
	// named is the argument that names the job, which is the first one otherwise.
	named func() string
	// check finds mistakes in what was typed.
	check func() error
	do    func(ctx context.Context, m member) error
}

// member is a pod that was chosen, and the container in it.
type member struct {
	cfg       *rest.Config
	pod       *corev1.Pod
	container string
}

// command makes the command; cmd has its names, its help and what arguments it takes.
func (p *podCommand) command(cmd *cobra.Command) *cobra.Command {
	var ref view.Ref
	var ranks actions.Ranks
	memberFlags(cmd.Flags(), &p.role, &p.ranks, &p.container)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = p.job.complete
	}
	return clusterCommand{
		session: &p.session, job: &p.job,
		check: func() (err error) {
			if p.check != nil {
				if err := p.check(); err != nil {
					return err
				}
			}
			if ranks, err = actions.ParseRanks(p.ranks); err != nil {
				return err
			}
			name := p.args[0]
			if p.named != nil {
				name = p.named()
			}
			ref, err = p.job.ref(name)
			return err
		},
		do: func(ctx context.Context) error {
			target, err := actions.Find(ctx, p.c, ref)
			if err != nil {
				return err
			}
			chosen, err := actions.Pick(target, p.role, ranks)
			if err != nil {
				return err
			}
			container, err := actions.Container(chosen.Pod, p.container)
			if err != nil {
				return err
			}
			return interrupted(ctx, p.do(ctx, member{p.cfg, chosen.Pod, container}))
		},
	}.command(cmd)
}

// newExecCommand runs commands in pods of jobs.
func newExecCommand() *cobra.Command {
	var p podCommand
	var in, tty bool
	p.check = func() error {
		if p.cmd.ArgsLenAtDash() != 1 || len(p.args) < 2 {
			return errors.New("say which job, and after -- the command: JOB -- COMMAND")
		}
		return nil
	}
	p.do = func(ctx context.Context, m member) error {
		streams := remotecommand.StreamOptions{Stdout: p.out, Stderr: p.errs, Tty: tty}
		if in {
			streams.Stdin = p.cmd.InOrStdin()
		}
		if tty {
			restore, err := rawTerminal(p.cmd.InOrStdin(), &streams)
			if err != nil {
				return usageError{err}
			}
			defer restore()
		}
		return m.exec(ctx, p.args[1:], streams)
	}
	cmd := p.command(&cobra.Command{
		Use:   "exec JOB -- COMMAND [ARG...]",
		Short: "Run a command in a pod of a job, that of rank 0 if no other is chosen",
		Long: `Run a command in a pod of a job that runs: that of rank 0, or the one that --role, --rank
or the name of a pod instead of a job's chooses. The exit code is that of the command.`,
		Example: `  # what do the GPUs of rank 0 do?
  mlbatch exec blue/train -- nvidia-smi

  # a shell in a worker
  mlbatch exec -it blue/train --rank worker-1 -- bash`,
		Args: cobra.MinimumNArgs(1),
	})
	cmd.Flags().BoolVarP(&in, "stdin", "i", false, "pass on what is typed or piped in")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "the command has a terminal")
	return cmd
}

// rawTerminal hands the terminal over to a command that runs elsewhere.
func rawTerminal(in io.Reader, streams *remotecommand.StreamOptions) (restore func(), err error) {
	f, is := in.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return nil, errors.New("-t: there is no terminal here; leave it out")
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("-t: %w", err)
	}
	streams.Stderr = nil // it comes through the terminal
	resized := make(chan os.Signal, 1)
	resized <- syscall.SIGWINCH // it has a size from the beginning
	signal.Notify(resized, syscall.SIGWINCH)
	streams.TerminalSizeQueue = &sizes{f, resized}
	return func() {
		signal.Stop(resized)
		close(resized)
		_ = term.Restore(int(f.Fd()), before)
	}, nil
}

// sizes tells the size of a terminal whenever it changes.
type sizes struct {
	terminal *os.File
	resized  <-chan os.Signal
}

// Next waits for the next size; nil is the end.
func (s *sizes) Next() *remotecommand.TerminalSize {
	if _, more := <-s.resized; !more {
		return nil
	}
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{
		Width:  uint16(width),  //nolint:gosec // no terminal is larger
		Height: uint16(height), //nolint:gosec // no terminal is larger
	}
}

// at is where the API server lets a pod be worked with.
func (m *member) at(what string, options *corev1.PodExecOptions) (*url.URL, error) {
	cs, err := kubernetes.NewForConfig(m.cfg)
	if err != nil {
		return nil, err
	}
	r := cs.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(m.pod.Namespace).Name(m.pod.Name).SubResource(what)
	if options != nil {
		r = r.VersionedParams(options, scheme.ParameterCodec)
	}
	return r.URL(), nil
}

// exec runs a command in the container. Its exit code, if not 0, is the error's.
func (m *member) exec(ctx context.Context, command []string, streams remotecommand.StreamOptions) error {
	executor, err := m.executor(&corev1.PodExecOptions{
		Container: m.container,
		Command:   command,
		Stdin:     streams.Stdin != nil,
		Stdout:    streams.Stdout != nil,
		Stderr:    streams.Stderr != nil,
		TTY:       streams.Tty,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", m.cfg.Host, err)
	}
	err = executor.StreamWithContext(ctx, streams)
	var code remoteexec.CodeExitError
	switch {
	case errors.As(err, &code):
		return exitError{code: code.Code}
	case err != nil:
		return errors.New(plainly(err))
	}
	return nil
}

// executor connects to the container in the newer of two ways that the API server knows.
func (m *member) executor(o *corev1.PodExecOptions) (remotecommand.Executor, error) {
	at, err := m.at("exec", o)
	if err != nil {
		return nil, err
	}
	over, err := remotecommand.NewSPDYExecutor(m.cfg, http.MethodPost, at)
	if err != nil {
		return nil, err
	}
	sockets, err := remotecommand.NewWebSocketExecutor(m.cfg, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(sockets, over, notUpgraded)
}

// notUpgraded reports whether an older way to talk to pods is worth an attempt.
func notUpgraded(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) ||
		oldstream.IsUpgradeFailure(err) ||
		oldstream.IsHTTPSProxyError(err)
}

// plainly is what a node said, without how it came here.
func plainly(err error) string {
	text := err.Error()
	for _, before := range []string{"unable to upgrade connection: ", "unable to upgrade streaming request: ", "error dialing backend: "} {
		if _, said, found := strings.Cut(text, before); found {
			text = said
		}
	}
	return words.Harmless(strings.TrimSpace(text))
}

// newPortCommand forwards ports of pods.
func newPortCommand() *cobra.Command {
	var p podCommand
	var addresses []string
	p.do = func(ctx context.Context, m member) error {
		ports, err := actions.Ports(m.pod, p.args[1:])
		if err != nil {
			return usageError{err}
		}
		dialer, err := m.dialer()
		if err != nil {
			return fmt.Errorf("connect to %s: %w", m.cfg.Host, err)
		}
		ready := make(chan struct{})
		forwarder, err := portforward.NewOnAddresses(dialer, addresses, ports, ctx.Done(), ready, p.out, p.errs)
		if err != nil {
			return usageError{err}
		}
		if err := forwarder.ForwardPorts(); err != nil && ctx.Err() == nil {
			return errors.New(plainly(err))
		}
		return nil // it goes on until it is interrupted
	}
	cmd := p.command(&cobra.Command{
		Use:   "port JOB [LOCAL:]PORT...",
		Short: "Forward ports of a pod of a job to this machine, of rank 0 if no other is chosen",
		Long: `Forward ports of a pod of a job to this machine until Ctrl-C: dashboards, notebooks,
servers. A port is a number or the name that the pod declares; LOCAL is another number on
this machine, 0 or nothing any that is free.`,
		Example: `  # the dashboard of a Ray cluster, at http://localhost:8265
  mlbatch port blue/ray-cluster 8265

  # on another port here
  mlbatch port blue/ray-cluster 9000:8265`,
		Args: cobra.MinimumNArgs(1),
	})
	cmd.Flags().StringSliceVar(&addresses, "address", []string{"localhost"},
		"addresses of this machine to listen at")
	return cmd
}

// dialer connects to the pod's ports in the newer of two ways that the API server knows.
func (m *member) dialer() (oldstream.Dialer, error) {
	at, err := m.at("portforward", nil)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(m.cfg)
	if err != nil {
		return nil, err
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(at, m.cfg)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialer(sockets, older, notUpgraded), nil
}
