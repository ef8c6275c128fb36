package local

import (
	"context"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if code, child := RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
