package local

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/internal/local/pki"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// Names of files in the pki directory.
const (
	caName         = "ca"
	etcdCAName     = "etcd-ca"
	frontProxyName = "front-proxy-ca"
	signingKeyName = "service-accounts"
)

// identities are the certificates and tokens of a cluster. etcd has an authority of its
// own: a client of the API server must not be able to go around it. So
// have the servers of aggregated APIs: who is vouched for by the front proxy's
// authority may act as any user there.
type identities struct {
	ca, etcdCA        *pki.Authority
	frontProxyCA      *pki.Authority
	frontProxy        pki.Pair
	etcdServer        pki.Pair
	etcdClient        pki.Pair
	apiServer         pki.Pair
	controllerManager pki.Pair
	kubeScheduler     pki.Pair
	kubelets          pki.Pair            // the simulated nodes' as servers
	kubeletClient     pki.Pair            // the API server's as their client
	kubeletOf         map[string]pki.Pair // real nodes' as servers
	signingKey        string
	adminCert         pki.Pair
	tokenOf           map[string]string // of the components
	accounts          map[string]account
	webhookCert       pki.Pair
	prometheus        pki.Pair
}

// account is who a component logs in as.
type account struct {
	user, group string
	onNode      bool // it reaches the API server by the nodes' network
}

// accountsOf are those of the components, with the nodes that there are.
func accountsOf(cfg *Config, h *hardware) map[string]account {
	all := map[string]account{}
	for component, user := range userOf() {
		all[component] = account{user: user}
	}
	if cfg.Parts == Bare {
		delete(all, Controller)
	}
	if cfg.Prometheus != nil {
		all[names.Prometheus] = account{user: prometheusUser}
	}
	if cfg.kubeScheduler() {
		delete(all, Scheduler)
		all[KubeScheduler] = account{user: names.SchedulerUser}
	}
	if h == nil {
		return all
	}
	delete(all, Nodes)
	all[DNSComponent] = account{user: dnsUser, onNode: true}
	all[VolumesComponent] = account{user: volumesUser}
	all[ProxyProgram] = account{user: "system:kube-proxy", onNode: true}
	for _, n := range h.nodes {
		all[layout{}.kubeconfigOn(n.Name)] = account{
			user:   "system:node:" + n.Name,
			group:  "system:nodes",
			onNode: true,
		}
	}
	return all
}

// userOf names the users behind the components. They log in with tokens, as
// processes in a real cluster do: the API server verifies a certificate anew with
// each request, which is a twentieth of its time.
func userOf() map[string]string {
	return map[string]string{
		ControllerManager: "system:kube-controller-manager",
		Scheduler:         names.SchedulerUser,
		Controller:        names.ControllerUser,
		Nodes:             nodesUser,
	}
}

// VisibilityHost is the name that the controller's certificate has for the API
// server: that of the Service in front of the visibility API.
const VisibilityHost = "mlbatch-visibility.mlbatch-system.svc"

const (
	adminUser = "kubernetes-admin"
	// frontProxyUser is the API server as a client of aggregated APIs and webhooks.
	frontProxyUser = "front-proxy-client"
	nodesUser      = "mlbatch-nodes"
	dnsUser        = "mlbatch-dns"
	volumesUser    = "mlbatch-volumes"
	// webhooksUser names the kubeconfig with which the API server calls webhooks.
	webhooksUser = "webhooks"
)

// makeIdentities makes what is missing of a cluster's certificates.
func makeIdentities(l layout, now time.Time, cfg *Config, h *hardware) (*identities, error) {
	for _, d := range []string{l.pki(), l.webhookCerts(), l.path("kubeconfigs"), l.logs(), l.etcd()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
	}
	var id identities
	var err error
	if id.ca, err = pki.Open(l.pki(), caName, now); err != nil {
		return nil, err
	}
	if id.etcdCA, err = pki.Open(l.pki(), etcdCAName, now); err != nil {
		return nil, err
	}
	if id.frontProxyCA, err = pki.Open(l.pki(), frontProxyName, now); err != nil {
		return nil, err
	}
	if id.signingKey, err = pki.SigningKey(l.pki(), signingKeyName); err != nil {
		return nil, err
	}
	hosts := []string{loopback, "localhost"}
	apiHosts := append(
		[]string{apiServiceIP, "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		hosts...)
	if h != nil {
		apiHosts = append(apiHosts, h.subnet.Router())
	}
	issue := func(a *pki.Authority, to *pki.Pair, leaf pki.Leaf) {
		if err == nil {
			*to, err = a.Issue(leaf, now)
		}
	}
	issue(id.etcdCA, &id.etcdServer, pki.Leaf{Name: "etcd", User: "etcd", Hosts: hosts, Usage: pki.Server})
	issue(id.etcdCA, &id.etcdClient, pki.Leaf{Name: "etcd-client", User: APIServer, Usage: pki.Client})
	issue(
		id.frontProxyCA,
		&id.frontProxy,
		pki.Leaf{Name: frontProxyUser, User: frontProxyUser, Usage: pki.Client},
	)
	issue(id.ca, &id.apiServer, pki.Leaf{Name: APIServer, User: APIServer, Hosts: apiHosts, Usage: pki.Server})
	issue(
		id.ca,
		&id.controllerManager,
		pki.Leaf{Name: ControllerManager, User: ControllerManager, Hosts: hosts, Usage: pki.Server},
	)
	if cfg.kubeScheduler() {
		issue(
			id.ca,
			&id.kubeScheduler,
			pki.Leaf{Name: KubeScheduler, User: KubeScheduler, Hosts: hosts, Usage: pki.Server},
		)
	}
	if cfg.Prometheus != nil {
		issue(
			id.ca,
			&id.prometheus,
			pki.Leaf{Name: names.Prometheus, User: prometheusUser, Hosts: hosts, Usage: pki.Server},
		)
	}
	issue(id.ca, &id.kubelets, pki.Leaf{Name: "kubelets", User: "kubelets", Hosts: hosts, Usage: pki.Server})
	issue(
		id.ca,
		&id.kubeletClient,
		pki.Leaf{Name: "kubelet-client", User: simnode.APIServerUser, Usage: pki.Client},
	)
	issue(
		id.ca,
		&id.webhookCert,
		pki.Leaf{
			Name:  "webhook",
			User:  "mlbatch-webhook",
			Hosts: append([]string{VisibilityHost}, hosts...),
			Usage: pki.Server,
		},
	)
	issue(
		id.ca,
		&id.adminCert,
		pki.Leaf{Name: "admin", User: adminUser, Groups: []string{"system:masters"}, Usage: pki.Client},
	)
	if h != nil {
		id.kubeletOf = map[string]pki.Pair{}
		for _, n := range h.nodes {
			var pair pki.Pair
			issue(id.ca, &pair, pki.Leaf{
				Name: "kubelet-" + n.Name, User: "system:node:" + n.Name, Groups: []string{"system:nodes"},
				Hosts: []string{n.Name, h.subnet.Node(n.Index)}, Usage: pki.Server,
			})
			id.kubeletOf[n.Name] = pair
		}
	}
	if err != nil {
		return nil, err
	}
	id.accounts = accountsOf(cfg, h)
	if err := id.makeTokens(l); err != nil {
		return nil, err
	}
	return &id, id.publishWebhookCert(l)
}

// makeTokens makes what is missing of the components' tokens, and the file from
// which the API server knows them.
func (id *identities) makeTokens(l layout) error {
	id.tokenOf = map[string]string{}
	var known strings.Builder
	for _, component := range slices.Sorted(maps.Keys(id.accounts)) {
		who := id.accounts[component]
		token, err := pki.Token(l.pki(), component)
		if err != nil {
			return err
		}
		id.tokenOf[component] = token
		fmt.Fprintf(&known, "%s,%s,%s", token, who.user, who.user)
		if who.group != "" {
			fmt.Fprintf(&known, ",%q", who.group)
		}
		known.WriteString("\n")
	}
	return pki.WriteFile(l.tokens(), []byte(known.String()))
}

// publishWebhookCert puts the webhook's certificate where and as the
// controller expects it.
func (id *identities) publishWebhookCert(l layout) error {
	for from, to := range map[string]string{id.webhookCert.Cert: "tls.crt", id.webhookCert.Key: "tls.key"} {
		b, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("read the webhook's certificate: %w", err)
		}
		if err := pki.WriteFile(l.path("webhook", to), b); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes the administrator's and the components' kubeconfigs. They
// embed what proves who it is, so that the files can be copied.
func (id *identities) writeKubeconfigs(l layout, api int, h *hardware) error {
	cert, err := os.ReadFile(id.adminCert.Cert)
	if err != nil {
		return fmt.Errorf("make kubeconfig of %s: %w", adminUser, err)
	}
	key, err := os.ReadFile(id.adminCert.Key)
	if err != nil {
		return fmt.Errorf("make kubeconfig of %s: %w", adminUser, err)
	}
	admin := clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	if err := id.writeKubeconfig(l.kubeconfig(), adminUser, admin, apiURL(api)); err != nil {
		return err
	}
	for component, token := range id.tokenOf {
		who, server := id.accounts[component], apiURL(api)
		if who.onNode {
			server = h.routerURL()
		}
		if err := id.writeKubeconfig(
			l.kubeconfigOf(component),
			who.user,
			clientcmdapi.AuthInfo{Token: token},
			server,
		); err != nil {
			return err
		}
	}
	return nil
}

func (id *identities) writeKubeconfig(file, user string, proof clientcmdapi.AuthInfo, server string) error {
	const name = "mlbatch"
	cfg := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: server, CertificateAuthorityData: id.ca.PEM()},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: &proof},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}
	b, err := clientcmd.Write(cfg)
	if err != nil {
		return fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	return pki.WriteFile(file, b)
}

// writeWebhookClient writes how the API server proves to mlbatch's webhooks that it
// is the one that asks: with the certificate that it shows to aggregated APIs, to
// the webhooks' address only. The second file tells its admission plugins of the
// first.
func (id *identities) writeWebhookClient(l layout, port int) error {
	b, err := clientcmd.Write(clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{
		address(port): {ClientCertificate: id.frontProxy.Cert, ClientKey: id.frontProxy.Key},
	}})
	if err != nil {
		return fmt.Errorf("make kubeconfig of the webhooks' client: %w", err)
	}
	if err := pki.WriteFile(l.kubeconfigOf(webhooksUser), b); err != nil {
		return err
	}
	const version = "apiserver.config.k8s.io/v1"
	plugin := func(name string) map[string]any {
		return map[string]any{"name": name, "configuration": map[string]any{
			"apiVersion":     version,
			"kind":           "WebhookAdmissionConfiguration",
			"kubeConfigFile": l.kubeconfigOf(webhooksUser),
		}}
	}
	b, err = json.Marshal(map[string]any{
		"apiVersion": version, "kind": "AdmissionConfiguration",
		"plugins": []any{plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")},
	})
	if err != nil {
		return fmt.Errorf("configure admission: %w", err)
	}
	return pki.WriteFile(l.admission(), b)
}

// writeAuditPolicy writes what the API server notes of whom: of each request who made it,
// for what, and what came of it. Bodies are left out, which may hold secrets, and so is what
// Kubernetes and the nodes ask by themselves, which is most.
func (l layout) writeAuditPolicy() error {
	rule := func(level string, about map[string]any) map[string]any {
		about["level"] = level
		return about
	}
	b, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []any{
			rule(
				"None",
				map[string]any{"users": []string{"system:apiserver", userOf()[ControllerManager], nodesUser}},
			),
			rule("None", map[string]any{"userGroups": []string{"system:serviceaccounts:kube-system"}}),
			rule("None", map[string]any{"nonResourceURLs": []string{"/readyz*", "/livez*", "/healthz*"}}),
			rule("Metadata", map[string]any{}),
		},
	})
	if err != nil {
		return fmt.Errorf("make the audit policy: %w", err)
	}
	return pki.WriteFile(l.auditPolicy(), b)
}

func apiURL(port int) string { return "https://" + address(port) }

// adminConfig is a client without a rate limit: the API server's own fairness
// is the limit.
func adminConfig(l layout) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.kubeconfig(), err)
	}
	cfg.QPS = -1
	return cfg, nil
}
