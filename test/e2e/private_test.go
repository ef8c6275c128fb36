package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listeners are the addresses, in hexadecimal, that a process listens on.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	open := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			open[to] = true
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			const address, state, inode, listening = 1, 3, 9, "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) > inode && fields[state] == listening && open["socket:["+fields[inode]+"]"] {
				out = append(out, fields[address])
			}
		}
		f.Close()
	}
	return out
}

// Nothing of a cluster on a user's machine can be reached from outside.
func TestEverythingListensOnLoopback(t *testing.T) {
	components, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range components {
		for _, address := range listeners(t, c.PID) {
			found++
			const loopback = "0100007F:" // 127.0.0.1, as the kernel writes it on little-endian machines
			if !strings.HasPrefix(address, loopback) {
				t.Errorf("%s listens on %s", c.Name, address)
			}
		}
	}
	if found < 8 {
		t.Errorf("found only %d listeners", found)
	}
}

// Pods of the tutorial's teams get nothing of their nodes.
func TestTeamsGetNoPrivilegedPods(t *testing.T) {
	for name, spec := range map[string]string{
		"host network": "hostNetwork: true, containers: [{name: c, image: busybox}]",
		"privileged":   "containers: [{name: c, image: busybox, securityContext: {privileged: true}}]",
		"host path":    "containers: [{name: c, image: busybox}], volumes: [{name: v, hostPath: {path: /}}]",
	} {
		pod := "{apiVersion: v1, kind: Pod, metadata: {name: intruder}, spec: {" + spec + "}}"
		if _, err := tryCreate(
			t,
			user(t, ""),
			pod,
			"blue",
		); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("a pod with %s in a team's namespace: %v", name, err)
		}
	}
}

// An administrator's limit on the number of objects holds for AppWrappers too.
func TestObjectsCanBeLimited(t *testing.T) {
	admin := user(t, "")
	const namespace = "limited"
	create(t, admin, "{apiVersion: v1, kind: Namespace, metadata: {name: limited}}", "")
	t.Cleanup(func() {
		_ = admin.Delete(withoutCancel(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	})
	const count = "count/appwrappers.workload.codeflare.dev"
	name := create(
		t,
		admin,
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: objects}, spec: {hard: {`+count+`: "1"}}}`,
		namespace,
	)
	eventually(t, "the quota is known", func() string {
		var q corev1.ResourceQuota
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &q); err != nil {
			return err.Error()
		}
		if _, known := q.Status.Hard[count]; !known {
			return fmt.Sprintf("status is %v", q.Status)
		}
		return ""
	})
	create(
		t,
		admin,
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default-queue}, spec: {clusterQueue: blue-cluster-queue}}",
		namespace,
	)
	create(t, admin, wrap(jobManifest), namespace)
	second := strings.Replace(wrap(jobManifest), "name: wrapped", "name: second", 1)
	if _, err := tryCreate(
		t,
		admin,
		second,
		namespace,
	); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("a second AppWrapper where one is allowed: %v", err)
	}
}
