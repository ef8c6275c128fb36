package page

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ByProxy answers everybody as the API server answers the user of a configuration. It fails if that cannot be used.
func ByProxy(cfg *rest.Config) (func(Viewer) http.Handler, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	to, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path})
			r.Out.Host = ""
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, "the API server does not answer: "+err.Error())
		},
	}
	return func(Viewer) http.Handler { return proxy }, nil
}

// WhoAmI is the user of a configuration, as the API server knows it.
func WhoAmI(ctx context.Context, cfg *rest.Config) (string, error) {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	is, err := c.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
	)
	if err != nil {
		return "", err //nolint:wrapcheck // callers say what could not be reached
	}
	return is.Status.UserInfo.Username, nil
}

// errToken is all that is said of a token that is nobody's.
var errToken = errors.New("the address was used before, or is not of this page: ask for a new one where you got it")

// Once are tokens with each of which one browser may log in.
type Once struct {
	mu  sync.Mutex
	all []string
}

// Token returns a new one.
func (o *Once) Token() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := rand.Text()
	o.all = append(o.all, t)
	return t
}

// LogIn returns how who has one of the tokens logs in, as somebody and for so long.
func (o *Once) LogIn(as Viewer, for_ time.Duration, now func() time.Time) func(*http.Request, string) (Viewer, error) {
	return func(_ *http.Request, token string) (Viewer, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for i, t := range o.all {
			if subtle.ConstantTimeCompare([]byte(t), []byte(token)) == 1 {
				o.all = append(o.all[:i], o.all[i+1:]...)
				v := as
				v.Until = now().Add(for_)
				return v, nil
			}
		}
		return Viewer{}, errToken
	}
}
