package agent

import "context"

// Provision runs the provisioner, and the feed that repeats triggers, until the context ends.
func (l *Loops) Provision(ctx context.Context) {
	go func() { _ = l.shared.feed.Run(ctx) }()
	_ = l.provision.Start(ctx)
}
