package aws

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// seenFor is how long an instance that EC2 has described need not be described again (deviation AX23: a dead one is not believed for ever).
const seenFor = 2 * time.Minute

// seen remembers instances as EC2 last described them. Those in zones that traffic was shifted away from are remembered until the shift ends.
type seen struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	byID  map[string]seenInstance
}

type seenInstance struct {
	*cloud.Instance
	at time.Time
}

func newSeen(c clock.PassiveClock) *seen { return &seen{clock: c, byID: map[string]seenInstance{}} }

func (s *seen) put(i *cloud.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[i.ID] = seenInstance{private(i), s.clock.Now()}
}

// private copies an instance, so that nobody can change what is remembered.
func private(i *cloud.Instance) *cloud.Instance {
	out := *i
	out.Tags, out.Labels, out.Annotations = maps.Clone(i.Tags), maps.Clone(i.Labels), maps.Clone(i.Annotations)
	return &out
}

// get returns an instance that was described lately, else nil.
func (s *seen) get(id string) *cloud.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.byID[id]; ok && s.clock.Now().Sub(have.at) < seenFor {
		return private(have.Instance)
	}
	return nil
}

// shifted returns an instance in a shifted zone as it was described last.
func (s *seen) shifted(id string, by *shifts) (*cloud.Instance, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.byID[id]
	if !ok || !by.away(have.Labels[ec2types.LabelZoneID]) {
		return nil, false
	}
	return private(have.Instance), true
}

// drop forgets an instance and returns it.
func (s *seen) drop(id string) *cloud.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.byID[id]
	delete(s.byID, id)
	return have.Instance
}

// replace takes a complete listing. What it lacks is forgotten, except in shifted zones.
func (s *seen) replace(list []cloud.Instance, by *shifts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := make(map[string]seenInstance, len(list))
	for i := range list {
		fresh[list[i].ID] = seenInstance{private(&list[i]), s.clock.Now()}
	}
	for id, have := range s.byID {
		if _, listed := fresh[id]; !listed && by.away(have.Labels[ec2types.LabelZoneID]) {
			fresh[id] = have
		}
	}
	s.byID = fresh
}
