package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// memory of errors in the kernel log: older ones do not count any more, unless they were fatal.
const remembered = 24 * time.Hour

// kernelErrors looks for what NVIDIA's driver wrote into the kernel log.
func kernelErrors(ctx context.Context, r *Run) reading.Outcome {
	if r.KernelLog == "" {
		return reading.Skip("no kernel log is given: --kernel-log")
	}
	text, zone, err := readKernelLog(r.KernelLog)
	if err != nil {
		return reading.Skip("the kernel log cannot be read: " + err.Error())
	}
	now := time.Now()
	records := reading.Kernel(text, bootTime(now), now.In(zone))
	indexes := map[string]string{}
	if tool := r.tool([]string{nvidiaSMI}); tool != "" && len(records) > 0 {
		gpus, _ := r.gpus(tool, r.Tools.Run(ctx, tool, smiArguments(tool, r)...))
		for i := range gpus {
			indexes[gpus[i].Bus] = gpus[i].Index
		}
	}
	return reading.Of(reading.Errors(records, r.Hardware, r.Programs, indexes))
}

// mostLog bounds what is read of a kernel log: its end.
const mostLog = 4 << 20

// readKernelLog is the end of a file, or what a device such as /dev/kmsg still has, and the zone of its
// dates.
func readKernelLog(path string) (string, *time.Location, error) {
	info, err := os.Stat(path) //nolint:gosec // an option of the admin's
	if err != nil {
		return "", time.UTC, err //nolint:wrapcheck // it names the file
	}
	if info.Mode()&os.ModeCharDevice != 0 {
		text, err := readDevice(path)
		return text, time.UTC, err
	}
	f, err := os.Open(path) //nolint:gosec // an option of the admin's
	if err != nil {
		return "", time.UTC, err //nolint:wrapcheck // it names the file
	}
	defer f.Close()
	if over := info.Size() - mostLog; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return "", time.UTC, err //nolint:wrapcheck // it names the file
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, mostLog))
	return string(text), reading.Zone(string(text), info.ModTime()), err //nolint:wrapcheck // it names the file
}

// readDevice is the lines about GPUs that /dev/kmsg still has. Each read is a line; when there is no more the device
// would wait.
func readDevice(path string) (string, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = syscall.Close(fd) }() // it was only read
	var b strings.Builder
	line := make([]byte, 8<<10)
	for b.Len() < mostLog {
		n, err := syscall.Read(fd, line)
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
			continue // lines were overwritten before they were read
		case err != nil || n <= 0:
			return b.String(), nil
		case strings.Contains(string(line[:n]), "Xid"):
			first, _, _ := strings.Cut(string(line[:n]), "\n")
			b.WriteString(first + "\n")
		}
	}
	return b.String(), nil
}

// bootTime is when the system started, as /proc/stat tells it.
func bootTime(now time.Time) time.Time {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return now
	}
	for line := range strings.Lines(string(text)) {
		var seconds int64
		if n, _ := fmt.Sscanf(line, "btime %d", &seconds); n == 1 {
			return time.Unix(seconds, 0)
		}
	}
	return now
}

// Ages of the list of agents: it is kept for a long time, and asked for anew if somebody on it does not answer.
const (
	listed   = 12 * time.Hour
	doubtful = 10 * time.Minute
)

// neighbours are agents on other nodes: those that were asked for, or some at random. All with all would be N² of
// everything.
func (r *Run) neighbours(ctx context.Context) ([]Peer, []string, error) {
	if r.Cluster == nil {
		return nil, nil, errors.New("there is no cluster whose nodes could be asked")
	}
	all, err := r.Agents(ctx, listed)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(all, func(a, b Peer) int { return strings.Compare(a.Node, b.Node) })
	if r.Hosts != nil {
		var out []Peer
		var missing []string
		for _, h := range r.Hosts {
			i := slices.IndexFunc(all, func(p Peer) bool { return p.Node == h && p.Address != "" })
			switch {
			case h == r.Node:
			case i < 0:
				missing = append(missing, h)
			default:
				out = append(out, all[i])
			}
		}
		return out, missing, nil
	}
	// One that is not ready may have been started a moment ago, and says nothing of its node.
	all = slices.DeleteFunc(all, func(p Peer) bool { return p.Node == r.Node || !p.Ready || p.Address == "" })
	for i := range min(len(all), r.Config.Neighbours) {
		j := i + r.Random(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return all[:min(len(all), r.Config.Neighbours)], nil, nil
}

// Network reaches other nodes.
type Network interface {
	// Reach tries to reach an agent some times.
	Reach(ctx context.Context, p Peer) (sent, back int)
	// Speed sends to an agent for a while, and is what it took, in Gbit/s.
	Speed(ctx context.Context, p Peer) (float64, error)
}

// ping tries some other nodes at once. If none of several answers, it is this node that has no network; if some do
// not, they are named, and who judges them has the same from others.
func ping(ctx context.Context, r *Run) reading.Outcome {
	peers, missing, err := r.neighbours(ctx)
	if err != nil {
		return reading.Skip("neighbours cannot be found: " + reading.Readable(err.Error(), 120))
	}
	if len(peers)+len(missing) == 0 {
		return reading.Skip("there is no other node with an agent")
	}
	findings := make([]reading.Finding, len(peers))
	var wait sync.WaitGroup
	for i, p := range peers {
		wait.Go(func() {
			sent, back := r.Network.Reach(ctx, p)
			findings[i] = reading.Reached(p.Node, sent, back)
		})
	}
	wait.Wait()
	peers, findings = r.again(ctx, peers, findings)
	if len(peers)+len(missing) == 0 {
		return reading.Skip("there is no other node with an agent")
	}
	unreached := 0
	for i := range findings {
		if findings[i].Result == health.Warned {
			unreached++
		}
	}
	var absent []reading.Finding
	for _, m := range missing {
		absent = append(absent, reading.Finding{
			Device: m, Result: health.Unknown, Message: "there is no agent on " + m, Value: 1,
		})
	}
	findings = slices.Concat(findings, absent)
	const several = 2
	if unreached == len(peers) && unreached >= several {
		o := reading.Of(findings)
		o.Result, o.Message = health.Failed, fmt.Sprintf("none of %d other nodes answers", unreached)
		return o
	}
	return reading.Of(findings)
}

// again tries those that did not answer where they are by now: the list may be old. Those whose agents are gone or
// not ready say nothing of their nodes, and are left out.
func (r *Run) again(
	ctx context.Context, peers []Peer, findings []reading.Finding,
) (left []Peer, found []reading.Finding) {
	if !slices.ContainsFunc(findings, func(f reading.Finding) bool { return f.Result == health.Warned }) {
		return peers, findings
	}
	all, err := r.Agents(ctx, doubtful)
	if err != nil {
		return peers, findings
	}
	for i, p := range peers {
		f := findings[i]
		if f.Result == health.Warned && r.Hosts == nil {
			at := slices.IndexFunc(all, func(now Peer) bool { return now.Node == p.Node && now.Ready })
			switch {
			case at < 0:
				continue
			case all[at].Address != p.Address:
				sent, back := r.Network.Reach(ctx, all[at])
				f = reading.Reached(p.Node, sent, back)
			}
		}
		left, found = append(left, p), append(found, f)
	}
	return left, found
}

// throughput sends to one neighbour after another.
func throughput(ctx context.Context, r *Run) reading.Outcome {
	peers, missing, err := r.neighbours(ctx)
	if err != nil {
		return reading.Skip("neighbours cannot be found: " + reading.Readable(err.Error(), 120))
	}
	var findings []reading.Finding
	for _, m := range missing {
		findings = append(findings, reading.Finding{
			Device: m, Result: health.Unknown, Message: "there is no agent on " + m,
		})
	}
	for _, p := range peers {
		if ctx.Err() != nil {
			findings = append(findings, reading.Finding{
				Device: p.Node, Result: health.Unknown, Message: "there was no time left for " + p.Node,
			})
			continue
		}
		f := reading.Finding{Device: p.Node, Result: health.Passed}
		if f.Value, err = r.Network.Speed(ctx, p); err != nil {
			f.Result, f.Message = health.Unknown, p.Node+": "+reading.Readable(err.Error(), 100)
		}
		findings = append(findings, f)
	}
	if len(findings) == 0 {
		return reading.Skip("there is no other node with an agent")
	}
	return reading.Of(reading.Straggler(findings, r.Config.SlowPart))
}

// claim asks for a small volume on this node, waits until it is there, and gives it back, whatever happens. The
// claim is named after the pod of this agent, so that one which was left by an agent that died is found again.
func claim(ctx context.Context, r *Run) reading.Outcome {
	if r.Cluster == nil || r.Pod == "" {
		return reading.Skip("it needs a cluster, and the name of the agent's pod")
	}
	c := Claim{Namespace: r.Namespace, Name: r.Pod, Node: r.Node, Class: r.Config.StorageClass}
	if err := r.Cluster.DeleteClaim(ctx, c.Namespace, c.Name); err != nil {
		return reading.Unclear("what an earlier run left cannot be removed: " + reading.Readable(err.Error(), 120))
	}
	if err := r.Cluster.CreateClaim(ctx, c); err != nil {
		return reading.Unclear("the claim cannot be made: " + reading.Readable(err.Error(), 120))
	}
	defer func() {
		// It has to go even if the deadline is what ended the wait.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer stop()
		_ = r.Cluster.DeleteClaim(ctx, c.Namespace, c.Name) // the next run removes it
	}()
	const patience, between = 90 * time.Second, 2 * time.Second
	end := time.Now().Add(patience)
	for {
		bound, err := r.Cluster.BoundClaim(ctx, c.Namespace, c.Name)
		switch {
		case bound:
			return reading.Of([]reading.Finding{{Result: health.Passed}})
		case ctx.Err() != nil:
			return reading.Unclear("it was ended before the volume was there")
		case time.Now().After(end) && err != nil:
			return reading.Unclear("whether the volume is there cannot be told: " + reading.Readable(err.Error(), 100))
		case time.Now().After(end):
			class := "the default storage class"
			if c.Class != "" {
				class = "storage class " + c.Class
			}
			return reading.Of([]reading.Finding{{
				Result: health.Warned, Value: 1,
				Message: fmt.Sprintf("no volume of %s after %s", class, patience),
			}})
		}
		select {
		case <-ctx.Done():
		case <-time.After(between):
		}
	}
}
