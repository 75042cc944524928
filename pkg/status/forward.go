package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward opens a port-forward to the leader's pod, from a free port of this machine.
func (c *Client) forward(ctx context.Context, p published) (transport, error) {
	pod := PodName(p.holder)
	if pod == "" || p.url != "" {
		return nil, errors.New("the leader is not a pod of this cluster")
	}
	target := c.cluster.CoreV1().RESTClient().Post().Namespace(c.o.Lease.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	round, upgrader, err := spdy.RoundTripperFor(c.o.Config)
	if err != nil {
		return nil, fmt.Errorf("preparing the port-forward: %w", err)
	}
	web, err := portforward.NewSPDYOverWebsocketDialer(target, c.o.Config)
	if err != nil {
		return nil, fmt.Errorf("preparing the port-forward: %w", err)
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: round}, http.MethodPost, target)
	dialer := portforward.NewFallbackDialer(web, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(statusPort)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("preparing the port-forward: %w", err)
	}
	go func() {
		defer close(failed)
		failed <- f.ForwardPorts()
	}()
	end := func() {
		close(stop)
		for range failed { // it was ended: what it says no longer matters
		}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	select {
	case err := <-failed:
		return nil, fmt.Errorf("forwarding to pod %s/%s: %w", c.o.Lease.Namespace, pod, short(err))
	case <-ctx.Done():
		go end()
		return nil, fmt.Errorf("forwarding to pod %s/%s: %w", c.o.Lease.Namespace, pod, short(ctx.Err()))
	case <-ready:
	}
	ports, err := f.GetPorts()
	if err != nil || len(ports) == 0 {
		go end()
		return nil, fmt.Errorf("forwarding to pod %s/%s: no local port: %w", c.o.Lease.Namespace, pod, err)
	}
	t, err := newPinned(PortForward, fmt.Sprintf("https://127.0.0.1:%d", ports[0].Local), p.ca)
	if err != nil {
		go end()
		return nil, err
	}
	c.close = append(c.close, end)
	return t, nil
}
