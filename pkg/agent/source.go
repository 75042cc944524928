package agent

import (
	"context"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
)

// source yields snapshots from the cache.
type source struct {
	*shared
	settings cluster.Settings
	catalogs kube.Catalogs
}

func newSource(s *shared, hints bool) *source {
	return &source{shared: s, settings: s.cfg.Settings(hints), catalogs: kube.FromCloud(s.cloud)}
}

// Snapshot reads all kinds from the cache.
func (s *source) Snapshot(ctx context.Context) (*cluster.Snapshot, error) {
	objects, err := kube.Load(ctx, s.client, kube.LoadOptions{})
	if err != nil {
		return nil, err
	}
	return objects.Snapshot(ctx, s.clock.Now(), s.settings, s.catalogs), nil
}
