package webhook_test

import (
	"context"
	"strings"
	"testing"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestToldOfWhatCannotStart: whoever submits a job of any kind that could never start is told why,
// once for what it asks, and is not refused.
func TestToldOfWhatCannotStart(t *testing.T) {
	const why = "a pod is larger than any of the 3 node(s)"
	podJob := strings.Replace(jobComponent, "CLASS", "default-priority", 1)
	larger := strings.Replace(
		job(queueLabel, "", isWaiting),
		"containers: [{",
		"terminationGracePeriodSeconds: 5, containers: [{",
		1,
	)
	owned := strings.Replace(
		job(queueLabel, "", isWaiting),
		"metadata: {",
		"metadata: {ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}], ",
		1,
	)
	for name, tc := range map[string]struct {
		why  string
		ask  ask
		kind string // "" if nothing is told
		sets int
	}{
		"Job":             {"it asks for pods", ask{path: validateJob, new: job(queueLabel, "", isWaiting)}, "Job", 1},
		"AppWrapper":      {"it has components", ask{path: validateWrapper, new: wrapper("blue", queueLabel, "true", podJob)}, "AppWrapper", 1},
		"LeaderWorkerSet": {"a group of it", ask{path: validateSet, new: setText(queueLabel, "", "")}, "LeaderWorkerSet", 2},
		"Deployment":      {"each pod of it", ask{path: "/validate-apps-v1-deployment", new: deploymentText("Deployment", "blue", queueLabel, "", "")}, "Deployment", 1},
		"Pod":             {"it is queued by itself", ask{path: validatePod, new: podText("blue", queueLabel, "", "", "schedulingGates: [{name: kueue.x-k8s.io/admission}]")}, "Pod", 1},
		"a new queue":     {"it was not asked there", ask{path: validateJob, old: job("kueue.x-k8s.io/queue-name: fast", "", isWaiting), new: job(queueLabel, "", isWaiting)}, "Job", 1},
		"asks for more":   {"it was not told of that", ask{path: validateJob, old: job(queueLabel, "", isWaiting), new: larger}, "Job", 1},
		"a label more":    {"it was told when it came", ask{path: validateJob, old: job(queueLabel, "", isWaiting), new: job(queueLabel, "a: b", isWaiting)}, "", 0},
		"part of another": {"nobody typed it", ask{path: validateJob, new: owned}, "", 0},
		"no queue":        {"it is told of that", ask{path: validateJob, new: job("", "", isWaiting)}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []kueue.PodSet
			never := func(_ context.Context, namespace, queue string, sets []kueue.PodSet) string {
				if namespace != "blue" || queue != "default-queue" {
					t.Errorf("asked about %s/%s", namespace, queue)
				}
				asked = sets
				return why
			}
			r := send(t, serveWith(t, webhook.Options{Never: never}, nil, nil, world()...), tc.ask)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			said := strings.Join(r.Warnings, "\n")
			if told := strings.Contains(
				said,
				"cannot start as it is",
			); told != (tc.kind != "") ||
				told && !strings.Contains(said, "the "+tc.kind+" cannot start as it is, however long it waits: "+why) {
				t.Errorf("%s: told %q", tc.why, said)
			}
			if len(asked) != tc.sets {
				t.Errorf("asked about %d pod sets, want %d", len(asked), tc.sets)
			}
		})
	}
}
