package view

import "time"

// ReportVersion is the API version of all reports for programs.
const ReportVersion = "cli.karp.sh/v1alpha1"

// Envelope is what every report has in common. Enums are only ever extended; times are RFC 3339 in UTC, durations end in Seconds, quantities are
// Kubernetes strings, money is a decimal string with its currency and period.
type Envelope struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
}

// Metadata says when, where and by what the report was made.
type Metadata struct {
	GeneratedAt   string `json:"generatedAt"`
	Cluster       string `json:"cluster,omitempty"`
	PluginVersion string `json:"pluginVersion"`
}

// NewEnvelope returns the head of a report of a kind.
func NewEnvelope(kind, cluster, version string, at time.Time) Envelope {
	return Envelope{APIVersion: ReportVersion, Kind: kind, Metadata: Metadata{GeneratedAt: stamp(at), Cluster: cluster, PluginVersion: version}}
}

// Source is where facts came from.
type Source struct {
	Name       string `json:"name"`
	AgeSeconds *int64 `json:"ageSeconds,omitempty"`
	OK         bool   `json:"ok"`
	Missing    string `json:"missing,omitempty"`
}

// Subject is the object a report is about.
type Subject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// Answer is the outcome in one code and one sentence; the sentence is for people and not stable.
type Answer struct {
	Code      string `json:"code"`
	Sub       string `json:"sub,omitempty"`
	Layer     string `json:"layer,omitempty"`
	Sentence  string `json:"sentence"`
	Certainty string `json:"certainty"`
	Blocked   bool   `json:"blocked"`
}

// Price is an amount of money per hour.
type Price struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Per      string `json:"per"`
}

// stamp spells an instant, empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
