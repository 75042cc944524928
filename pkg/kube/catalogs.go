package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud"
)

// FromCloud indexes what the cloud sells and keeps the index until the cloud's answer or the class changes, so that unchanged catalogues are
// the same pointer in consecutive snapshots. It is safe for concurrent use.
func FromCloud(c cloud.Catalogs) Catalogs {
	return &cloudCatalogs{cloud: c, kept: map[types.UID]keptCatalog{}}
}

type cloudCatalogs struct {
	cloud cloud.Catalogs
	mu    sync.Mutex
	kept  map[types.UID]keptCatalog
}

type keptCatalog struct {
	version    string
	generation uint64
	catalog    *catalog.Catalog
}

var _ Catalogs = (*cloudCatalogs)(nil)

// Catalog returns the catalogue of the class.
func (c *cloudCatalogs) Catalog(ctx context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
	// Read before asking: if the answer changes meanwhile, the next call asks again.
	generation := c.cloud.Generation()
	c.mu.Lock()
	have, ok := c.kept[class.UID]
	c.mu.Unlock()
	if ok && have.generation == generation && have.version == class.ResourceVersion {
		return have.catalog, nil
	}
	list, err := c.cloud.InstanceTypes(ctx, class)
	if err != nil {
		return nil, err
	}
	out := catalog.New(list)
	c.mu.Lock()
	c.kept[class.UID] = keptCatalog{version: class.ResourceVersion, generation: generation, catalog: out}
	c.mu.Unlock()
	return out, nil
}
