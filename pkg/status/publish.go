package status

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Lease names the Lease of the leader election.
type Lease struct{ Namespace, Name string }

// Publish writes into the Lease how the endpoint of the leader is reached: its authority, and its URL if it runs outside the cluster (empty if it
// runs inside). The leader calls it when it has won and again whenever it restarts; the Lease must exist.
func Publish(ctx context.Context, client kubernetes.Interface, lease Lease, authority []byte, url string) error {
	annotations := map[string]any{CAAnnotation: string(authority), URLAnnotation: nil}
	if url != "" {
		annotations[URLAnnotation] = url
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("publishing the status endpoint: %w", err)
	}
	_, err = client.CoordinationV1().Leases(lease.Namespace).Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "karp-agent"})
	if err != nil {
		return fmt.Errorf("publishing the status endpoint in lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}
