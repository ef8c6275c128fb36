//go:build !noembed

package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// memberName also stands in etcd's stored membership: never change it.
	memberName = "mlbatch"
	// peerURL is stored as well but nothing listens on it: there are no peers.
	peerURL = "http://localhost:2380"

	// snapshotEvery and keepAfterSnapshot bound how many log entries stay in
	// memory. With one member no other needs to catch up.
	snapshotEvery     = 5000
	keepAfterSnapshot = 500

	// heartbeatMS and electionMS only decide how soon after start the single
	// member elects itself.
	heartbeatMS = 50
	electionMS  = 250

	quotaBytes = 4 << 30

	// slowRequest is when etcd logs a request; without it, it logs all.
	slowRequest = time.Second
)

// runEtcd runs a single-member etcd that only its API server can talk to.
func runEtcd(ctx context.Context, args []string) error {
	cfg, err := etcdConfig(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return fmt.Errorf("run etcd: %w", err)
	case <-e.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func etcdConfig(args []string) (*embed.Config, error) {
	cfg := embed.NewConfig()
	var listen string
	f := flag.NewFlagSet("etcd", flag.ContinueOnError)
	f.StringVar(&cfg.Dir, "data-dir", "", "directory of the database")
	f.StringVar(&listen, "listen", "", "host:port for clients")
	f.StringVar(&cfg.ClientTLSInfo.CertFile, "cert-file", "", "server certificate")
	f.StringVar(&cfg.ClientTLSInfo.KeyFile, "key-file", "", "server key")
	f.StringVar(
		&cfg.ClientTLSInfo.TrustedCAFile,
		"trusted-ca-file",
		"",
		"authority of the clients' certificates",
	)
	f.BoolVar(
		&cfg.UnsafeNoFsync,
		"unsafe-no-fsync",
		false,
		"do not wait for the disk: a crash of the machine may lose data",
	)
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("etcd flags: %w", err)
	}
	client := url.URL{Scheme: "https", Host: listen}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, fmt.Errorf("etcd peer URL: %w", err)
	}
	cfg.Name = memberName
	cfg.ClientTLSInfo.ClientCertAuth = true
	cfg.PeerTLSInfo = transport.TLSInfo{}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.InitialCluster = memberName + "=" + peerURL
	cfg.LogLevel, cfg.LogOutputs = "warn", []string{"stderr"}
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = snapshotEvery, keepAfterSnapshot
	cfg.TickMs, cfg.ElectionMs = heartbeatMS, electionMS
	cfg.QuotaBackendBytes = quotaBytes
	cfg.WarningUnaryRequestDuration = slowRequest
	return cfg, nil
}
