package leaderworkerset

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// TestValidate: what is wrong is told with field and cure.
func TestValidate(t *testing.T) {
	with := func(more string) string {
		return "{leaderWorkerTemplate: {size: 5, " + workerOnly + more + "}}"
	}
	rolling := func(config string) string {
		return "{leaderWorkerTemplate: {" + workerOnly + "}, rolloutStrategy: {rollingUpdateConfiguration: {" + config + "}}}"
	}
	const at = "spec.rolloutStrategy.rollingUpdateConfiguration."
	for name, tc := range map[string]struct {
		spec, set string
		change    func(*api.LeaderWorkerSet)
		want      string // "" is right
	}{
		"all is well":        {spec: with("")},
		"halves":             {spec: with(", subGroupPolicy: {subGroupSize: 2}")},
		"whole":              {spec: with(", subGroupPolicy: {subGroupSize: 5}")},
		"size":               {spec: "{leaderWorkerTemplate: {size: 0, " + workerOnly + "}}", want: "spec.leaderWorkerTemplate.size: Invalid value: 0: use 1 or more"},
		"replicas":           {spec: "{replicas: -1, leaderWorkerTemplate: {" + workerOnly + "}}", want: "spec.replicas: Invalid value: -1: use 0 or more"},
		"too many":           {spec: "{replicas: 1000000, leaderWorkerTemplate: {size: 1000000, " + workerOnly + "}}", want: "spec.replicas: Invalid value: 1000000: with groups of 1000000"},
		"thirds":             {spec: with(", subGroupPolicy: {subGroupSize: 3}"), want: "subGroupPolicy.subGroupSize: Invalid value: 3: neither 5 pods nor 4 workers"},
		"parts of none":      {spec: with(", subGroupPolicy: {subGroupSize: 0}"), want: "subGroupSize: Invalid value: 0: use a number from 1 to 5"},
		"parts too large":    {spec: with(", subGroupPolicy: {subGroupSize: 6}"), want: "subGroupSize: Invalid value: 6: use a number from 1 to 5"},
		"parts without":      {spec: with(", subGroupPolicy: {}"), want: "subGroupSize: Required value: say how many"},
		"workers in halves":  {spec: with(", subGroupPolicy: {subGroupPolicyType: LeaderExcluded, subGroupSize: 2}")},
		"names of its own":   {spec: "{leaderWorkerTemplate: {" + workerOnly + "}, networkConfig: {subdomainPolicy: UniquePerReplica}}"},
		"as many as can be":  {spec: "{replicas: 2147483647, leaderWorkerTemplate: {size: 1, " + workerOnly + "}}"},
		"all may be missing": {spec: rolling("maxUnavailable: 100%, maxSurge: 100%, partition: 0")},
		"numbers above 100":  {spec: rolling("maxUnavailable: 101, maxSurge: 101")},
		"less than none":     {spec: rolling("maxUnavailable: -1"), want: at + "maxUnavailable: Invalid value: \"-1\": use a number"},
		"too large a surge":  {spec: rolling("maxSurge: 101%"), want: at + "maxSurge: Invalid value: \"101%\": use a number"},
		"no groups yet":      {spec: "{replicas: 0, leaderWorkerTemplate: {" + workerOnly + "}}", set: strings.Repeat("a", 50)},
		"leader excluded":    {spec: with(", subGroupPolicy: {subGroupPolicyType: LeaderExcluded, subGroupSize: 5}"), want: "subGroupSize: Invalid value: 5: the 4 workers cannot be parted"},
		"no parts, exclusive": {spec: with(""), change: func(l *api.LeaderWorkerSet) {
			l.Annotations = map[string]string{api.SubGroupExclusiveTopologyAnnotation: "rack"}
		}, want: "subgroup-exclusive-topology]: Forbidden: groups have no parts"},
		"surge alone":         {spec: rolling("maxUnavailable: 0, maxSurge: 1")},
		"shares":              {spec: rolling("maxUnavailable: 10%, maxSurge: 10%")},
		"nothing may move":    {spec: rolling("maxUnavailable: 0"), want: at + "maxUnavailable: Invalid value: \"0\": no group could ever be replaced"},
		"neither may move":    {spec: rolling("maxUnavailable: 0%, maxSurge: 0"), want: at + "maxUnavailable: Invalid value: \"0%\": no group could ever be replaced"},
		"too large a share":   {spec: rolling("maxUnavailable: 101%"), want: at + "maxUnavailable: Invalid value: \"101%\": use a number"},
		"no number":           {spec: rolling("maxSurge: many"), want: at + "maxSurge: Invalid value: \"many\": use a number"},
		"negative":            {spec: rolling("maxSurge: -1"), want: at + "maxSurge: Invalid value: \"-1\": use a number"},
		"partition":           {spec: rolling("partition: -1"), want: at + "partition: Invalid value: -1: use 0 or more"},
		"volume without name": {spec: with(", volumeClaimTemplates: [{metadata: {}, spec: {}}]"), want: "volumeClaimTemplates[0].metadata.name: Required value"},
		"pods that end":       {spec: "{leaderWorkerTemplate: {workerTemplate: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}", want: "spec.leaderWorkerTemplate.workerTemplate.spec.restartPolicy: Unsupported value: \"Never\""},
		"pods with an end":    {spec: "{leaderWorkerTemplate: {leaderTemplate: {spec: {activeDeadlineSeconds: 5, containers: [{name: c}]}}, " + workerOnly + "}}", want: "leaderTemplate.spec.activeDeadlineSeconds: Forbidden"},
		"leaders alone":       {spec: "{leaderWorkerTemplate: {" + workerOnly + "}, networkConfig: {leaderServicePorts: [{port: 80}]}}", want: "spec.networkConfig.leaderServicePorts: Forbidden: no Service of leaders alone is made: make one that selects"},
		"dots":                {spec: with(""), set: "a.b", want: "metadata.name: Invalid value: \"a.b\": it is the name of a Service"},
		"name of sets":        {spec: with(""), set: strings.Repeat("a", 51), want: "too long by 1 characters for the StatefulSet"},
		"longest name":        {spec: with(""), set: strings.Repeat("a", 50)},
		"name of later sets":  {spec: "{replicas: 101, leaderWorkerTemplate: {" + workerOnly + "}}", set: strings.Repeat("a", 50), want: "too long by 2 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			l := parse(t, tc.spec)
			if tc.set != "" {
				l.Name = tc.set
			}
			if tc.change != nil {
				tc.change(l)
			}
			errs := Validate(l)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("it is right: %v", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)):
				t.Errorf("%v, want %q", errs, tc.want)
			}
		})
	}
}

// TestValidateChange: what may not change.
func TestValidateChange(t *testing.T) {
	for name, tc := range map[string]struct {
		was, change func(*api.LeaderWorkerSet)
		want        string
	}{
		"template": {change: func(l *api.LeaderWorkerSet) { l.Spec.LeaderWorkerTemplate.Size = new(int32(7)) }},
		"queue":    {change: func(l *api.LeaderWorkerSet) { l.Labels = map[string]string{kueue.QueueNameLabel: "other"} }, want: "queue-name]: Forbidden: cannot be changed while there are pods: scale to 0 first"},
		"queue of nothing": {
			was:    func(l *api.LeaderWorkerSet) { l.Spec.Replicas = new(int32(0)) },
			change: func(l *api.LeaderWorkerSet) { l.Labels = map[string]string{kueue.QueueNameLabel: "other"} },
		},
		"volumes": {
			change: func(l *api.LeaderWorkerSet) {
				l.Spec.LeaderWorkerTemplate.VolumeClaimTemplates = []api.VolumeClaimTemplate{{}}
			},
			want: "volumeClaimTemplates: Forbidden: cannot be changed",
		},
		"part of a job": {
			was: func(l *api.LeaderWorkerSet) {
				l.Spec.LeaderWorkerTemplate.WorkerTemplate.Annotations = map[string]string{kueue.WorkloadAnnotation: "w"}
			},
			change: func(l *api.LeaderWorkerSet) {
				l.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = "other"
			},
			want: "spec.leaderWorkerTemplate: Forbidden: the job that this is a part of",
		},
		"part of a job, scaled": {
			was: func(l *api.LeaderWorkerSet) {
				l.Spec.LeaderWorkerTemplate.WorkerTemplate.Annotations = map[string]string{kueue.WorkloadAnnotation: "w"}
			},
			change: func(l *api.LeaderWorkerSet) { l.Spec.Replicas = new(int32(1)) },
		},
	} {
		was := parse(t, template(""))
		if tc.was != nil {
			tc.was(was)
		}
		is := was.DeepCopy()
		tc.change(is)
		errs := ValidateChange(was, is)
		if (tc.want == "") != (len(errs) == 0) || tc.want != "" && !strings.Contains(errs[0].Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, errs, tc.want)
		}
	}
}

// TestIdentify: what a pod is told follows from its name and its template.
func TestIdentify(t *testing.T) {
	pod := func(name string, notes ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name, p.Labels = name, map[string]string{api.NameLabel: "s"}
		p.Annotations = map[string]string{Ours: "true", api.SizeAnnotation: "5"}
		for i := 0; i < len(notes); i += 2 {
			p.Annotations[notes[i]] = notes[i+1]
		}
		return p
	}
	worker := func(name string, notes ...string) *corev1.Pod {
		return pod(name, append(notes, api.LeaderNameAnnotation, "s-1")...)
	}
	part := func(p *corev1.Pod) string {
		id := Identify(p, "blue")
		return id.Labels[api.SubGroupIndexLabel]
	}
	leader, first, other := Identify(
		pod("s-1"),
		"blue",
	), Identify(
		worker("s-1-1"),
		"blue",
	), Identify(
		pod("s-2"),
		"blue",
	)
	if leader.Labels[api.GroupKeyLabel] != first.Labels[api.GroupKeyLabel] ||
		leader.Labels[api.GroupKeyLabel] == other.Labels[api.GroupKeyLabel] ||
		len(validation.IsValidLabelValue(leader.Labels[api.GroupKeyLabel])) > 0 {
		t.Errorf("keys of groups: %v, %v, %v", leader.Labels, first.Labels, other.Labels)
	}
	if Identify(pod("s-1"), "red").Labels[api.GroupKeyLabel] == leader.Labels[api.GroupKeyLabel] {
		t.Error("groups of two namespaces have the same key")
	}
	want := []corev1.EnvVar{
		{Name: "LWS_LEADER_ADDRESS", Value: "s-1.s.blue"},
		{Name: "LWS_GROUP_SIZE", Value: "5"},
		{Name: "LWS_WORKER_INDEX", Value: "1"},
	}
	if diff := cmp.Diff(
		want,
		first.Env,
	); diff != "" || first.Subdomain != "" || first.Affinity != nil ||
		first.Labels[kueue.PodGroupNameLabel] != "" {
		t.Errorf("%+v (-want +got):\n%s", first, diff)
	}
	unique := Identify(
		worker(
			"s-1-3",
			api.SubdomainPolicyAnnotation,
			"UniquePerReplica",
			kueue.PodSuspendingParentAnnotation,
			Framework,
		),
		"blue",
	)
	if unique.Env[0].Value != "s-1.s-1.blue" || unique.Subdomain != "s-1" ||
		unique.Labels[kueue.PodGroupNameLabel] != GroupName("s", 1) {
		t.Errorf("with a subdomain of its own, queued: %+v", unique)
	}
	for _, tc := range []struct {
		why  string
		pod  *corev1.Pod
		want string
	}{
		{"four workers in twos, the leader one more", pod("s-1", api.SubGroupSizeAnnotation, "2"), "0"},
		{"the second worker", worker("s-1-2", api.SubGroupSizeAnnotation, "2"), "0"},
		{"the third worker", worker("s-1-3", api.SubGroupSizeAnnotation, "2"), "1"},
		{"six pods in threes", worker("s-1-2", api.SubGroupSizeAnnotation, "3", api.SizeAnnotation, "6"), "0"},
		{"the fourth of six pods", worker("s-1-3", api.SubGroupSizeAnnotation, "3", api.SizeAnnotation, "6"), "1"},
		{"a leader that is in none", pod("s-1", api.SubGroupSizeAnnotation, "2", api.SubGroupPolicyAnnotation, "LeaderExcluded"), ""},
		{"its third worker", worker("s-1-3", api.SubGroupSizeAnnotation, "2", api.SubGroupPolicyAnnotation, "LeaderExcluded"), "1"},
		{"three workers in one part, the leader one more", worker("s-1-3", api.SubGroupSizeAnnotation, "3", api.SizeAnnotation, "4"), "0"},
		{"no parts", worker("s-1-3"), ""},
		{"parts of nothing", worker("s-1-3", api.SubGroupSizeAnnotation, "0"), ""},
	} {
		if got := part(tc.pod); got != tc.want {
			t.Errorf("%s: part %q, want %q", tc.why, got, tc.want)
		}
	}
	for why, p := range map[string]*corev1.Pod{
		"not of a set": {}, "another name": pod("x-1"), "no number": pod("s-a"), "a worker of another leader": worker("s-2-1"), "a number below 0": pod("s--1"),
	} {
		if Identify(p, "blue") != nil {
			t.Errorf("%s: it has a place", why)
		}
	}
	theirs := pod("s-1")
	delete(theirs.Annotations, Ours)
	if Identify(theirs, "blue") != nil {
		t.Error("another controller's pod has a place")
	}
	theirs.Labels[Ours] = "true"
	if Identify(theirs, "blue") == nil {
		t.Error("a pod of an earlier program's template has no place")
	}
}

// TestExclusive: pods of a group go where no other group's are.
func TestExclusive(t *testing.T) {
	p := &corev1.Pod{}
	p.Name, p.Labels = "s-0", map[string]string{api.NameLabel: "s"}
	p.Annotations = map[string]string{
		Ours:                            "true",
		api.SizeAnnotation:              "2",
		api.ExclusiveTopologyAnnotation: "rack",
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	a := Identify(p, "blue").Affinity
	key := groupKey("blue", "s-0")
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"nodeAffinity":{}`,
		`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchExpressions":[{"key":"leaderworkerset.sigs.k8s.io/group-key","operator":"In","values":["` + key + `"]}]},"topologyKey":"rack"}]}`,
		`{"key":"leaderworkerset.sigs.k8s.io/group-key","operator":"Exists"},{"key":"leaderworkerset.sigs.k8s.io/group-key","operator":"NotIn","values":["` + key + `"]}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if p.Spec.Affinity.PodAffinity != nil {
		t.Error("the pod that was read has changed")
	}
	p.Annotations[kueue.PodSuspendingParentAnnotation] = Framework
	text, err = json.Marshal(Identify(p, "blue").Affinity)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(
		text,
	); !strings.Contains(
		s,
		`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution"`,
	) ||
		strings.Count(s, `"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,`) != 1 {
		t.Errorf("a group is planned into one rack; whose pods others are there is not known: %s", s)
	}
}

// TestTPUs: a container that asks for TPUs is told who else is in its slice.
func TestTPUs(t *testing.T) {
	asks := corev1.Container{
		Name: "serve",
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"google.com/tpu": resource.MustParse("4")},
		},
	}
	pod := func(worker int, notes ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name, p.Labels, p.Annotations = "s-1", map[string]string{
			api.NameLabel: "s",
		}, map[string]string{
			Ours:               "true",
			api.SizeAnnotation: "5",
		}
		if worker > 0 {
			p.Name += fmt.Sprintf("-%d", worker)
			p.Annotations[api.LeaderNameAnnotation] = "s-1"
		}
		for i := 0; i < len(notes); i += 2 {
			p.Annotations[notes[i]] = notes[i+1]
		}
		p.Spec.Containers = []corev1.Container{{Name: "side"}, asks}
		return p
	}
	const led, parts, policy = api.LeaderTPUsAnnotation, api.SubGroupSizeAnnotation, api.SubGroupPolicyAnnotation
	hosts := func(workers ...int) string {
		var out []string
		for _, i := range workers {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("s-1-%d", i), "-0")+".s")
		}
		return strings.Join(out, ",")
	}
	for _, tc := range []struct {
		why   string
		pod   *corev1.Pod
		hosts string
		index string
	}{
		{"the leader is the first", pod(0, led, "true"), hosts(0, 1, 2, 3, 4), "0"},
		{"a worker with a leader that asks for some", pod(3, led, "true"), hosts(0, 1, 2, 3, 4), "3"},
		{"a worker with one that does not", pod(3), hosts(1, 2, 3, 4), "2"},
		{"a domain of its own", pod(3, api.SubdomainPolicyAnnotation, "UniquePerReplica"), strings.ReplaceAll(hosts(1, 2, 3, 4), ".s", ".s-1"), "2"},
		{"the first part", pod(1, led, "true", parts, "2", api.SizeAnnotation, "4"), hosts(0, 1), "1"},
		{"the second part", pod(2, led, "true", parts, "2", api.SizeAnnotation, "4"), hosts(2, 3), "0"},
		{"parts of workers", pod(4, parts, "2"), hosts(3, 4), "1"},
		{"the first part of workers", pod(2, parts, "2"), hosts(1, 2), "1"},
		{"a leader that asks for none is no host of the part that it is in", pod(1, parts, "2", api.SizeAnnotation, "4"), hosts(1), "0"},
		{"a leader that is one more in the first part", pod(2, led, "true", parts, "2"), hosts(0, 1, 2), "2"},
		{"a leader in no part is a slice", pod(0, led, "true", parts, "2", policy, "LeaderExcluded"), hosts(0), "0"},
		{"and no host of others", pod(1, led, "true", parts, "2", policy, "LeaderExcluded"), hosts(1, 2), "0"},
	} {
		id := Identify(tc.pod, "blue")
		want := map[string][]corev1.EnvVar{
			"serve": {
				{Name: "TPU_WORKER_HOSTNAMES", Value: tc.hosts},
				{Name: "TPU_WORKER_ID", Value: tc.index},
				{Name: "TPU_NAME", Value: "s-1"},
				{Name: "TPU_PROCESS_ADDRESSES", Value: strings.ReplaceAll(tc.hosts, ",", ":8476,") + ":8476"},
				{Name: "TPU_PROCESS_PORT", Value: "8476"},
			},
		}
		if diff := cmp.Diff(want, id.TPUEnv); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tc.why, diff)
		}
		if n, m := len(
			id.EnvOf(&tc.pod.Spec.Containers[0]),
		), len(
			id.EnvOf(&tc.pod.Spec.Containers[1]),
		); n != 3 ||
			m != 8 {
			t.Errorf("%s: containers have %d and %d variables", tc.why, n, m)
		}
	}
	own := pod(1)
	own.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "TPU_WORKER_ID", Value: "7"}}
	second := pod(1)
	second.Spec.Containers = append(
		second.Spec.Containers,
		corev1.Container{
			Name:      "more",
			Resources: asks.Resources,
			Env:       []corev1.EnvVar{{Name: "TPU_WORKER_HOSTNAMES", Value: "h"}},
		},
	)
	none := pod(1)
	none.Spec.Containers = none.Spec.Containers[:1]
	for why, p := range map[string]*corev1.Pod{"its author says who is there": own, "its author says it to another container": second, "it asks for no TPUs": none} {
		if id := Identify(p, "blue"); id.TPUEnv != nil || len(id.EnvOf(&p.Spec.Containers[0])) != 3 {
			t.Errorf("%s: %+v", why, id)
		}
	}
	// Each process of a pod is a place of its own, behind those of the pods before.
	several := pod(2, led, "true", api.SizeAnnotation, "3")
	several.Spec.Containers = append(
		several.Spec.Containers,
		corev1.Container{
			Name:      "more",
			Resources: asks.Resources,
			Env:       []corev1.EnvVar{{Name: "TPU_PROCESS_PORT", Value: "9000"}},
		},
	)
	several.Spec.InitContainers = []corev1.Container{
		{Name: "warm", Resources: corev1.ResourceRequirements{Requests: asks.Resources.Limits}},
	}
	all := Identify(several, "blue").TPUEnv
	for i, tc := range []struct{ container, port string }{{"serve", "8476"}, {"more", ""}, {"warm", "8478"}} {
		want := []corev1.EnvVar{
			{Name: "TPU_WORKER_HOSTNAMES", Value: "s-1.s,s-1.s,s-1.s,s-1-1.s,s-1-1.s,s-1-1.s,s-1-2.s,s-1-2.s,s-1-2.s"},
			{Name: "TPU_WORKER_ID", Value: fmt.Sprint(6 + i)},
			{Name: "TPU_NAME", Value: "s-1"},
			{
				Name:  "TPU_PROCESS_ADDRESSES",
				Value: "s-1.s:8476,s-1.s:9000,s-1.s:8478,s-1-1.s:8476,s-1-1.s:9000,s-1-1.s:8478,s-1-2.s:8476,s-1-2.s:9000,s-1-2.s:8478",
			},
		}
		if tc.port != "" {
			want = append(want, corev1.EnvVar{Name: "TPU_PROCESS_PORT", Value: tc.port})
		}
		if diff := cmp.Diff(want, all[tc.container]); diff != "" {
			t.Errorf("of several containers, %s (-want +got):\n%s", tc.container, diff)
		}
	}
	if len(all) != 3 {
		t.Errorf("containers that ask for none are told: %v", all)
	}
	// Workers know of their leader from their template.
	l := parse(t, template(""))
	if notes := Of(l).notes(); notes[led] != "" {
		t.Errorf("the leader asks for none: %v", notes)
	}
	l.Spec.LeaderWorkerTemplate.LeaderTemplate = &corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{asks}},
	}
	if notes := Of(l).notes(); notes[led] != "true" {
		t.Errorf("the leader asks for some: %v", notes)
	}
}

// TestWithEnv: a variable is there once, before those that may refer to it.
func TestWithEnv(t *testing.T) {
	got := WithEnv(
		[]corev1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "B", Value: "old"}},
		[]corev1.EnvVar{{Name: "B", Value: "new"}},
	)
	if diff := cmp.Diff(
		[]corev1.EnvVar{{Name: "B", Value: "new"}, {Name: "A", Value: "$(B)"}},
		got,
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTemplate: what a template is, is kept and read again as it was, and its fingerprint
// knows what makes pods different.
func TestTemplate(t *testing.T) {
	l := parse(t, template(""))
	of := Of(l)
	r, err := revision(l, of, 3)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Recorded(r)
	if err != nil || again.Hash() != of.Hash() || r.Name != RevisionName("s", of.Hash()) {
		t.Errorf("%v: %s was %s", err, again.Hash(), of.Hash())
	}
	if _, err := Recorded(r); err != nil {
		t.Error(err)
	}
	r.Data.Raw = []byte("{")
	if _, err := Recorded(r); err == nil {
		t.Error("half a record is read")
	}
	for why, tc := range map[string]struct {
		change      func(*api.LeaderWorkerSet)
		hash, shape bool
	}{
		"replicas":       {func(l *api.LeaderWorkerSet) { l.Spec.Replicas = new(int32(9)) }, false, false},
		"restart policy": {func(l *api.LeaderWorkerSet) { l.Spec.LeaderWorkerTemplate.RestartPolicy = api.NoRestart }, false, false},
		"image": {func(l *api.LeaderWorkerSet) {
			l.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = "x"
		}, true, false},
		"size": {func(l *api.LeaderWorkerSet) { l.Spec.LeaderWorkerTemplate.Size = new(int32(9)) }, true, true},
		"node": {func(l *api.LeaderWorkerSet) {
			l.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.NodeSelector = map[string]string{"a": "b"}
		}, true, true},
		"priority": {func(l *api.LeaderWorkerSet) { l.Labels[kueue.PriorityClassLabel] = "high" }, true, false},
		"queue":    {func(l *api.LeaderWorkerSet) { l.Labels[kueue.QueueNameLabel] = "other" }, true, true},
		"subdomain": {func(l *api.LeaderWorkerSet) {
			l.Spec.NetworkConfig = &api.NetworkConfig{SubdomainPolicy: api.UniqueSubdomainPerReplica}
		}, true, false},
		"topology": {func(l *api.LeaderWorkerSet) {
			l.Annotations = map[string]string{api.ExclusiveTopologyAnnotation: "rack"}
		}, true, false},
	} {
		is := l.DeepCopy()
		tc.change(is)
		if now := Of(
			is,
		); (now.Hash() != of.Hash()) != tc.hash ||
			(now.shape(now.parted()) != of.shape(of.parted())) != tc.shape {
			t.Errorf(
				"%s: another template %v, want %v; another shape %v, want %v",
				why,
				now.Hash() != of.Hash(),
				tc.hash,
				now.shape(now.parted()) != of.shape(of.parted()),
				tc.shape,
			)
		}
	}
}

// TestIndexOf: which group pods and templates are of.
func TestIndexOf(t *testing.T) {
	for index, want := range map[string]int32{"0": 0, "7": 7, "2147483647": 2147483647, "-1": -1, "2147483648": -1, "x": -1, "": -1} {
		name, n, ok := IndexOf(map[string]string{api.NameLabel: "s", api.GroupIndexLabel: index})
		if ok != (want >= 0) || ok && (n != want || name != "s") {
			t.Errorf("of %q: %q, %d, %v", index, name, n, ok)
		}
	}
	if _, _, ok := IndexOf(map[string]string{api.GroupIndexLabel: "0"}); ok {
		t.Error("a group of no set")
	}
	if size := Of(&api.LeaderWorkerSet{}).Size; size != 1 {
		t.Errorf("without a size a group has %d pods", size)
	}
}

// TestWrappedPods: in an AppWrapper the pods of all groups are counted, to the last one.
func TestWrappedPods(t *testing.T) {
	for spec, want := range map[string]string{
		"replicas: 3, leaderWorkerTemplate: {size: 4, workerTemplate: {}}":                         "workerTemplate 12",
		"replicas: 3, leaderWorkerTemplate: {size: 4, leaderTemplate: {a: b}, workerTemplate: {}}": "leaderTemplate 3, workerTemplate 9",
		"replicas: 3, leaderWorkerTemplate: {size: 1, leaderTemplate: {a: b}, workerTemplate: {}}": "leaderTemplate 3",
		"leaderWorkerTemplate: {workerTemplate: {}}":                                               "workerTemplate 1",
		"leaderWorkerTemplate: {size: 0, workerTemplate: {}}":                                      "error",
		"replicas: x, leaderWorkerTemplate: {workerTemplate: {}}":                                  "error",
		"replicas: 2147483647, leaderWorkerTemplate: {size: 3, workerTemplate: {}}":                "error",
		"replicas: 2147483647, leaderWorkerTemplate: {size: 3, leaderTemplate: {a: b}}":            "error",
	} {
		var o map[string]any
		text, err := yaml.ToJSON([]byte("spec: {" + spec + "}"))
		if err = errors.Join(
			err,
			utiljson.Unmarshal(text, &o),
		); err != nil { // with whole numbers, as objects have them
			t.Fatal(err)
		}
		sets, err := Kind().Wrapped.PodSets(o)
		var parts []string
		for _, s := range sets {
			parts = append(
				parts,
				fmt.Sprintf("%s %d", strings.TrimPrefix(s.Path, "template.spec.leaderWorkerTemplate."), *s.Replicas),
			)
		}
		got := strings.Join(parts, ", ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}

// TestPodSets: Kueue's names and counts.
func TestPodSets(t *testing.T) {
	counts := func(spec string) map[string]int32 {
		out := map[string]int32{}
		for _, ps := range Of(parse(t, spec)).PodSets("s", 4, "", false) {
			out[string(ps.Name)] = ps.Count
			if name, index, ok := IndexOf(ps.Template.Labels); !ok || name != "s" || index != 4 {
				t.Errorf("it is of group %d of %q", index, name)
			}
		}
		return out
	}
	const leader = "leaderTemplate: {spec: {containers: [{name: c}]}}, "
	for spec, want := range map[string]map[string]int32{
		"{leaderWorkerTemplate: {size: 4, " + workerOnly + "}}":          {"main": 4},
		"{leaderWorkerTemplate: {size: 4, " + leader + workerOnly + "}}": {"leader": 1, "worker": 3},
		"{leaderWorkerTemplate: {size: 1, " + leader + workerOnly + "}}": {"leader": 1},
	} {
		if diff := cmp.Diff(want, counts(spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
	if _, _, ok := IndexOf(map[string]string{api.NameLabel: "s"}); ok {
		t.Error("a pod of no group has one")
	}
}

// TestGroupName: it is a label and tells groups apart.
func TestGroupName(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, name := range []string{GroupName("s", 0), GroupName(long, 0), GroupName(long, 1)} {
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if GroupName(long, 0) == GroupName(long, 1) || GroupName("s-1", 0) == GroupName("s", 10) {
		t.Error("two groups have one name")
	}
}

// TestStatefulSets: neither takes the other's pods.
func TestStatefulSets(t *testing.T) {
	f := newFake(
		t,
		parse(
			t,
			"{replicas: 1, leaderWorkerTemplate: {size: 3, volumeClaimTemplates: [{metadata: {name: data}, spec: {}}], "+workerOnly+"}}",
		),
	)
	f.settle()
	l, w := f.world.Leaders, f.world.Sets["s-0"]
	if l.Spec.PodManagementPolicy != "Parallel" || w.Spec.PodManagementPolicy != "Parallel" ||
		w.Spec.Ordinals.Start != 1 ||
		*w.Spec.Replicas != 2 ||
		w.Spec.ServiceName != "s" ||
		l.Annotations[api.ReplicasAnnotation] != "1" {
		t.Errorf("%+v, %+v", l.Spec, w.Spec)
	}
	if len(l.Spec.VolumeClaimTemplates) != 1 || w.Spec.VolumeClaimTemplates[0].Name != "data" {
		t.Errorf("volumes %v, %v", l.Spec.VolumeClaimTemplates, w.Spec.VolumeClaimTemplates)
	}
	for _, p := range f.world.Pods {
		leads := p.Labels[api.WorkerIndexLabel] == "0"
		of := map[bool]map[string]string{true: l.Spec.Selector.MatchLabels, false: w.Spec.Selector.MatchLabels}[leads]
		for key, v := range of {
			if p.Labels[key] != v {
				t.Errorf("%s is not selected by its set: %v", p.Name, of)
			}
		}
	}
	if o := w.OwnerReferences[0]; o.Kind != "Pod" || o.Name != "s-0" || !*o.BlockOwnerDeletion {
		t.Errorf("the workers' set is owned by %+v", o)
	}
}

// TestHeldBack: workers that come once their leader is ready are not waited for.
func TestHeldBack(t *testing.T) {
	ready := map[string]any{"spec": map[string]any{"startupPolicy": "LeaderReady"}}
	const workers, leader = "template.spec.leaderWorkerTemplate.workerTemplate", "template.spec.leaderWorkerTemplate.leaderTemplate"
	if w := Kind().Wrapped; !w.HeldBack(ready, workers) || w.HeldBack(ready, leader) ||
		w.HeldBack(map[string]any{}, workers) {
		t.Error("only workers of a set with LeaderReady are held back")
	}
	for spec, want := range map[string]string{
		"{leaderWorkerTemplate: {size: 3, " + workerOnly + "}}":                                                    "",
		"{leaderWorkerTemplate: {size: 1, leaderTemplate: {spec: {containers: [{name: c}]}}, " + workerOnly + "}}": "",
		"{leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {containers: [{name: c}]}}, " + workerOnly + "}}": "worker",
	} {
		if got := Of(parse(t, spec)).Later(false); got != want {
			t.Errorf("%s: %q comes later, want %q", spec, got, want)
		}
	}
}
