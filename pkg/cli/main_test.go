package cli_test

import (
	"os"
	"testing"
)

// TestMain keeps the clusters of whoever runs the tests out of them: no kubeconfig, no cluster around.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"KUBECONFIG": os.DevNull, "KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}
