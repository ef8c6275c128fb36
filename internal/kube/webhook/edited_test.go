package webhook_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// makers are one object of each kind that makes pods, or Jobs, and is no job, by the path at which it is
// judged.
func makers(t *testing.T) map[string]map[string]any {
	t.Helper()
	const pod = `{metadata: {labels: {app: o}}, spec: {restartPolicy: Always, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	const rest = `replicas: 2, selector: {matchLabels: {app: o}}, template: ` + pod
	out := map[string]map[string]any{}
	for path, text := range map[string]string{
		"/validate-apps-v1-deployment":  `{apiVersion: apps/v1, kind: Deployment, spec: {` + rest + `}}`,
		"/validate-apps-v1-replicaset":  `{apiVersion: apps/v1, kind: ReplicaSet, spec: {` + rest + `}}`,
		"/validate-apps-v1-statefulset": `{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: o, ` + rest + `}}`,
		"/validate-batch-v1-cronjob":    `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: ` + strings.Replace(pod, "Always", "Never", 1) + `}}}}`,
		"/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset": `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {replicas: 2,
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0}}, startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 2, workerTemplate: ` + pod + `}}}`,
	} {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		o["metadata"] = map[string]any{}
		out[path] = o
	}
	return out
}

// What templates may not say they may not be changed to say either: of all kinds whose templates can be
// changed while the job is held. What was there before the rule stays and is not asked about again.
func TestTemplatesAreJudgedWhenTheyChange(t *testing.T) {
	handlers := serveWith(t, webhook.Options{Limits: jobs.Limits{Termination: time.Hour}}, nil, nil, world()...)
	cells := map[string]struct {
		part, key string
		value     any
		says      string
	}{
		"a group of its own": {"spec", "schedulingGroup", map[string]any{"podGroupName": "mine"}, "would wait for that group"},
		"a node":             {"spec", "nodeName", "node-1", "nodeName"},
		"a priority":         {"spec", "priorityClassName", "system-node-critical", "priorityClassName"},
		"a long grace":       {"spec", "terminationGracePeriodSeconds", int64(1_000_000), "terminationGracePeriodSeconds"},
		"finalizers":         {"metadata", "finalizers", []any{"mine.dev/stay"}, "finalizers"},
	}
	judged := 0
	all := samples(t)
	maps.Copy(all, makers(t))
	for path, sample := range all {
		if strings.HasSuffix(path, "-trainjob") || strings.HasSuffix(path, "-appwrapper") {
			continue // pods of a runtime, and components, which stay as they are
		}
		with := func(part, key string, value any, note string) string {
			o := encode(t, sample)
			meta, _ := o["metadata"].(map[string]any)
			meta["namespace"], meta["name"], meta["labels"] = "blue", "o", map[string]any{"kueue.x-k8s.io/queue-name": "default-queue"}
			meta["annotations"] = map[string]any{"note": note}
			for _, template := range templatesIn(o) {
				in, is := template[part].(map[string]any)
				if !is {
					in = map[string]any{}
					template[part] = in
				}
				in[key] = value
			}
			return string(text(t, o))
		}
		plain := with("spec", "hostname", "a", "")
		if r := send(t, handlers, ask{path: path, old: plain, new: with("spec", "hostname", "b", "")}); !r.Allowed {
			continue // its templates stay as they are
		}
		judged++
		for name, cell := range cells {
			if cell.key == "schedulingGroup" && (strings.HasSuffix(path, "-deployment") || strings.HasSuffix(path, "-replicaset")) {
				continue // its pods are queued one by one, or as the group that they name
			}
			t.Run(strings.TrimPrefix(path, "/validate-")+"/"+name, func(t *testing.T) {
				said := with(cell.part, cell.key, cell.value, "")
				for when, a := range map[string]ask{"made": {path: path, new: said}, "changed": {path: path, old: plain, new: said}} {
					if r := send(t, handlers, a); r.Allowed || !strings.Contains(r.Message, cell.says) {
						t.Errorf("when it is %s: allowed is %v, and it says %q", when, r.Allowed, r.Message)
					}
				}
				if r := send(t, handlers, ask{path: path, old: said, new: with(cell.part, cell.key, cell.value, "other")}); !r.Allowed {
					t.Errorf("when it is left: it says %q", r.Message)
				}
			})
		}
	}
	if judged < 13 {
		t.Errorf("the templates of %d kinds can be changed", judged)
	}
}
