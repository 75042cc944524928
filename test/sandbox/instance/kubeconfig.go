package instance

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/karp-sh/karp/test/sandbox/pki"
)

// writeKubeconfig writes a kubeconfig that carries its certificates inside, so that it can be copied elsewhere. It is
// JSON, which is YAML.
func writeKubeconfig(path, cluster, server string, ca []byte, user string, pair pki.Pair) error {
	type object = map[string]any
	raw, err := json.MarshalIndent(object{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": cluster, "cluster": object{
			"server": server, "certificate-authority-data": ca,
		}}},
		"users": []object{{"name": user, "user": object{
			"client-certificate-data": pair.CertPEM, "client-key-data": pair.KeyPEM,
		}}},
		"contexts":        []object{{"name": cluster, "context": object{"cluster": cluster, "user": user}}},
		"current-context": cluster,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}
