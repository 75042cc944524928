package telemetry

import (
	"log/slog"
	"time"
)

// named is an object under its kind, as {"NodeClaim": {"name": "x"}}.
func named(kind, name string) slog.Attr { return slog.Group(kind, slog.String("name", name)) }

// Claim is the NodeClaim a line is about.
func Claim(name string) slog.Attr { return named("NodeClaim", name) }

// Node is the Node a line is about.
func Node(name string) slog.Attr { return named("Node", name) }

// Pool is the NodePool a line is about.
func Pool(name string) slog.Attr { return named("NodePool", name) }

// Class is the EC2NodeClass a line is about.
func Class(name string) slog.Attr { return named("EC2NodeClass", name) }

// Pod is the Pod a line is about.
func Pod(namespace, name string) slog.Attr {
	return slog.Group("Pod", slog.String("name", name), slog.String("namespace", namespace))
}

// ProviderID is the instance a line is about.
func ProviderID(id string) slog.Attr { return slog.String("provider-id", id) }

// Error is why something failed.
func Error(err error) slog.Attr { return slog.Any("error", err) }

// Reason is a reason code.
func Reason(code string) slog.Attr { return slog.String("reason", code) }

// Decision is the digest of the decision that led to an effect.
func Decision(digest string) slog.Attr { return slog.String("decision", digest) }

// Duration is how long something took or takes.
func Duration(d time.Duration) slog.Attr { return slog.String("duration", d.String()) }

// Logger names the part of the program that writes: controller, or controller.<part>.
func Logger(part string) slog.Attr {
	if part == "" {
		return slog.String("logger", "controller")
	}
	return slog.String("logger", "controller."+part)
}
