package why_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/view/why"
)

func TestFieldsOfExplanationsAndDetailsSayWhatTheyMean(t *testing.T) {
	docs := why.FieldDocs()
	for _, of := range []reflect.Type{
		reflect.TypeFor[why.JobExplanation](), reflect.TypeFor[why.Explanation](), reflect.TypeFor[why.JobDetails](), reflect.TypeFor[why.Details](),
		reflect.TypeFor[why.Role](), reflect.TypeFor[why.Pod](), reflect.TypeFor[why.Failure](), reflect.TypeFor[why.Moment](),
	} {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if docs[of.Name()][name] == "" {
				t.Errorf("nothing says what %s of %s is", name, of.Name())
			}
		}
	}
}
