package pack

import "github.com/karp-sh/karp/pkg/engine/fit"

// split tells the groups that can be packed for price from those that must be placed by the queue rules.
func (s *state) split() (easy, hard []*fit.Group) { return nil, s.Groups }

func (s *state) packEasy(easy []*fit.Group) {}
