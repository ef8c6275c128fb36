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
	"github.com/mlbatch/mlbatch/internal/words"
)

// podFlags choose one pod of a job.
type podFlags struct {
	job                    jobArg
	role, ranks, container string
}

func (p *podFlags) flags(cmd *cobra.Command) {
	memberFlags(cmd.Flags(), &p.role, &p.ranks, &p.container)
	p.job.flags(cmd.Flags())
}

// pick finds the pod that is meant, and its container.
func (p *podFlags) pick(ctx context.Context, arg string) (*rest.Config, *corev1.Pod, string, error) {
	ranks, err := actions.ParseRanks(p.ranks)
	if err != nil {
		return nil, nil, "", usageError{err}
	}
	ref, err := p.job.ref(arg)
	if err != nil {
		return nil, nil, "", err
	}
	cfg, c, err := connect(&p.job.conn)
	if err != nil {
		return nil, nil, "", err
	}
	target, err := actions.Find(ctx, c, ref)
	if err != nil {
		return nil, nil, "", p.job.conn.Unreachable(err, cfg.Host)
	}
	member, err := actions.Pick(target, p.role, ranks)
	if err != nil {
		return nil, nil, "", err
	}
	container, err := actions.Container(member.Pod, p.container)
	return cfg, member.Pod, container, err
}

// newExecCommand runs commands in pods of jobs.
func newExecCommand() *cobra.Command {
	var p podFlags
	var in, tty bool
	cmd := &cobra.Command{
		Use:   "exec JOB -- COMMAND [ARG...]",
		Short: "Run a command in a pod of a job, that of rank 0 if no other is chosen",
		Long: `Run a command in a pod of a job that runs: that of rank 0, or the one that --role, --rank
or the name of a pod instead of a job's chooses. The exit code is that of the command.`,
		Example: `  # what do the GPUs of rank 0 do?
  mlbatch exec blue/train -- nvidia-smi

  # a shell in a worker
  mlbatch exec -it blue/train --rank worker-1 -- bash`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.job.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usageError{errors.New("say which job, and after -- the command: JOB -- COMMAND")}
			}
			cfg, pod, container, err := p.pick(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			streams := remotecommand.StreamOptions{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Tty: tty}
			if in {
				streams.Stdin = cmd.InOrStdin()
			}
			if tty {
				restore, err := rawTerminal(cmd.InOrStdin(), &streams)
				if err != nil {
					return usageError{err}
				}
				defer restore()
			}
			return interrupted(cmd.Context(), execIn(cmd.Context(), cfg, pod, container, args[1:], streams))
		},
	}
	cmd.Flags().BoolVarP(&in, "stdin", "i", false, "pass on what is typed or piped in")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "the command has a terminal")
	p.flags(cmd)
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

// execIn runs a command in a container. Its exit code, if not 0, is the error's.
func execIn(
	ctx context.Context,
	cfg *rest.Config,
	pod *corev1.Pod,
	container string,
	command []string,
	streams remotecommand.StreamOptions,
) error {
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	at := cs.CoreV1().
		RESTClient().
		Post().
		Resource("pods").
		Namespace(pod.Namespace).
		Name(pod.Name).
		SubResource("exec").
		VersionedParams(
			&corev1.PodExecOptions{
				Container: container,
				Command:   command,
				Stdin:     streams.Stdin != nil,
				Stdout:    streams.Stdout != nil,
				Stderr:    streams.Stderr != nil,
				TTY:       streams.Tty,
			},
			scheme.ParameterCodec,
		).
		URL()
	over, err := remotecommand.NewSPDYExecutor(cfg, http.MethodPost, at)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	sockets, err := remotecommand.NewWebSocketExecutor(cfg, http.MethodGet, at.String())
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	both, err := remotecommand.NewFallbackExecutor(sockets, over, notUpgraded)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	err = both.StreamWithContext(ctx, streams)
	var code remoteexec.CodeExitError
	switch {
	case errors.As(err, &code):
		return exitError{code: code.Code}
	case err != nil:
		return errors.New(plainly(err))
	}
	return nil
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
	var p podFlags
	var addresses []string
	cmd := &cobra.Command{
		Use:   "port JOB [LOCAL:]PORT...",
		Short: "Forward ports of a pod of a job to this machine, of rank 0 if no other is chosen",
		Long: `Forward ports of a pod of a job to this machine until Ctrl-C: dashboards, notebooks,
servers. A port is a number or the name that the pod declares; LOCAL is another number on
this machine, 0 or nothing any that is free.`,
		Example: `  # the dashboard of a Ray cluster, at http://localhost:8265
  mlbatch port blue/ray-cluster 8265

  # on another port here
  mlbatch port blue/ray-cluster 9000:8265`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.job.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, pod, _, err := p.pick(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			ports, err := actions.Ports(pod, args[1:])
			if err != nil {
				return usageError{err}
			}
			return forward(cmd.Context(), cfg, pod, addresses, ports, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(
		&addresses,
		"address",
		[]string{"localhost"},
		"addresses of this machine to listen at",
	)
	p.flags(cmd)
	return cmd
}

// forward forwards ports until ctx ends.
func forward( //nolint:revive // none of them belong together
	ctx context.Context,
	cfg *rest.Config,
	pod *corev1.Pod,
	addresses, ports []string,
	out, errs io.Writer,
) error {
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	at := cs.CoreV1().
		RESTClient().
		Post().
		Resource("pods").
		Namespace(pod.Namespace).
		Name(pod.Name).
		SubResource("portforward").
		URL()
	dialer, err := dialerTo(cfg, at)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	forwarder, err := portforward.NewOnAddresses(
		dialer,
		addresses,
		ports,
		ctx.Done(),
		make(chan struct{}),
		out,
		errs,
	)
	if err != nil {
		return usageError{err}
	}
	if err := forwarder.ForwardPorts(); err != nil && ctx.Err() == nil {
		return errors.New(plainly(err))
	}
	return nil
}

// dialerTo connects to a pod in the newer of two ways that the API server knows.
func dialerTo(cfg *rest.Config, at *url.URL) (oldstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(at, cfg)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialer(sockets, older, notUpgraded), nil
}
