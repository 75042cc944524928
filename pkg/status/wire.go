package status

import (
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// Names that both sides know.
const (
	// Prefix of all paths, without the slash at the end.
	Prefix = "/status/v1alpha1"
	// Header carries "Bearer <token>".
	Header = "X-Karp-Authorization"
	// Audience of the token.
	Audience = "karp-agent"
	// Reader is the ServiceAccount whose tokens are accepted, by the rule of RBAC on the path.
	Reader = "karp-reader"
	// ServiceName and PortName name the Service of the endpoint; ServerName is in its certificate.
	ServiceName = "karp-agent"
	PortName    = "status"
	ServerName  = "karp-agent"
	// CAAnnotation and URLAnnotation are on the Lease of the leader election: the authority of the certificate in PEM, and the URL of an agent
	// outside the cluster.
	CAAnnotation  = "karp.sh/status-ca"
	URLAnnotation = "karp.sh/status-url"
)

// Meta is in every answer.
type Meta struct {
	ObservedAt time.Time `json:"observedAt"`
	// Leader is the identity of the agent that answers.
	Leader string `json:"leader"`
	// ResourceVersion is up to where the agent has read the cluster, empty if it cannot tell.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Info describes the agent: the answer of info.
type Info struct {
	Meta
	Version       string          `json:"version"`
	EngineVersion string          `json:"engineVersion,omitempty"`
	ClusterName   string          `json:"clusterName"`
	Region        string          `json:"region,omitempty"`
	FeatureGates  map[string]bool `json:"featureGates"`
	Settings      Settings        `json:"settings"`
	// CatalogAgeSeconds and PriceAgeSeconds are absent while there is no catalogue.
	CatalogAgeSeconds *float64 `json:"catalogAgeSeconds,omitempty"`
	PriceAgeSeconds   *float64 `json:"priceAgeSeconds,omitempty"`
	// Synced tells that the caches are complete; Waiting names the kinds that are not.
	Synced  bool     `json:"synced"`
	Waiting []string `json:"waiting,omitempty"`
}

// Settings are those a decision depends on.
type Settings struct {
	VMMemoryOverheadPercent float64 `json:"vmMemoryOverheadPercent"`
	PreferencePolicy        string  `json:"preferencePolicy"`
	MinValuesPolicy         string  `json:"minValuesPolicy"`
	BatchIdleSeconds        float64 `json:"batchIdleSeconds"`
	BatchMaxSeconds         float64 `json:"batchMaxSeconds"`
	PlacementHints          bool    `json:"placementHints"`
	IgnoreDRARequests       bool    `json:"ignoreDRARequests"`
	// ConsolidationMinimumSaving is the fraction of the price of what it replaces that a replacement must save.
	ConsolidationMinimumSaving float64 `json:"consolidationMinimumSaving"`
	// SchedulerConfig is the document with the cluster's default topology spread constraints, empty without.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
}

// PodVerdict is the last decision on one pod: the answer of pods/{namespace}/{name}.
type PodVerdict struct {
	Meta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// DecidedAt is when, Decision the digest of what it was decided from. FirstSeen is when the pod first asked, absent if it does not.
	DecidedAt time.Time  `json:"decidedAt"`
	Decision  string     `json:"decision,omitempty"`
	FirstSeen *time.Time `json:"firstSeen,omitempty"`
	// Node and Claim say where the pod was placed; both are empty if it was not.
	Node  string `json:"node,omitempty"`
	Claim string `json:"claim,omitempty"`
	// Verdict says why it was not placed, absent if it was.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Verdict is why a pod was not placed.
type Verdict struct {
	// Ignored tells that the pod failed validation and was not tried.
	Ignored bool `json:"ignored,omitempty"`
	Finding
	Pools []PoolFinding `json:"pools,omitempty"`
}

// Finding is where a funnel ended.
type Finding struct {
	Layer  string `json:"layer"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
}

// PoolFinding is where the funnel of one pool ended.
type PoolFinding struct {
	Pool string `json:"pool"`
	Finding
	Funnel []Count `json:"funnel,omitempty"`
}

// Count is one stage of a funnel.
type Count struct {
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Types     int    `json:"types"`
	Offerings int    `json:"offerings"`
}

// Offerings are what the agent's node classes can buy: the answer of offerings and offerings?nodepool=NAME.
type Offerings struct {
	Meta
	// Items ascend by type, zone, capacity type and reservation.
	Items []Offering `json:"items"`
}

// Offering is one thing the cloud sells, and whether it can be bought now.
type Offering struct {
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// ReservationID is set for capacity reservations.
	ReservationID string `json:"reservationID,omitempty"`
	// ReservationCount is how many instances of it are free.
	ReservationCount int `json:"reservationCount,omitempty"`
	// Price per hour in US dollars, as an exact decimal; absent if it is not known.
	Price     string `json:"price,omitempty"`
	Available bool   `json:"available"`
	// Reason is the cloud's code while it cannot be bought, Until when it is tried again, absent if unknown.
	Reason string     `json:"reason,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
}

// Problem is the body of an answer that is an error.
type Problem struct {
	Error string `json:"error"`
	// Leader is whom to ask instead, with status 421.
	Leader string `json:"leader,omitempty"`
}

// NewVerdict puts a verdict of the engine into its wire form.
func NewVerdict(v *plan.Verdict) *Verdict {
	out := &Verdict{Ignored: v.Ignored, Finding: finding(v.Layer, v.Code, v.Detail)}
	for i := range v.Pools {
		p := &v.Pools[i]
		f := PoolFinding{Pool: p.Pool, Finding: finding(p.Layer, p.Code, p.Detail)}
		for _, c := range p.Funnel {
			f.Funnel = append(f.Funnel, Count{Code: string(c.Code), Detail: c.Detail, Types: c.Types, Offerings: c.Offerings})
		}
		out.Pools = append(out.Pools, f)
	}
	return out
}

func finding(l reason.Layer, c reason.Code, detail string) Finding {
	return Finding{Layer: l.String(), Code: string(c), Detail: detail}
}

// PodName returns the pod's name in the identity of a lease holder, "<pod>_<unique>".
func PodName(holder string) string {
	name, _, _ := strings.Cut(holder, "_")
	return name
}
