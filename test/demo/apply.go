package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// documents reads every object of a YAML file.
func documents(raw []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		u := &unstructured.Unstructured{}
		err := dec.Decode(u)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// files reads the objects of all YAML files of a directory, in the order of their names; kustomizations are left out.
func files(dir fs.FS) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, "kustomization") {
			continue
		}
		raw, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		objs, err := documents(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, objs...)
	}
	return out, nil
}

// apply does what kubectl apply --server-side does. Kinds that were just defined take a moment to be served, so it tries again for a while.
func apply(ctx context.Context, c client.Client, objs []*unstructured.Unstructured) error {
	for _, u := range objs {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			last = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("karp-demo"), client.ForceOwnership)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), errors.Join(last, err))
		}
	}
	return nil
}

// install applies the CRDs and roles as a user would.
func install(ctx context.Context, c client.Client) error {
	for _, dir := range []string{"manifests/crds", "manifests/rbac"} {
		objs, err := files(os.DirFS(dir))
		if err != nil {
			return err
		}
		if err := apply(ctx, c, objs); err != nil {
			return err
		}
	}
	return nil
}

// agentKubeconfig writes a kubeconfig with a token of the agent's service account, so that the agent has no more rights than in a real cluster.
func agentKubeconfig(ctx context.Context, cfg *rest.Config) (string, error) {
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	token, err := clients.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "karp-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of the agent's service account: %w", err)
	}
	out := clientcmdapi.NewConfig()
	ca := cfg.CAData
	if len(ca) == 0 && cfg.CAFile != "" {
		if ca, err = os.ReadFile(cfg.CAFile); err != nil {
			return "", err
		}
	}
	out.Clusters["demo"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: ca}
	out.AuthInfos["karp-agent"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	out.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "karp-agent"}
	out.CurrentContext = "demo"
	path := filepath.Join(folder(), "agent.kubeconfig")
	return path, clientcmd.WriteToFile(*out, path)
}
