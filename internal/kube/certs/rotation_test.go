package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	quick = Lifetimes{Authority: 90 * time.Minute, Serving: 30 * time.Minute, Overlap: 4 * time.Minute}
	names = []string{"mlbatch-webhook.mlbatch-system.svc", "127.0.0.1"}
)

// step is Next, which must succeed.
func step(t *testing.T, d Data, now time.Time) (Data, []string) {
	t.Helper()
	next, changes, err := Next(d, names, now, d[Bundle], quick)
	if err != nil {
		t.Fatal(err)
	}
	return next, changes
}

// until steps until a part of the Secret is there.
func until(t *testing.T, d Data, key string, from time.Time) (Data, time.Time) {
	t.Helper()
	for at := from; ; at = at.Add(time.Minute) {
		if at.After(from.Add(quick.Authority)) {
			t.Fatalf("there never is a %s", key)
		}
		if d, _ = step(t, d, at); len(d[key]) > 0 {
			return d, at
		}
	}
}

// trusts reports whether who knows a bundle believes what is served.
func trusts(t *testing.T, bundle, served []byte, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	block, _ := pem.Decode(served)
	if block == nil {
		t.Fatal("no certificate is served")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if _, err := c.Verify(x509.VerifyOptions{DNSName: n, Roots: roots, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// Clients that learned of the authorities within the overlap believe what replicas serve that
// learned of the certificate within the overlap, at any time over many lives of both.
func TestThereIsNoMomentWithoutTrust(t *testing.T) {
	const tick = 20 * time.Second
	late := int(quick.Overlap/tick) - 1
	var history []Data
	var d Data
	authorities := map[string]bool{}
	for i := range int(5 * quick.Authority / tick) {
		now := start.Add(time.Duration(i) * tick)
		d, _ = step(t, d, now)
		if same, changes := step(t, d, now); len(changes) > 0 || !maps.EqualFunc(same, d, bytes.Equal) {
			t.Fatalf("%v: does not come to rest: %v", now, changes)
		}
		history = append(history, d)
		authorities[string(d[signerCert])] = true
		for _, ago := range [][2]int{{0, 0}, {late, 0}, {0, late}, {late, late}, {late / 2, late}} {
			bundle, served := history[max(0, i-ago[0])], history[max(0, i-ago[1])]
			if err := trusts(t, bundle[Bundle], served[ServingCert], now); err != nil {
				t.Fatalf(
					"%v: who looked %v ago does not trust what is served since %v: %v",
					now,
					time.Duration(ago[0])*tick,
					time.Duration(ago[1])*tick,
					err,
				)
			}
		}
		if n := strings.Count(string(d[Bundle]), "BEGIN"); n > 2 {
			t.Fatalf("%v: %d authorities are trusted", now, n)
		}
	}
	if len(authorities) < 6 {
		t.Errorf("only %d authorities signed", len(authorities))
	}
}

// Whatever becomes of the Secret, the next look leaves one that is good, and those who trusted an
// authority that can still be read go on trusting it.
func TestWhatIsLostIsMadeAnew(t *testing.T) {
	good, _ := step(t, nil, start)
	turning, _ := until(t, good, nextCert, start)
	other, _ := step(t, nil, start)
	cases := map[string]struct {
		why string
		d   Data
		// serves is whether what was served before is kept.
		serves bool
	}{
		"Nothing": {"the first start", Data{}, false},
		"Empty":   {"an installer made the Secret", Data{Bundle: nil, ServingCert: {}}, false},
		"Rubbish": {
			"somebody wrote into it",
			Data{Bundle: []byte("x"), ServingCert: []byte("y"), ServingKey: []byte("z"), signerCert: []byte("---")},
			false,
		},
		"NoServingKey": {"a key was taken out", without(good, ServingKey), false},
		"KeyOfAnother": {
			"certificate and key do not belong together",
			with(good, ServingKey, other[ServingKey]),
			false,
		},
		"NoSigner": {"the authority cannot sign any more, and is trusted", without(good, signerKey), true},
		"NoSignerWhileNext": {
			"the next one signs, once it is known",
			without(turning, signerCert, signerKey),
			true,
		},
		"NoBundle": {"it is written again from what signs", without(good, Bundle), true},
		"OnlyServing": {
			"who signed it is not known",
			Data{ServingCert: good[ServingCert], ServingKey: good[ServingKey]},
			false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := start.Add(time.Minute)
			if len(tc.d[nextCert]) > 0 {
				now = issuedIn(t, tc.d[nextCert]).Add(time.Minute)
			}
			got, changes := step(t, tc.d, now)
			if len(changes) == 0 {
				t.Fatalf("%s, and nothing was done", tc.why)
			}
			if err := trusts(t, got[Bundle], got[ServingCert], now); err != nil {
				t.Errorf("%s: %v", tc.why, err)
			}
			if kept := bytes.Equal(got[ServingCert], tc.d[ServingCert]); kept != tc.serves {
				t.Errorf("%s: what was served is served: %v, want %v", tc.why, kept, tc.serves)
			}
			if tc.serves {
				if err := trusts(t, good[Bundle], got[ServingCert], now); err != nil {
					t.Errorf("%s: those who have not looked again are lost: %v", tc.why, err)
				}
			}
		})
	}
}

// After losing the authority, what it signed is served until the new one is known everywhere.
func TestALostAuthorityIsReplacedInTwoSteps(t *testing.T) {
	good, _ := step(t, nil, start)
	lost, _ := step(t, without(good, signerKey), start.Add(time.Minute))
	known := start.Add(time.Minute + quick.Overlap)
	if early, changes := step(
		t,
		lost,
		known.Add(-time.Second),
	); len(changes) > 0 ||
		!bytes.Equal(early[ServingCert], good[ServingCert]) {
		t.Fatalf("changed before the new authority is known: %v", changes)
	}
	then, _ := step(t, lost, known)
	if bytes.Equal(then[ServingCert], good[ServingCert]) {
		t.Error("the new authority signs nothing")
	}
	if err := trusts(t, lost[Bundle], then[ServingCert], known); err != nil {
		t.Errorf("who looked in between does not trust it: %v", err)
	}
}

// As long as nobody could be told of the next authority, the last one signs; it does not matter for
// how long, and certificates are renewed in the meantime.
func TestNoAuthoritySignsThatNobodyWasToldOf(t *testing.T) {
	first, _ := step(t, nil, start)
	d := first
	untold := func(now time.Time) {
		t.Helper()
		next, _, err := Next(d, names, now, first[Bundle], quick)
		if err != nil {
			t.Fatal(err)
		}
		d = next
		if err := trusts(t, first[Bundle], d[ServingCert], now); err != nil {
			t.Fatalf("%v: who was told of the first authority only: %v", now, err)
		}
	}
	end := start.Add(quick.Authority - 2*time.Minute)
	for now := start; now.Before(end); now = now.Add(time.Minute) {
		untold(now)
	}
	if len(d[nextCert]) == 0 {
		t.Fatal("no authority is waiting")
	}
	told, _ := step(t, d, end)
	if bytes.Equal(told[signerCert], first[signerCert]) {
		t.Error("the next authority signs not even when it is known")
	}
	if err := trusts(t, d[Bundle], told[ServingCert], end); err != nil {
		t.Error(err)
	}
}

// A clock that was wrong for a while leaves a Secret that is good, and an authority that is still
// trusted, unless it was wrong by more than the authority had left.
func TestClocksThatJump(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		by   time.Duration
		life time.Duration // of the authority
		kept bool
	}{
		"Seconds":        {"within what a certificate allows for", 10 * time.Second, quick.Authority, true},
		"BackSeconds":    {"it is the same", -10 * time.Second, quick.Authority, true},
		"PastServing":    {"the certificate seems to have ended", 5 * time.Hour, 20 * time.Hour, true},
		"PastRenewal":    {"another authority seems to be due", 61 * time.Minute, quick.Authority, true},
		"PastEverything": {"all seems to have ended", 100 * quick.Authority, quick.Authority, false},
		"Back":           {"nothing seems to be good yet", -100 * quick.Authority, quick.Authority, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := quick
			l.Authority = tc.life
			next := func(d Data, now time.Time) Data {
				t.Helper()
				out, _, err := Next(d, names, now, d[Bundle], l)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			good := next(nil, start)
			d := good
			for i := range 3 {
				d = next(d, start.Add(tc.by+time.Duration(i)*15*time.Second))
			}
			for i := range 3 {
				now := start.Add(time.Duration(i) * 15 * time.Second)
				d = next(d, now)
				if err := trusts(t, d[Bundle], d[ServingCert], now); err != nil {
					t.Fatalf("%s: after the jump: %v", tc.why, err)
				}
				if tc.kept {
					if err := trusts(t, good[Bundle], d[ServingCert], now); err != nil {
						t.Errorf("%s: who trusted before the jump: %v", tc.why, err)
					}
				}
			}
		})
	}
}

// Another name, such as a Service that was renamed, needs another certificate at once.
func TestNamesAreServed(t *testing.T) {
	d, _ := step(t, nil, start)
	next, changes, err := Next(d, append(names, "other.svc"), start.Add(time.Minute), d[Bundle], quick)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0], "other.svc") {
		t.Fatalf("changes %v (%v)", changes, err)
	}
	if !bytes.Equal(next[Bundle], d[Bundle]) {
		t.Error("the authority need not change for that")
	}
}

// An authority vouches for what is served here alone.
func TestAnAuthoritySignsNoOthers(t *testing.T) {
	d, _ := step(t, nil, start)
	c := readCerts(d[Bundle])[0]
	if !c.IsCA || !c.MaxPathLenZero {
		t.Error("it could make further authorities")
	}
	if s := readCerts(d[ServingCert])[0]; s.IsCA || s.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("what is served could sign")
	}
}

func TestLifetimes(t *testing.T) {
	for name, tc := range map[string]struct {
		why string
		l   Lifetimes
		ok  bool
	}{
		"Default":      {"they are good", DefaultLifetimes(), true},
		"Quick":        {"so are short ones", quick, true},
		"NoOverlap":    {"nobody would know of an authority in time", Lifetimes{Authority: time.Hour, Serving: time.Minute}, false},
		"ShortServing": {"it would be over before it is known", Lifetimes{Authority: time.Hour, Serving: 5 * time.Minute, Overlap: time.Minute}, false},
		"ShortCA":      {"it could not sign to the end", Lifetimes{Authority: time.Hour, Serving: time.Hour, Overlap: time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.l.Validate(); (err == nil) != tc.ok {
				t.Errorf("%s: %v", tc.why, err)
			}
		})
	}
}

// Pieces of good Secrets, put together by chance at any time, come to a good one and stay it.
func TestAnyMixtureComesToRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var parts []Data
	var d Data
	for at := start; len(parts) < 8; at = at.Add(time.Minute) {
		next, changes := step(t, d, at)
		if d = next; len(changes) > 0 {
			parts = append(parts, d)
		}
	}
	for range 300 {
		d := Data{}
		for _, key := range keys() {
			if from := parts[rng.IntN(len(parts))]; rng.IntN(5) > 0 && from[key] != nil {
				d[key] = from[key]
			}
		}
		now := start.Add(time.Duration(rng.Int64N(int64(3 * quick.Authority))))
		got, _ := step(t, d, now)
		if err := trusts(t, got[Bundle], got[ServingCert], now); err != nil {
			t.Fatalf("%v: %v", now, err)
		}
		if _, changes := step(t, got, now); len(changes) > 0 {
			t.Fatalf("%v: not at rest: %v", now, changes)
		}
	}
}

func without(d Data, keys ...string) Data {
	out := maps.Clone(d)
	for _, k := range keys {
		delete(out, k)
	}
	return out
}

func with(d Data, key string, value []byte) Data {
	out := maps.Clone(d)
	out[key] = value
	return out
}

func issuedIn(t *testing.T, pemCert []byte) time.Time {
	t.Helper()
	return issued(readCerts(pemCert)[0])
}
