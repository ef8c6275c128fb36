package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Methods of calls. They are the words of HTTP, of which kinds of jobs have no client.
const (
	Get  = "GET"
	Post = "POST"
	Put  = "PUT"
)

// Statuses of answers, in HTTP's numbers; those from Refused on say what was wrong with the
// call, and those from Broken on that its pod could not do it.
const (
	Fine    = 200
	Refused = 400
	Absent  = 404
	Broken  = 500
)

// Call is a question to a pod of a job by HTTP. It is a pod of the job's namespace, by its name,
// and never an address: what a user writes must not decide whom the controller talks to.
type Call struct {
	Pod  string
	Port int32
	// Method is Get for what is asked again and again, and another for what changes something.
	Method, Path string
	// Token is a variable of the pod's first container, the value of which the pod is shown, so
	// that it does what it is asked; "" shows nothing. What else a pod could be shown it might not
	// have: who calls a pod by the right name must not get more than was in it.
	Token string
	// Body is JSON; nil is none.
	Body []byte
	// Every is how long after an answer it is asked again.
	Every time.Duration
	// Once: it is not asked again after it went well, as long as the pod is the same.
	Once bool
}

// Key tells calls of a job apart.
func (c *Call) Key() string {
	sum := sha256.Sum256(c.Body)
	return fmt.Sprintf("%s %s:%d%s %s", c.Method, c.Pod, c.Port, c.Path, hex.EncodeToString(sum[:8]))
}

// Answer is what came of a call.
type Answer struct {
	// Status is that of HTTP; 0 if nobody answered.
	Status int
	Body   []byte
	// Failure is why nobody answered.
	Failure string
	// At is when it was last asked.
	At time.Time
}

// Well reports whether what was asked was done.
func (a Answer) Well() bool {
	return a.Status >= Fine && a.Status < Fine+100
}

// Answers are those to calls of one job, by their keys.
type Answers map[string]Answer

// To returns the answer to a call; false if there is none yet.
func (a Answers) To(c *Call) (Answer, bool) {
	out, known := a[c.Key()]
	return out, known
}
