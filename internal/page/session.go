package page

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"

	"k8s.io/utils/clock"
)

// mostSessions and mostStreams bound what those who look may take.
const (
	mostSessions = 1000
	mostStreams  = 4 // of one session: a browser has six connections to a host, and the other requests of a page need some
)

// sessions are those who have logged in. What a browser keeps is a secret; of it only a hash is kept here.
type sessions struct {
	until context.Context //nolint:containedctx // with it, all end
	clock clock.WithTicker
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*session
}

// session of one browser.
type session struct {
	id      string
	viewer  Viewer
	ended   context.Context
	end     context.CancelFunc
	mu      sync.Mutex
	streams int
}

var errFull = errors.New("too many people have logged in: try again later")

func (s *sessions) begin(v Viewer) (*session, error) {
	in := &session{id: rand.Text(), viewer: v}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	if len(s.all) >= mostSessions {
		return nil, errFull
	}
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*session{}
	}
	in.ended, in.end = context.WithCancel(s.until)
	s.all[sha256.Sum256([]byte(in.id))] = in
	return in, nil
}

// tidy ends sessions whose time is over, and their streams.
func (s *sessions) tidy() {
	for id, in := range s.all {
		if !s.clock.Now().Before(in.viewer.Until) {
			in.end()
			delete(s.all, id)
		}
	}
}

// of is the session of an id, nil if there is none any more.
func (s *sessions) of(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	return s.all[sha256.Sum256([]byte(id))]
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.all[sha256.Sum256([]byte(id))]; in != nil {
		in.end()
		delete(s.all, sha256.Sum256([]byte(id)))
	}
}

// context ends with a request and with the session.
func (in *session) context(of context.Context) context.Context {
	ctx, stop := context.WithCancel(of)
	forget := context.AfterFunc(in.ended, stop)
	context.AfterFunc(of, func() {
		forget() // or the session would know of every request that there was
		stop()
	})
	return ctx
}

// open takes one of the streams of the session, and reports whether there was one left.
func (in *session) open() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.streams >= mostStreams {
		return false
	}
	in.streams++
	return true
}

func (in *session) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.streams--
}
