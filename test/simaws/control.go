package simaws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// Duration is a time.Duration in Go's notation: "30s".
type Duration time.Duration

// MarshalText writes 30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads 30s.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("reading a duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// InstanceInfo is what the control API tells of an instance.
type InstanceInfo struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Image        string            `json:"image"`
	Subnet       string            `json:"subnet"`
	State        string            `json:"state"`
	LaunchedAt   time.Time         `json:"launchedAt"`
	Boot         string            `json:"boot"` // waiting, started, joined, failed, stopped
	BootReason   string            `json:"bootReason,omitempty"`
	NodeName     string            `json:"nodeName,omitempty"`
	Tags         map[string]string `json:"tags"`
	UserData     string            `json:"userData,omitempty"`
}

// Settings change the account while it runs; a nil field stays.
type Settings struct {
	PendingDelay       *Duration `json:"pendingDelay,omitempty"`
	BootDelay          *Duration `json:"bootDelay,omitempty"`
	ShutdownDelay      *Duration `json:"shutdownDelay,omitempty"`
	DescribeDelay      *Duration `json:"describeDelay,omitempty"`
	ProfileDelay       *Duration `json:"profileDelay,omitempty"`
	TemplateDelay      *Duration `json:"templateDelay,omitempty"`
	StatusDelay        *Duration `json:"statusDelay,omitempty"`
	DevicePluginDelay  *Duration `json:"devicePluginDelay,omitempty"`
	InterruptionNotice *Duration `json:"interruptionNotice,omitempty"`
	OnDemandVCPUQuota  *int      `json:"onDemandVCPUQuota,omitempty"`
	SpotVCPUQuota      *int      `json:"spotVCPUQuota,omitempty"`
	// Cluster is what DescribeCluster answers and what user data must name.
	ClusterEndpoint      *string `json:"clusterEndpoint,omitempty"`
	CertificateAuthority *string `json:"certificateAuthority,omitempty"`
	KubernetesVersion    *string `json:"kubernetesVersion,omitempty"`
	Throttling           *bool   `json:"throttling,omitempty"`
	// Queue behaviour: every message twice, newest first.
	DuplicateEvents *bool `json:"duplicateEvents,omitempty"`
	ReverseEvents   *bool `json:"reverseEvents,omitempty"`
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Change applies settings.
func (s *Server) Change(to Settings) {
	s.cloud.Configure(func(o *cloud.Options) {
		set(&o.PendingDelay, (*time.Duration)(to.PendingDelay))
		set(&o.BootDelay, (*time.Duration)(to.BootDelay))
		set(&o.ShutdownDelay, (*time.Duration)(to.ShutdownDelay))
		set(&o.DescribeDelay, (*time.Duration)(to.DescribeDelay))
		set(&o.ProfileDelay, (*time.Duration)(to.ProfileDelay))
		set(&o.TemplateDelay, (*time.Duration)(to.TemplateDelay))
		set(&o.StatusDelay, (*time.Duration)(to.StatusDelay))
		set(&o.DevicePluginDelay, (*time.Duration)(to.DevicePluginDelay))
		set(&o.InterruptionNotice, (*time.Duration)(to.InterruptionNotice))
		set(&o.OnDemandVCPUQuota, to.OnDemandVCPUQuota)
		set(&o.SpotVCPUQuota, to.SpotVCPUQuota)
		set(&o.ClusterEndpoint, to.ClusterEndpoint)
		set(&o.CertificateAuthority, to.CertificateAuthority)
		set(&o.KubernetesVersion, to.KubernetesVersion)
	})
	if to.Throttling != nil {
		s.SetThrottling(*to.Throttling)
	}
	if to.DuplicateEvents != nil || to.ReverseEvents != nil {
		var duplicate, reverse bool
		set(&duplicate, to.DuplicateEvents)
		set(&reverse, to.ReverseEvents)
		s.cloud.Deliver(duplicate, reverse)
	}
}

// InstanceInfos lists all instances with how far they have booted.
func (s *Server) InstanceInfos() []InstanceInfo {
	out := []InstanceInfo{}
	for _, i := range s.cloud.All() {
		out = append(out, InstanceInfo{
			ID: i.ID, Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType(), Image: i.ImageID, Subnet: i.Subnet, State: i.State,
			LaunchedAt: i.LaunchedAt, Boot: i.Boot.State, BootReason: i.Boot.Reason, NodeName: i.Boot.NodeName, Tags: i.Tags,
			UserData: string(i.UserData),
		})
	}
	return out
}

// SubnetInfo is what the control API tells of a subnet.
type SubnetInfo struct {
	ID     string            `json:"id"`
	Zone   string            `json:"zone"`
	ZoneID string            `json:"zoneId"`
	CIDR   string            `json:"cidr"`
	Free   int               `json:"free"`
	Tags   map[string]string `json:"tags"`
}

func (s *Server) subnetInfos() ([]SubnetInfo, error) {
	list, refusal := s.cloud.Subnets(nil, nil)
	if refusal != nil {
		return nil, refusal
	}
	out := make([]SubnetInfo, 0, len(list))
	for _, n := range list {
		out = append(out, SubnetInfo{n.ID, n.Zone, n.ZoneID, n.CIDR, n.Free(), n.Tags})
	}
	return out, nil
}

// PriceMove moves a price: the spot price of a type in a zone, or with an empty
// zone the on-demand price of the type. 0 takes the price away, a negative
// one restores it.
type PriceMove struct {
	Type         string `json:"type"`
	Zone         string `json:"zone,omitempty"`
	NanosPerHour int64  `json:"nanosPerHour"`
}

// InstanceAct is something that happens to an instance; the fields depend on
// the act.
type InstanceAct struct {
	Reason    string            `json:"reason,omitempty"`    // terminate
	Rebalance bool              `json:"rebalance,omitempty"` // interrupt: recommend first
	For       Duration          `json:"for,omitempty"`       // hide
	Impair    *cloud.Impairment `json:"impair,omitempty"`    // impair; null heals
}

// controlHandler is the control API: JSON over HTTP under /_sim/.
func (s *Server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET /_sim/"+path, func(w http.ResponseWriter, r *http.Request) { controlAnswer(w, r, answer) })
	}
	mux.HandleFunc("GET /_sim/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	get("instances", func(*http.Request) (any, error) { return s.InstanceInfos(), nil })
	get("subnets", func(*http.Request) (any, error) { return s.subnetInfos() })
	get("capacity", func(*http.Request) (any, error) { return s.cloud.CapacityRules(), nil })
	get("faults", func(*http.Request) (any, error) { return s.Faults(), nil })
	get("calls", func(r *http.Request) (any, error) {
		after, err := optionalInt(r, "after")
		return s.Calls(after, r.URL.Query().Get("service"), r.URL.Query().Get("action")), err
	})
	get("queue/{name}", func(r *http.Request) (any, error) {
		list, refusal := s.cloud.Messages(r.PathValue("name"))
		if refusal != nil {
			return nil, refusal
		}
		return list, nil
	})

	s.controlFaults(mux)
	controlPost(mux, "instances/{id}/{act}", func(r *http.Request, in InstanceAct) (any, error) {
		return nil, s.act(r.PathValue("id"), r.PathValue("act"), in)
	})
	s.controlWorld(mux)
	s.controlIAM(mux)
	return mux
}

func (s *Server) act(id, act string, in InstanceAct) error {
	switch act {
	case "terminate":
		return s.cloud.Kill(id, in.Reason)
	case "interrupt":
		return s.cloud.Interrupt(id, in.Rebalance)
	case "rebalance":
		return s.cloud.RecommendRebalance(id)
	case "hide":
		return s.cloud.Hide(id, time.Duration(in.For))
	case "impair":
		return s.cloud.Impair(id, in.Impair)
	}
	return fmt.Errorf("unknown act %q: use terminate, interrupt, rebalance, hide or impair", act)
}

func optionalInt(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("parameter %s: %w", name, err)
	}
	return n, nil
}

func controlPost[In any](mux *http.ServeMux, path string, do func(*http.Request, In) (any, error)) {
	mux.HandleFunc("POST /_sim/"+path, func(w http.ResponseWriter, r *http.Request) {
		controlAnswer(w, r, func(r *http.Request) (any, error) {
			var in In
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil {
				return nil, fmt.Errorf("reading the request: %w", err)
			}
			return do(r, in)
		})
	})
}

func controlAnswer(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	status := http.StatusOK
	out, err := answer(r)
	if err != nil {
		status, out = http.StatusBadRequest, map[string]string{"error": err.Error()}
	}
	body, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		return // the client is gone
	}
}

// controlFaults adds what makes calls fail and launches hard.
func (s *Server) controlFaults(mux *http.ServeMux) {
	controlPost(mux, "settings", func(_ *http.Request, in Settings) (any, error) { s.Change(in); return nil, nil })
	controlPost(mux, "capacity", func(_ *http.Request, in cloud.CapacityRule) (any, error) { s.cloud.TakeCapacity(in); return nil, nil })
	controlPost(mux, "capacity/give", func(_ *http.Request, in cloud.CapacityRule) (any, error) {
		return s.cloud.GiveCapacity(in.Type, in.Zone, in.CapacityType), nil
	})
	controlPost(mux, "faults", func(_ *http.Request, in Fault) (any, error) { return s.InjectFault(in), nil })
	controlPost(mux, "faults/clear", func(_ *http.Request, in struct {
		ID int `json:"id"`
	}) (any, error) {
		s.ClearFaults(in.ID)
		return nil, nil
	})
	controlPost(mux, "prices", func(_ *http.Request, in PriceMove) (any, error) {
		if in.Zone == "" {
			s.cloud.MoveOnDemandPrice(in.Type, in.NanosPerHour)
		} else {
			s.cloud.MoveSpotPrice(in.Type, in.Zone, in.NanosPerHour)
		}
		return nil, nil
	})
	mux.HandleFunc("GET /_sim/buckets", func(w http.ResponseWriter, r *http.Request) {
		controlAnswer(w, r, func(*http.Request) (any, error) {
			list, levels := s.Buckets()
			return map[string]any{"buckets": list, "tokens": levels}, nil
		})
	})
	controlPost(mux, "buckets", func(_ *http.Request, in []Bucket) (any, error) { s.SetBuckets(in); return nil, nil })
}
