package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
)

// controllerSettings are the configuration file and the flags that stand for
// fields of it.
type controllerSettings struct {
	file         string
	check        bool
	output       string
	featureGates string

	bindAddress string
	webhookPort int
	certDir     string
	metricsPort int
	healthPort  int
	visibility  int
	leaderElect bool
	namespace   string
	kinds       map[string]string
	modes       map[string]v1beta2.KindMode
}

func (s *controllerSettings) addTo(f *pflag.FlagSet) {
	f.StringVar(&s.file, "config", "", "Kueue configuration `file` (v1beta1 or v1beta2); - reads standard input")
	f.BoolVar(&s.check, "check-config", false, "check the configuration, print what it comes to, and end")
	f.StringVarP(&s.output, "output", "o", "",
		"with --check-config: print the whole configuration as yaml or json")
	f.StringVar(&s.featureGates, "feature-gates", "",
		"Kueue feature gates, NAME=true or NAME=false, separated by commas")
	f.StringVar(&s.bindAddress, "bind-address", "", "address that all ports listen on (default: all)")
	f.IntVar(&s.webhookPort, "webhook-port", v1beta2.DefaultWebhookPort, "port of the webhooks (HTTPS)")
	f.StringVar(
		&s.certDir,
		"webhook-cert-dir",
		"",
		"directory with tls.crt and tls.key of all that is served by HTTPS (default: the controller makes and renews them itself, in the Secret "+v1beta2.DefaultWebhookSecret+")",
	)
	f.IntVar(&s.metricsPort, "metrics-port", 8080, "port of /metrics; 0 turns it off")
	f.IntVar(&s.healthPort, "health-port", 8081, "port of /healthz and /readyz (HTTP); 0 turns it off")
	f.IntVar(&s.visibility, "visibility-port", v1beta2.DefaultVisibilityBindPort,
		"port of the API of pending workloads (HTTPS); 0 turns it off")
	f.BoolVar(&s.leaderElect, "leader-elect", true, "let several controllers run, one of them deciding")
	f.StringToStringVar(
		&s.kinds,
		"kinds",
		nil,
		"what is done with jobs of a kind, as `KIND=MODE,...`: run (the default), queue (another operator runs what is admitted) or ignore",
	)
	f.StringVar(&s.namespace, "namespace", "",
		"namespace of mlbatch's own objects (default: the pod's, or "+v1beta2.DefaultNamespace+")")
}

// resolve reads the file, if there is one, and lays the flags over it.
func (s *controllerSettings) resolve(f *pflag.FlagSet) (*settings.Resolved, error) {
	for _, p := range []struct {
		flag string
		port int
		low  int
	}{{"webhook-port", s.webhookPort, 1}, {"metrics-port", s.metricsPort, 0}, {"health-port", s.healthPort, 0}, {"visibility-port", s.visibility, 0}} {
		if p.port < p.low || p.port > 65535 {
			return nil, usageError{fmt.Errorf("--%s %d: must be between %d and 65535", p.flag, p.port, p.low)}
		}
	}
	if s.output != "" && !s.check {
		return nil, usageError{errors.New("--output goes with --check-config")}
	}
	modes, err := settings.Modes(s.kinds)
	if err != nil {
		return nil, usageError{err}
	}
	s.modes = modes
	file, err := readConfiguration(s.file)
	if err != nil {
		return nil, err
	}
	return settings.Resolve(file, settings.Given{
		FeatureGates: s.featureGates,
		Namespace:    podNamespace(),
		Set:          func(c *v1beta2.Configuration) { s.overlay(f, c) },
	})
}

func readConfiguration(name string) (*settings.File, error) {
	var data []byte
	var err error
	switch name {
	case "":
		return settings.Empty(), nil
	case "-":
		name = "standard input"
		data, err = io.ReadAll(os.Stdin)
	default:
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return settings.Read(name, data)
}

// overlay writes the flags that are given into the configuration.
func (s *controllerSettings) overlay(f *pflag.FlagSet, c *v1beta2.Configuration) {
	if f.Changed("webhook-port") {
		c.Webhook.Port = new(s.webhookPort)
	}
	if f.Changed("webhook-cert-dir") {
		c.Webhook.CertDir = s.certDir
		if c.InternalCertManagement == nil {
			c.InternalCertManagement = &v1beta2.InternalCertManagement{}
		}
		c.InternalCertManagement.Enable = new(s.certDir == "")
	}
	if f.Changed("metrics-port") {
		c.Metrics.BindAddress = onPort(c.Metrics.BindAddress, s.metricsPort)
	}
	if f.Changed("health-port") {
		c.Health.HealthProbeBindAddress = onPort(c.Health.HealthProbeBindAddress, s.healthPort)
	}
	if f.Changed("visibility-port") {
		visibilityOf(c).BindPort = new(int32(s.visibility)) //nolint:gosec // a port
	}
	if f.Changed("bind-address") {
		visibilityOf(c).BindAddress = new(s.bindAddress)
		c.Webhook.Host = s.bindAddress
		c.Metrics.BindAddress = onHost(c.Metrics.BindAddress, s.bindAddress, s.metricsPort)
		c.Health.HealthProbeBindAddress = onHost(c.Health.HealthProbeBindAddress, s.bindAddress, s.healthPort)
	}
	if f.Changed("leader-elect") {
		if c.LeaderElection == nil {
			c.LeaderElection = &v1beta2.LeaderElection{}
		}
		c.LeaderElection.LeaderElect = new(s.leaderElect)
	}
	if len(s.modes) > 0 {
		if c.Integrations == nil {
			c.Integrations = &v1beta2.Integrations{}
		}
		if c.Integrations.Modes == nil {
			c.Integrations.Modes = map[string]v1beta2.KindMode{}
		}
		maps.Copy(c.Integrations.Modes, s.modes)
	}
	if f.Changed("namespace") {
		c.Namespace = new(s.namespace)
	}
}

func visibilityOf(c *v1beta2.Configuration) *v1beta2.VisibilityServer {
	if c.VisibilityServer == nil {
		c.VisibilityServer = &v1beta2.VisibilityServer{}
	}
	return c.VisibilityServer
}

// onPort changes the port of host:port; port 0 is nowhere.
func onPort(address string, port int) string {
	if port == 0 {
		return "0"
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// onHost changes the host of host:port, which keeps its port or, if it is not
// set, has the one given. Nowhere stays nowhere.
func onHost(address, host string, port int) string {
	if address == "0" {
		return address
	}
	p := strconv.Itoa(port)
	if _, have, err := net.SplitHostPort(address); err == nil {
		p = have
	}
	return net.JoinHostPort(host, p)
}

// podNamespace is the namespace that the process runs in, "" outside a pod.
func podNamespace() string {
	b, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// print says what the configuration comes to.
func (s *controllerSettings) print(cmd *cobra.Command, resolved *settings.Resolved) error {
	for _, n := range resolved.Notices {
		where := ""
		if n.Line > 0 && s.file != "" {
			where = fmt.Sprintf("%s:%d: ", s.file, n.Line)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s%s\n", where, n)
	}
	b, err := yaml.Marshal(resolved.Configuration)
	if err == nil && s.output == "json" {
		b, err = yaml.YAMLToJSON(b)
		b = append(b, '\n')
	}
	switch {
	case err != nil:
		return fmt.Errorf("print configuration: %w", err)
	case s.output == "":
		fmt.Fprintln(cmd.OutOrStdout(), "The configuration is valid.")
	case s.output == "yaml", s.output == "json":
		_, err = cmd.OutOrStdout().Write(b)
	default:
		return usageError{fmt.Errorf("-o %s: must be yaml or json", s.output)}
	}
	return err
}
