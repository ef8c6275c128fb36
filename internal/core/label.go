package core

import (
	"slices"
	"strconv"
	"strings"
)

// Operator is how a Requirement compares a label with its values.
type Operator string

// The operators of node affinity and of label selectors.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
)

// Requirement is one condition on a label.
type Requirement struct {
	Key      string
	Operator Operator
	// Values are sorted; one integer for Gt and Lt, none for Exists and DoesNotExist.
	Values []string
}

// Matches reports whether labels satisfy the requirement. As in Kubernetes,
// NotIn holds when the label is absent.
func (r Requirement) Matches(labels map[string]string) bool {
	v, has := labels[r.Key]
	switch r.Operator {
	case In:
		return has && slices.Contains(r.Values, v)
	case NotIn:
		return !has || !slices.Contains(r.Values, v)
	case Exists:
		return has
	case DoesNotExist:
		return !has
	case Gt, Lt:
		if !has || len(r.Values) != 1 {
			return false
		}
		got, err1 := strconv.ParseInt(v, 10, 64)
		want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		if r.Operator == Gt {
			return got > want
		}
		return got < want
	}
	return false
}

// String is the requirement as kubectl writes selectors.
func (r Requirement) String() string {
	values := "(" + strings.Join(r.Values, ",") + ")"
	switch r.Operator {
	case In:
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
		return r.Key + " in " + values
	case NotIn:
		if len(r.Values) == 1 {
			return r.Key + "!=" + r.Values[0]
		}
		return r.Key + " notin " + values
	case Exists:
		return r.Key
	case DoesNotExist:
		return "!" + r.Key
	case Gt:
		return r.Key + ">" + strings.Join(r.Values, ",")
	case Lt:
		return r.Key + "<" + strings.Join(r.Values, ",")
	}
	return r.Key + " " + string(r.Operator) + " " + values
}

// Selector is a conjunction of requirements; the empty one matches everything.
type Selector []Requirement

// Matches reports whether labels satisfy every requirement.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		if !r.Matches(labels) {
			return false
		}
	}
	return true
}

// String is the selector as kubectl writes it.
func (s Selector) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// TaintEffect is what a taint does to a pod that does not tolerate it.
type TaintEffect string

// The effects of taints.
const (
	NoSchedule       TaintEffect = "NoSchedule"
	PreferNoSchedule TaintEffect = "PreferNoSchedule"
	NoExecute        TaintEffect = "NoExecute"
)

// Taint repels pods from a node or a flavor.
type Taint struct {
	Key    string
	Value  string
	Effect TaintEffect
}

// String is KEY=VALUE:EFFECT, as kubectl writes it.
func (t Taint) String() string {
	s := t.Key
	if t.Value != "" {
		s += "=" + t.Value
	}
	return s + ":" + string(t.Effect)
}

// Toleration lets a pod stay with a taint. An empty Key with operator Exists
// tolerates every taint; an empty Effect tolerates every effect.
type Toleration struct {
	Key    string
	Exists bool // true: any value; false: Value must be equal
	Value  string
	Effect TaintEffect
}

// Tolerates reports whether t makes the taint harmless.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key == "" {
		return t.Exists
	}
	return t.Key == taint.Key && (t.Exists || t.Value == taint.Value)
}

// Untolerated returns the first taint with effect NoSchedule or NoExecute that
// none of the tolerations covers.
func Untolerated(taints []Taint, tolerations []Toleration) (Taint, bool) {
	for _, taint := range taints {
		if taint.Effect == PreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.Tolerates(taint) }) {
			return taint, true
		}
	}
	return Taint{}, false
}
