package cli

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/pkg/view"
)

// leaseName is that of the leader election, which karp shares with Karpenter.
const leaseName = "karpenter-leader-election"

// askAgent asks the agent, where there is one and it may be asked, which offerings cannot be bought now. Its absence never fails a question.
func (o *options) askAgent(ctx context.Context, cfg *rest.Config, s *observed) listing.Offerings {
	missing := func(why string) listing.Offerings {
		s.sources = append(s.sources, view.Source{Name: "agent", Missing: why})
		return listing.Offerings{}
	}
	if o.agent == "none" {
		return missing("--agent none")
	}
	c, err := status.NewClient(status.ClientOptions{Config: cfg, Lease: status.Lease{Namespace: o.agentNamespace, Name: leaseName}, Way: status.Way(o.agent)})
	if err != nil {
		return missing(err.Error())
	}
	defer c.Close()
	info, err := c.Info(ctx)
	if err != nil {
		var gone *status.Unreachable
		if errors.As(err, &gone) && len(gone.Attempts) > 0 {
			return missing(gone.Error())
		}
		return missing(err.Error())
	}
	age := max(int64(time.Since(info.ObservedAt)/time.Second), 0)
	s.sources = append(s.sources, view.Source{Name: "agent " + info.Version, AgeSeconds: &age, OK: true})
	return listing.Offerings{}
}
