package e2e_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookURLs are the addresses that the API server calls.
func webhookURLs(t *testing.T) []string {
	t.Helper()
	admin := user(t, "")
	seen := map[string]bool{}
	var out []string
	add := func(url *string) {
		if url != nil && !seen[*url] {
			seen[*url] = true
			out = append(out, *url)
		}
	}
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var kinds apiextensionsv1.CustomResourceDefinitionList
	for _, l := range []client.ObjectList{&validating, &mutating, &kinds} {
		if err := admin.List(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range validating.Items {
		for _, h := range c.Webhooks {
			add(h.ClientConfig.URL)
		}
	}
	for _, c := range mutating.Items {
		for _, h := range c.Webhooks {
			add(h.ClientConfig.URL)
		}
	}
	for _, k := range kinds.Items {
		if c := k.Spec.Conversion; c != nil && c.Webhook != nil {
			add(c.Webhook.ClientConfig.URL)
		}
	}
	return out
}

// endless is a body of spaces, which JSON may begin with.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Any client that reaches the webhooks' port can send them reviews: large ones, to
// fill the controller's memory, and made-up ones, to be told of queues and rights.
// Only the API server is answered.
func TestWebhooksAnswerOnlyTheAPIServer(t *testing.T) {
	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	adminTLS, err := tls.X509KeyPair(cluster.RESTConfig().CertData, cluster.RESTConfig().KeyData)
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true,
		Certificates:       []tls.Certificate{adminTLS},
	}}}
	urls := webhookURLs(t)
	if len(urls) < 5 {
		t.Fatalf("found only the webhooks %v", urls)
	}
	before := controllerMemory(t)
	for _, url := range urls {
		for who, c := range map[string]*http.Client{"an anonymous client": anonymous, "another user of the cluster": other} {
			req, err := http.NewRequestWithContext(
				t.Context(),
				http.MethodPost,
				url,
				io.LimitReader(endless{}, 256<<20),
			)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := c.Do(req)
			if err != nil {
				continue // no connection, or cut off while it sent
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s answers %s: %s %.200s", url, who, resp.Status, said)
			}
		}
	}
	if grown := controllerMemory(t) - before; grown > 64<<20 {
		t.Errorf("the controller grew by %d MiB", grown>>20)
	}
	// The API server still gets its answers: a refusal that only a webhook makes.
	if _, err := tryCreate(
		t,
		user(t, ""),
		"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: own-parent}\nspec: {parentName: own-parent}\n",
		"",
	); err == nil {
		t.Error("a cohort became its own parent: the webhook was not asked")
	}
}

func controllerMemory(t *testing.T) int64 {
	t.Helper()
	all, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, c := range all {
		if c.Name == "controller" {
			sum += c.MemoryBytes
		}
	}
	if sum == 0 {
		t.Fatal("no controller runs")
	}
	return sum
}
