package nodehealth

// Mark says of the health label of a node that mlbatch wrote it, and over what.
type Mark struct {
	// Set is what was written, Was what was there before, "" for none.
	Set string `json:"set"`
	Was string `json:"was,omitempty"`
}

// word is the value of the health label for a state, "" for one that needs none. A test that runs where nothing else does
// is told as such: what had to leave has left.
func (h Health) word() string {
	if h.UnderTest {
		return testingMark
	}
	switch h.State() {
	case Suspect:
		return "WARN"
	case Back:
		if p := h.worst(); p.Level == Warned {
			return "WARN"
		}
		return "ERR"
	case FailedState:
		return "ERR"
	case Draining:
		return Evict
	case Healthy, Testing: // who tests writes so himself
	}
	return ""
}

// Relabel is the health label that a node should have, and the mark beside it: nil marks a label of others. label is
// what is there, "" for none; drained says that somebody took the node out of service by hand, who has then the only
// say.
//
// Only what is worse than a label of others is written over it, and only what was written here is lifted: then what
// was there before is put back. Who overwrites a label of ours takes it over.
func Relabel(h Health, label string, mark *Mark, drained bool) (string, *Mark) { //nolint:revive // a fact
	if drained {
		return label, mark
	}
	if mark != nil && mark.Set != label {
		mark = nil
	}
	theirs := label
	if mark != nil {
		theirs = mark.Was
	}
	want := h.word()
	if severity(marked(want)) <= severity(marked(theirs)) {
		return theirs, nil
	}
	return want, &Mark{Set: want, Was: theirs}
}
