package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/pkg/view"
)

// leaseName is that of the leader election, which karp shares with Karpenter.
const leaseName = "karpenter-leader-election"

// agentName begins the names of sources that the agent is.
const agentName = "agent"

// agentLink is the agent, once it has answered.
type agentLink struct {
	client *status.Client
	info   status.Info
}

// close ends port-forwards. It may be called on nil.
func (l *agentLink) close() {
	if l != nil {
		l.client.Close()
	}
}

// reachAgent asks the agent who it is. If there is none, or it may not be asked, it returns nil and says why: its absence never fails a question.
func (o *options) reachAgent(ctx context.Context, cfg *rest.Config) (*agentLink, view.Source) {
	if o.agent == string(status.None) {
		return nil, view.Source{Name: agentName, Missing: "--agent none"}
	}
	c, err := status.NewClient(status.ClientOptions{Config: cfg, Lease: status.Lease{Namespace: o.agentNamespace, Name: leaseName}, Way: status.Way(o.agent)})
	if err != nil {
		return nil, view.Source{Name: agentName, Missing: clause(err)}
	}
	info, err := c.Info(ctx)
	if err != nil {
		c.Close()
		return nil, view.Source{Name: agentName, Missing: unreached(err)}
	}
	age := max(int64(time.Since(info.ObservedAt)/time.Second), 0)
	return &agentLink{client: c, info: info}, view.Source{Name: agentName + " " + info.Version, AgeSeconds: &age, OK: true}
}

// offerings are what the agent knows to be for sale, with prices. The zero value stands for nothing known.
func (l *agentLink) offerings(ctx context.Context) (listing.Offerings, view.Source) {
	found, err := l.client.Offerings(ctx, "")
	if err != nil {
		return listing.Offerings{}, view.Source{Name: agentName + " offerings", Missing: unreached(err)}
	}
	out := listing.Offerings{APIVersion: listing.APIVersion, Kind: listing.OfferingKind}
	for _, i := range found.Items {
		x := listing.Offering{Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType, ReservationID: i.ReservationID, ReservationCount: i.ReservationCount, Available: i.Available, Reason: i.Reason, Price: i.Price}
		if i.Until != nil {
			x.Until = *i.Until
		}
		out.Items = append(out.Items, x)
	}
	age := max(int64(time.Since(found.ObservedAt)/time.Second), 0)
	return out, view.Source{Name: "prices and sold-out offerings: agent", AgeSeconds: &age, OK: true}
}

// settings are those the agent decides by. A scheduler configuration that this version cannot read counts as none, which the error says.
func (l *agentLink) settings() (cluster.Settings, error) {
	s := l.info.Settings
	spread, err := config.DefaultSpread(s.SchedulerConfig)
	return cluster.Settings{
		IgnorePreferences: s.PreferencePolicy == "Ignore", BestEffortMinValues: s.MinValuesPolicy == "BestEffort",
		StaticCapacity: l.info.FeatureGates["StaticCapacity"], ReservedCapacity: l.info.FeatureGates["ReservedCapacity"],
		IgnoreDRA: s.IgnoreDRARequests, PlacementHints: s.PlacementHints,
		VMMemoryOverhead: int64(s.VMMemoryOverheadPercent*1e6 + 0.5), ClusterName: l.info.ClusterName,
		NodeOverlay: l.info.FeatureGates["NodeOverlay"], CapacityBuffer: l.info.FeatureGates["CapacityBuffer"], DefaultSpread: spread,
		SpotToSpot: l.info.FeatureGates["SpotToSpotConsolidation"], MinimumSaving: int64(s.ConsolidationMinimumSaving*1e6 + 0.5),
	}, err
}

// verdict compares the agent's last decision on a pod with the answer given here.
func (l *agentLink) verdict(ctx context.Context, a reason.Pending) view.Source {
	v, err := l.client.Pod(ctx, a.Pod.Namespace, a.Pod.Name)
	switch {
	case errors.Is(err, status.ErrNotFound):
		return view.Source{Name: "agent's last verdict: none on this pod", OK: true}
	case err != nil:
		return view.Source{Name: agentName + " verdict", Missing: unreached(err)}
	}
	said := "placed on " + strings.Join(nonEmpty(v.Node, v.Claim), " of ")
	same := a.Code == reason.CapacityComing || a.Code == reason.NotPending
	if v.Verdict != nil {
		said, same = v.Verdict.Code, v.Verdict.Code == string(a.Code)
		for _, p := range v.Verdict.Pools {
			// Over several pools the verdict carries the code of one, the answer that of the nearest.
			if p.Pool == a.Nearest && p.Code == string(a.Code) {
				said, same = p.Code, true
			}
		}
	}
	agree := "different"
	if same {
		agree = "same"
	}
	age := max(int64(a.At.Sub(v.DecidedAt)/time.Second), 0)
	return view.Source{Name: fmt.Sprintf("agent's last verdict: %s (%s)", said, agree), AgeSeconds: &age, OK: true}
}

// unreached says in one clause why the agent gave no answer.
func unreached(err error) string {
	var gone *status.Unreachable
	if !errors.As(err, &gone) {
		return clause(err)
	}
	var texts []string
	for _, a := range gone.Attempts {
		texts = append(texts, clause(a.Err))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}

// forbidden is how the API server words a refusal.
func forbidden() *regexp.Regexp {
	return regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)"(?: in API group "([^"]*)")?(?: (?:in the namespace "([^"]*)"|at the cluster scope))?`)
}

// clause cuts an error down to what matters.
func clause(err error) string {
	text := err.Error()
	if m := forbidden().FindStringSubmatch(text); m != nil {
		kind := strings.Join(nonEmpty(m[3], m[4]), ".")
		where := ""
		if m[5] != "" {
			where = " in namespace " + m[5]
		}
		some, _, _ := strings.Cut(text, ": ")
		if !strings.HasPrefix(some, "only namespace") {
			some = ""
		}
		return strings.Join(nonEmpty(some, fmt.Sprintf("%s may not %s %s%s", m[1], m[2], kind, where)), ": ")
	}
	return text
}
