package simnode

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// hostfile is the file in which mpirun finds its hosts. A pod that gets one from a ConfigMap
// is a launcher: what it runs needs the hosts, so that its time counts from when they are
// all up.
const hostfile = "hostfile"

// byHost indexes pods by what other pods call them.
const byHost = "host"

// hostKey is what a pod is called by others of its namespace.
func hostKey(namespace, host string) string { return namespace + "/" + host }

// hostOf is what a pod calls itself.
func hostOf(pod *corev1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	return pod.Name
}

// hostIndex is by what other pods call a pod.
func hostIndex(o any) ([]string, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return []string{hostKey(p.Namespace, hostOf(p))}, nil
}

// hostList is the ConfigMap that a launcher has its hosts from, and the key there; "" for pods
// that are none.
func hostList(pod *corev1.Pod) (name, key string) {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		for _, item := range v.ConfigMap.Items {
			if item.Path == hostfile {
				return v.ConfigMap.Name, item.Key
			}
		}
	}
	return "", ""
}

// hostsIn are the pods that a hostfile names, without their domains. A line is a host, and
// what follows it, as mpirun of Open MPI, Intel or MPICH reads them.
func hostsIn(text, self string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		host, _, _ := strings.Cut(words[0], ":")
		if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
			continue // no name of a pod
		}
		host, _, _ = strings.Cut(host, ".")
		if host != self && host != "" && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

// Hosts are the hosts that a launcher needs.
type Hosts struct {
	// Missing: not all of them are up.
	Missing bool
	// Since is when the last of them came up; zero if it needs none.
	Since time.Time
}

// upSince is when a pod came up; false if it is not. One that has done what it had to was.
func upSince(pod *corev1.Pod, began map[string]time.Time) (since time.Time, up bool) {
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodSucceeded && !isReady(pod) {
		return time.Time{}, false
	}
	for i := range pod.Status.ContainerStatuses {
		if at := startOf(began, &pod.Status.ContainerStatuses[i]); at.After(since) {
			since = at
		}
	}
	return since, true
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// launcher is a pod that needs hosts.
type launcher struct {
	key   string
	hosts []string // keys of byHost
}

// hostsOf is how far the hosts are that a pod needs. When that changes the pod is looked at
// again.
func (s *simulator) hostsOf(ctx context.Context, pod *corev1.Pod) (Hosts, error) {
	l, err := s.launcherOf(ctx, pod)
	if err != nil {
		return Hosts{}, err
	}
	var out Hosts
	for _, host := range l.hosts {
		since, up := s.hostUp(host)
		out.Missing = out.Missing || !up
		if since.After(out.Since) {
			out.Since = since
		}
	}
	return out, nil
}

// launcherOf is what a pod needs. It is read once: mpirun reads it once, too.
func (s *simulator) launcherOf(ctx context.Context, pod *corev1.Pod) (launcher, error) {
	name, key := hostList(pod)
	if name == "" || ended(pod) {
		return launcher{}, nil
	}
	s.mu.Lock()
	l, known := s.launchers[pod.UID]
	s.mu.Unlock()
	if known {
		return l, nil
	}
	list, err := s.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return launcher{}, nil
	}
	if err != nil {
		return launcher{}, fmt.Errorf("read the hosts of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	l.key = pod.Namespace + "/" + pod.Name
	for _, host := range hostsIn(list.Data[key], hostOf(pod)) {
		l.hosts = append(l.hosts, hostKey(pod.Namespace, host))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launchers[pod.UID] = l
	for _, host := range l.hosts {
		if s.needed[host] == nil {
			s.needed[host] = map[types.UID]string{}
		}
		s.needed[host][pod.UID] = l.key
	}
	return l, nil
}

// hostUp is when a host came up, and whether it did.
func (s *simulator) hostUp(host string) (since time.Time, up bool) {
	pods, err := s.pods.GetIndexer().ByIndex(byHost, host)
	if err != nil {
		return time.Time{}, false
	}
	for _, o := range pods {
		if pod, ok := o.(*corev1.Pod); ok {
			if at, is := upSince(pod, s.startsOf(pod.UID)); is {
				since, up = at, true
			}
		}
	}
	return since, up
}

// forgetLauncher forgets what a pod needed. The caller holds the lock.
func (s *simulator) forgetLauncher(pod types.UID) {
	for _, host := range s.launchers[pod].hosts {
		if delete(s.needed[host], pod); len(s.needed[host]) == 0 {
			delete(s.needed, host)
		}
	}
	delete(s.launchers, pod)
}

// onHost has the launchers looked at that need a pod.
func (s *simulator) onHost() cache.ResourceEventHandlerFuncs {
	look := func(o any) {
		if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = t.Obj
		}
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range s.needed[hostKey(pod.Namespace, hostOf(pod))] {
			s.podQueue.Add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, o any) { look(o) },
		DeleteFunc: look,
	}
}
