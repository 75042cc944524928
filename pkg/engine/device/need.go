package device

import (
	"strconv"

	"github.com/karp-sh/karp/pkg/cluster"
)

// mostDevices is how many devices a claim can have (API limit; rules 22.4).
const mostDevices = 32

// Need is what the claims of a pod ask for.
type Need struct {
	// Claims in the order of the pod.
	Claims []*cluster.DeviceClaim
	// Problem says why they cannot be served by any node, as the claim, a code and a name; empty if nothing speaks against it.
	Problem string
}

// Codes of problems with claims, as they appear in Need.Problem.
const (
	ClaimNotFound   = "DeviceClaimNotFound"
	ClaimDeleting   = "DeviceClaimDeleting"
	ClassNotFound   = "DeviceClassNotFound"
	SelectorInvalid = "SelectorInvalid"
	TooManyDevices  = "TooManyDevices"
)

// Resolve finds the claims of a pod (rules 22.2).
func (v *Inventory) Resolve(namespace string, refs []cluster.DeviceClaimRef) Need {
	var out Need
	for _, r := range refs {
		c := v.claims[namespace+"/"+r.Claim]
		if c == nil {
			out.Problem = r.Name + ": " + ClaimNotFound
			return out
		}
		if what := v.problem(c); what != "" {
			out.Problem = c.Name + ": " + what
			return out
		}
		out.Claims = append(out.Claims, c)
	}
	return out
}

// Settled reports whether the claim has devices in the cluster and keeps them.
func (v *Inventory) Settled(c *cluster.DeviceClaim) bool { return c.Bound && !v.free(c) }

// problem says why a claim cannot be served (rules 22.4).
func (v *Inventory) problem(c *cluster.DeviceClaim) string {
	if v.Settled(c) {
		return ""
	}
	switch {
	case c.Deleting:
		return ClaimDeleting
	case c.Problem != "":
		return c.Problem
	}
	total := int64(0)
	for _, r := range c.Requests {
		for _, w := range r.Ways {
			if what := v.wayProblem(w); what != "" {
				return what
			}
		}
		if len(r.Ways) == 1 && !r.Ways[0].All {
			total += r.Ways[0].Count
		}
	}
	if total > mostDevices {
		return TooManyDevices + " " + strconv.FormatInt(total, 10)
	}
	return ""
}

func (v *Inventory) wayProblem(w cluster.DeviceWay) string {
	class := v.classes[w.Class]
	switch {
	case class == nil:
		return ClassNotFound + " " + w.Class
	case class.Problem != "":
		return class.Problem
	case !w.All && w.Count > mostDevices:
		return TooManyDevices + " " + strconv.FormatInt(w.Count, 10)
	}
	for _, list := range [][]string{class.Selectors, w.Selectors} {
		for _, s := range list {
			if x := v.selectors[s]; x == nil || x.Problem != "" {
				return SelectorInvalid
			}
		}
	}
	return ""
}
