package agent

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/status"
)

// OfferingsOf is the status endpoint's source of offerings over a cluster and a cloud.
func OfferingsOf(c client.Client, sells Cloud, now clock.PassiveClock) func(context.Context, string) (status.Offerings, error) {
	r := &report{shared: &shared{client: c, cloud: sells, clock: now}}
	return r.Offerings
}
