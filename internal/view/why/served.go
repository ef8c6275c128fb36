package why

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/view"
)

// JobExplanation is why a job is where it is, as the API serves it. Nothing stores it.
type JobExplanation struct {
	metav1.TypeMeta `json:",inline"`
	// The namespace of the job, and the name of its view.
	metav1.ObjectMeta `json:"metadata"`
	view.Answer       `json:",inline"`
	// Explanation is what mlbatch why says.
	Explanation Explanation `json:"explanation"`
}

// JobDetails are all that there is to know of a job, as the API serves it. Nothing stores them.
type JobDetails struct {
	metav1.TypeMeta `json:",inline"`
	// The namespace of the job, and the name of its view.
	metav1.ObjectMeta `json:"metadata"`
	view.Answer       `json:",inline"`
	// Details are what mlbatch show says, without logs.
	Details Details `json:"details"`
}

// What the fields mean is written once, at the fields.
var (
	//go:embed served.go
	servedSource string
	//go:embed explain.go
	explainSource string
	//go:embed details.go
	detailsSource string
	//go:embed timeline.go
	timelineSource string
)

// FieldDocs says what the fields of the types of this package mean that are served, as [view.FieldDocs] does.
func FieldDocs() map[string]map[string]string {
	return view.FieldDocsOf(servedSource, explainSource, detailsSource, timelineSource)
}
