package sim

import (
	"context"
	"slices"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/karp-sh/karp/pkg/agent"
	"github.com/karp-sh/karp/pkg/cloud"
)

// news is what a process hears from the cloud about instances.
type news struct{ cloud *Cloud }

var _ agent.News = news{}

// Receive returns the messages that wait, at once.
func (n news) Receive(context.Context) ([]cloud.Message, error) {
	return slices.Clone(n.cloud.Messages), nil
}

// Acknowledge removes a message.
func (n news) Acknowledge(_ context.Context, m *cloud.Message) error {
	n.cloud.Messages = slices.DeleteFunc(n.cloud.Messages, func(other cloud.Message) bool { return other.Receipt == m.Receipt })
	return nil
}

// Unhealthy lists what is wrong.
func (n news) Unhealthy(context.Context) ([]cloud.Finding, error) { return n.cloud.Findings, nil }

// MarkUnavailable notes the offering.
func (n news) MarkUnavailable(capacityType, instanceType, zone, _ string) {
	n.cloud.Marked = append(n.cloud.Marked, capacityType+"/"+instanceType+"/"+zone)
}

// MarkReservationFull notes the reservation.
func (n news) MarkReservationFull(id string) { n.cloud.Marked = append(n.cloud.Marked, id) }

// lease is a lock that always lets itself be written.
type lease struct{ resourcelock.Interface }

// Update implements resourcelock.Interface.
func (lease) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

// Identity implements resourcelock.Interface.
func (lease) Identity() string { return "me" }
