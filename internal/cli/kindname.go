package cli

import (
	"fmt"
	"strings"
)

// KindAndName takes KIND/NAME apart, as kubectl prints and reads it: pod/x, job.batch/x. It is
// false for what begins with no kind, which is NAMESPACE/NAME, and fails for kinds of which
// nothing waits or runs.
func KindAndName(arg string) (kind, name string, is bool, err error) {
	kind, name, cut := strings.Cut(arg, "/")
	kind, group, qualified := strings.Cut(strings.ToLower(kind), ".")
	if !cut || name == "" || strings.Contains(name, "/") {
		return "", "", false, nil
	}
	if _, known := kindNames()[kind]; known {
		return kind, name, true, nil
	}
	if where := otherKinds()[kind]; where != "" {
		return "", "", false, fmt.Errorf("%s: %s", arg, where)
	}
	if qualified { // no namespace has a dot in its name
		return "", "", false, fmt.Errorf(
			"%s: kind %s.%s is not known: use NAMESPACE/NAME, or KIND/NAME of %s",
			arg,
			kind,
			group,
			KindList(),
		)
	}
	return "", "", false, nil
}

// otherKinds are names of kinds that people ask about as well, and what tells of those.
func otherKinds() map[string]string {
	out := map[string]string{}
	for _, k := range []struct{ names, where string }{
		{"node nodes no", "mlbatch nodes tells of nodes"},
		{"clusterqueue clusterqueues cq localqueue localqueues lq queue cohort cohorts", "mlbatch queue tells of queues, and of what waits in one"},
		{"resourceflavor resourceflavors rf flavor", "mlbatch flavor list tells of flavors"},
		{"namespace namespaces ns", "mlbatch team list tells of teams, and mlbatch ps -n NAMESPACE of what runs there"},
		{
			"configmap configmaps cm secret secrets service services svc ingress ingresses ing persistentvolumeclaim persistentvolumeclaims pvc " +
				"persistentvolume pv serviceaccount serviceaccounts sa role rolebinding networkpolicy netpol endpoints ep event events ev " +
				"horizontalpodautoscaler hpa poddisruptionbudget pdb customresourcedefinition crd priorityclass pc",
			"nothing of that kind waits or runs; jobs and pods do: use NAMESPACE/NAME or KIND/NAME of one",
		},
	} {
		for name := range strings.FieldsSeq(k.names) {
			out[name] = k.where
		}
	}
	return out
}
