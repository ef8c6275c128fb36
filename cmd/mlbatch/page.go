package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/page"
)

// sessionLasts is after how long a browser has to log in again.
const sessionLasts = 12 * time.Hour

// newPageCommand serves the page on this machine, with the rights of whoever calls it.
func newPageCommand() *cobra.Command {
	var conn cli.Connection
	port := 0
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Show jobs, queues and nodes in a browser",
		Long: `Serve a page on this machine that shows jobs, queues and nodes as they are, with your own
rights in the cluster, until it is interrupted. It prints the address, with which one browser can
log in within 15 minutes; a session ends after 12 hours. Nothing outside this machine can reach
it, and it changes nothing. Run it on a machine of your own: on one that others use, they could
take your session.`,
		Example: `  # the cluster on this machine
  mlbatch page

  # as somebody, at a port of your choice
  mlbatch page --kubeconfig ~/.kube/config --as alice --port 7080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			locate(&conn)
			cfg, err := conn.Config()
			if err != nil {
				return err
			}
			name, err := page.WhoAmI(cmd.Context(), cfg)
			if err != nil {
				return conn.Unreachable(err, cfg.Host)
			}
			answer, err := page.ByProxy(cfg)
			if err != nil {
				return err
			}
			l, err := (&net.ListenConfig{}).Listen(
				cmd.Context(),
				"tcp",
				net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			)
			if err != nil {
				return fmt.Errorf("--port: %w", err)
			}
			token := page.NewOnce(time.Now())
			is, err := page.New(cmd.Context(), page.Options{
				Answer: answer, Hosts: page.Loopback(l), Clock: clock.RealClock{},
				LogIn: token.LogIn(page.Viewer{Name: name, Cluster: cfg.Host}, sessionLasts, time.Now),
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s/#token=%s\n", l.Addr(), token.Token())
			fmt.Fprintf(
				cmd.ErrOrStderr(),
				"Open it in a browser within %d minutes: it is good for one. Ctrl-C ends the page.\n",
				int(page.TokenLasts.Minutes()),
			)
			server := &http.Server{
				Handler: is, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
				BaseContext: func(net.Listener) context.Context { return cmd.Context() },
			}
			stop := context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
			defer stop()
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the page: %w", err)
			}
			return nil
		},
	}
	connectionFlags(cmd.Flags(), &conn)
	cmd.Flags().IntVar(&port, "port", port, "port of 127.0.0.1 (0: any that is free)")
	return cmd
}
