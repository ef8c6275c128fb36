package generate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// jobName leaves room for what is added to the names of pods.
var jobName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

const longestName = 50

// Check says what is wrong with values, as a *strict.FileError; places are where they are
// written.
func (v *Values) Check(file string, places strict.Places) error {
	errs := v.validate()
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return strict.Failed(file, problems(places, errs))
}

func (v *Values) validate() field.ErrorList {
	var errs field.ErrorList
	for _, s := range Settings() {
		if e := s.bounds(v); e != nil {
			errs = append(errs, e)
		}
	}
	switch at := field.NewPath("jobName"); {
	case v.JobName == "":
		errs = append(errs, field.Required(at, "must be given"))
	case !jobName.MatchString(v.JobName):
		errs = append(
			errs,
			field.Invalid(
				at,
				v.JobName,
				"use small letters, digits and -, beginning with a letter and not ending with -",
			),
		)
	case len(v.JobName) > longestName:
		errs = append(
			errs,
			field.Invalid(
				at,
				v.JobName,
				fmt.Sprintf("must have %d characters at most, so that its pods can be named after it", longestName),
			),
		)
	}
	if v.ContainerImage == "" {
		errs = append(errs, field.Required(field.NewPath("containerImage"), "must be given"))
	}
	errs = append(errs, v.names()...)
	errs = append(errs, v.resources()...)
	errs = append(errs, v.environment()...)
	errs = append(errs, v.storage()...)
	for i, c := range v.InitContainers {
		at := field.NewPath("initContainers").Index(i)
		errs = append(errs, label(at.Child("name"), c.Name)...)
		errs = append(errs, required(at.Child("image"), c.Image)...)
		if c.Name == container {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
	}
	for name, text := range v.durations() {
		if _, err := duration(text); text != "" && err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "use a duration such as 90s, 1h30m or 2d"))
		}
	}
	return errs
}

func required(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "must be given")}
	}
	return nil
}

// label checks a name of Kubernetes that must be given.
func label(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return required(at, text)
	}
	return invalid(at, text, validation.IsDNS1123Label(text))
}

func subdomain(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return nil
	}
	return invalid(at, text, validation.IsDNS1123Subdomain(text))
}

func invalid(at *field.Path, text string, why []string) field.ErrorList {
	var errs field.ErrorList
	for _, w := range why {
		errs = append(errs, field.Invalid(at, text, w))
	}
	return errs
}

// names judges what is the name of something else.
func (v *Values) names() field.ErrorList {
	var errs field.ErrorList
	if v.Namespace != "" {
		errs = append(errs, label(field.NewPath("namespace"), v.Namespace)...)
	}
	for at, name := range map[string]string{
		"queueName": v.QueueName, "priority": v.Priority, "serviceAccountName": v.ServiceAccountName,
		"topologyFileConfigMap": v.TopologyFileConfigMap, "ncclGdrEnvConfigMap": v.NCCLGdrEnvConfigMap,
	} {
		errs = append(errs, subdomain(field.NewPath(at), name)...)
	}
	for i, s := range v.ImagePullSecrets {
		at := field.NewPath("imagePullSecrets").Index(i).Child("name")
		errs = append(append(errs, required(at, s.Name)...), subdomain(at, s.Name)...)
	}
	for i, l := range v.CustomLabels {
		at := field.NewPath("customLabels").Index(i)
		errs = append(errs, invalid(at.Child("key"), l.Key, validation.IsQualifiedName(l.Key))...)
		errs = append(errs, invalid(at.Child("value"), l.Value, validation.IsValidLabelValue(l.Value))...)
		if strings.HasPrefix(l.Key, "kueue.x-k8s.io/") {
			errs = append(errs, field.Forbidden(at.Child("key"), "queues are asked for with queueName"))
		}
	}
	for i, c := range v.AutopilotHealthChecks {
		errs = append(
			errs,
			invalid(field.NewPath("autopilotHealthChecks").Index(i), c, validation.IsQualifiedName(c))...)
	}
	for i, h := range v.HostIgnoreList {
		errs = append(
			errs,
			invalid(field.NewPath("hostIgnoreList").Index(i), h, validation.IsValidLabelValue(h))...)
	}
	return errs
}

// resources judges requests and limits.
func (v *Values) resources() field.ErrorList {
	var errs field.ErrorList
	for _, r := range []struct {
		name, limit   string
		asked, limit2 Amount
	}{
		{"numCpusPerPod", "limitCpusPerPod", v.NumCPUsPerPod, v.LimitCPUsPerPod},
		{"totalMemoryPerPod", "limitMemoryPerPod", v.TotalMemoryPerPod, v.LimitMemoryPerPod},
	} {
		asked, limit := r.asked.quantity(), r.limit2.quantity()
		if asked.Sign() < 0 || r.asked == "" {
			errs = append(errs, field.Invalid(field.NewPath(r.name), string(r.asked), "must be 0 or more"))
		}
		if r.limit2 != "" && limit.Cmp(asked) < 0 {
			errs = append(
				errs,
				field.Invalid(
					field.NewPath(r.limit),
					string(r.limit2),
					fmt.Sprintf("must not be less than %s, which is %s", r.name, r.asked),
				),
			)
		}
	}
	if n := v.LimitGPUsPerPod; n != nil && *n != v.NumGPUsPerPod {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("limitGpusPerPod"),
				*n,
				fmt.Sprintf(
					"must be numGpusPerPod, which is %d: Kubernetes refuses pods that share GPUs by limits; leave it out",
					v.NumGPUsPerPod,
				),
			),
		)
	}
	if v.NumPods == 1 && v.NumRoceGdr > 0 {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("numRoceGdr"),
				v.NumRoceGdr,
				"must be 0 with one pod, which has nobody to talk to",
			),
		)
	}
	if v.NumRoceGdr > 0 {
		errs = append(
			errs,
			invalid(
				field.NewPath("roceGdrResName"),
				v.RoceGdrResName,
				validation.IsQualifiedName(v.RoceGdrResName),
			)...)
	}
	return errs
}

// environment judges variables.
func (v *Values) environment() field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, e := range v.EnvironmentVariables {
		at := field.NewPath("environmentVariables").Index(i)
		errs = append(
			append(errs, required(at.Child("name"), e.Name)...),
			invalid(at.Child("name"), e.Name, when(e.Name, validation.IsEnvVarName))...)
		given := 0
		for _, is := range []bool{e.Value != nil, e.Secret != nil, e.ConfigMap != nil} {
			if is {
				given++
			}
		}
		switch {
		case given != 1:
			errs = append(
				errs,
				field.Required(at, fmt.Sprintf("variable %s: give one of value, secret and configmap", e.Name)),
			)
		case seen[e.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), e.Name))
		case e.Name == topologyVariable && v.TopologyFileConfigMap != "":
			errs = append(
				errs,
				field.Forbidden(at.Child("name"), "topologyFileConfigMap sets it: give one of the two"),
			)
		}
		seen[e.Name] = true
		for kind, k := range map[string]*Key{"secret": e.Secret, "configmap": e.ConfigMap} {
			if k != nil {
				errs = append(
					append(errs, required(at.Child(kind, "name"), k.Name)...),
					required(at.Child(kind, "key"), k.Key)...)
			}
		}
	}
	for i, s := range v.EnvFrom {
		at := field.NewPath("envFrom").Index(i)
		if (s.SecretRef == nil) == (s.ConfigMapRef == nil) {
			errs = append(errs, field.Required(at, "give one of secretRef and configMapRef"))
		}
		for kind, r := range map[string]*SourceRef{"secretRef": s.SecretRef, "configMapRef": s.ConfigMapRef} {
			if r != nil {
				errs = append(errs, required(at.Child(kind, "name"), r.Name)...)
			}
		}
	}
	return errs
}

func when(text string, check func(string) []string) []string {
	if text == "" {
		return nil
	}
	return check(text)
}

// storage judges volumes.
func (v *Values) storage() field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for _, one := range v.mounts() {
		at := field.NewPath(one.of)
		if one.index >= 0 {
			at = at.Index(one.index)
		}
		switch {
		case !strings.HasPrefix(one.path, "/"):
			errs = append(errs, field.Invalid(at.Child("mountPath"), one.path, "must be an absolute path"))
		case taken[one.path]:
			errs = append(errs, field.Duplicate(at.Child("mountPath"), one.path))
		case taken["volume "+one.name]:
			errs = append(errs, field.Duplicate(at.Child("name"), one.name))
		}
		taken[one.path], taken["volume "+one.name] = true, true
	}
	for i, c := range v.Volumes {
		at := field.NewPath("volumes").Index(i)
		errs = append(errs, label(at.Child("name"), c.Name)...)
		errs = append(
			append(errs, required(at.Child("claimName"), c.ClaimName)...),
			subdomain(at.Child("claimName"), c.ClaimName)...)
	}
	if g := v.SSHGitCloneConfig; g != nil {
		at := field.NewPath("sshGitCloneConfig")
		errs = append(
			append(errs, required(at.Child("secretName"), g.SecretName)...),
			required(at.Child("configMapName"), g.ConfigMapName)...)
		errs = append(
			append(errs, subdomain(at.Child("secretName"), g.SecretName)...),
			subdomain(at.Child("configMapName"), g.ConfigMapName)...)
	}
	if m := v.MountNVMe; m != nil {
		at := field.NewPath("mountNVMe")
		if q, err := resource.ParseQuantity(string(m.Storage)); err != nil || q.Sign() <= 0 {
			errs = append(errs, field.Required(at.Child("storage"), "give a size such as 500Gi"))
		}
		errs = append(errs, subdomain(at.Child("storageClassName"), m.StorageClassName)...)
	}
	return errs
}

// durations are the values that are such, by name; "" is not given.
func (v *Values) durations() map[string]string {
	return map[string]string{
		"admissionGracePeriodDuration":         v.AdmissionGracePeriodDuration,
		"warmupGracePeriodDuration":            v.WarmupGracePeriodDuration,
		"failureGracePeriodDuration":           v.FailureGracePeriodDuration,
		"retryPausePeriodDuration":             v.RetryPausePeriodDuration,
		"forcefulDeletionGracePeriodDuration":  v.ForcefulDeletionGracePeriodDuration,
		"deletionOnFailureGracePeriodDuration": v.DeletionOnFailureGracePeriodDuration,
		"successTTLDuration":                   v.SuccessTTLDuration,
	}
}

// duration reads one as the chart and as Go writes it, days included, and writes it so that
// every AppWrapper controller understands it.
func duration(text string) (string, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return "", fmt.Errorf("read days: %w", err)
		}
		return strconv.FormatUint(n*24, 10) + "h", nil //nolint:mnd // hours of a day
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	if err != nil {
		return "", fmt.Errorf("read duration: %w", err)
	}
	return text, nil
}
