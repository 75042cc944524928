package cli

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/view"
)

// askAgent asks the agent, where there is one and it may be asked, which offerings cannot be bought now. Its absence never fails a question.
func (o *options) askAgent(_ context.Context, _ *rest.Config, s *observed) listing.Offerings {
	if o.agent == "none" {
		s.sources = append(s.sources, view.Source{Name: "agent", Missing: "--agent none"})
	}
	return listing.Offerings{}
}
