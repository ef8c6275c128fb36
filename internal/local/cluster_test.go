package local

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

func TestAPIOnly(t *testing.T) {
	begun := time.Now()
	c, err := Start(t.Context(), Config{DataDir: t.TempDir(), Parts: APIOnly, Progress: func(s Step) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b := time.Now()
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		t.Log("stop", time.Since(b))
	})
	t.Log(time.Since(begun))
	v, err := kubernetes.NewForConfigOrDie(c.RESTConfig()).Discovery().ServerVersion()
	t.Log(v, err)
}
