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

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
var errToken = errors.New(
	"the address was used before, is too old, or is not of this page: start mlbatch page again",
)

// TokenLasts is for how long a token is good.
const TokenLasts = 15 * time.Minute

// Once is a token with which one browser may log in.
type Once struct {
	mu    sync.Mutex
	token string // "" once it was used
	until time.Time
}

// NewOnce makes a token.
func NewOnce(now time.Time) *Once { return &Once{token: rand.Text(), until: now.Add(TokenLasts)} }

// Token returns it.
func (o *Once) Token() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.token
}

// LogIn returns how who has the token logs in, as somebody and for so long.
func (o *Once) LogIn(as Viewer, lasts time.Duration, now func() time.Time) func(string) (Viewer, error) {
	return func(token string) (Viewer, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.token == "" || !now().Before(o.until) ||
			subtle.ConstantTimeCompare([]byte(o.token), []byte(token)) != 1 {
			return Viewer{}, errToken
		}
		o.token = ""
		v := as
		v.Until = now().Add(lasts)
		return v, nil
	}
}
