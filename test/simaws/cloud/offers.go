package cloud

import (
	"encoding/hex"
	"slices"
)

// CapacityRule limits what may be launched in the offerings it matches.
// Patterns use * and ?; an empty pattern matches everything.
type CapacityRule struct {
	Type, Zone, CapacityType string
	// Left is how many instances still fit; 0 means no capacity at all.
	Left int
	// Code is the fleet error, default InsufficientInstanceCapacity.
	Code, Message string
}

func (r *CapacityRule) matches(typ, zoneName, capacityType string) bool {
	one := func(pattern, s string) bool { return pattern == "" || Glob(pattern, s) }
	return one(r.Type, typ) && one(r.Zone, zoneName) && one(r.CapacityType, capacityType)
}

// TakeCapacity adds a rule. Several rules may match an offering: each is asked.
func (c *Cloud) TakeCapacity(rule CapacityRule) {
	c.lock()
	defer c.mu.Unlock()
	orElse(&rule.Code, "InsufficientInstanceCapacity")
	c.capacity = append(c.capacity, &rule)
}

// GiveCapacity removes the rules with exactly these patterns, or all rules
// when all three are empty, and returns how many there were.
func (c *Cloud) GiveCapacity(typ, zoneName, capacityType string) int {
	c.lock()
	defer c.mu.Unlock()
	before := len(c.capacity)
	c.capacity = slices.DeleteFunc(c.capacity, func(r *CapacityRule) bool {
		all := typ == "" && zoneName == "" && capacityType == ""
		return all || r.Type == typ && r.Zone == zoneName && r.CapacityType == capacityType
	})
	return before - len(c.capacity)
}

// CapacityRules lists the rules in force.
func (c *Cloud) CapacityRules() []CapacityRule {
	c.lock()
	defer c.mu.Unlock()
	out := make([]CapacityRule, 0, len(c.capacity))
	for _, r := range c.capacity {
		out = append(out, *r)
	}
	return out
}

// room returns how many instances of an offering fit (-1: any number) and the
// rule that says so.
func (c *Cloud) room(typ, zoneName, capacityType string) (int, *CapacityRule) {
	left, by := -1, (*CapacityRule)(nil)
	for _, r := range c.capacity {
		if r.matches(typ, zoneName, capacityType) && (left < 0 || r.Left < left) {
			left, by = r.Left, r
		}
	}
	return left, by
}

func (c *Cloud) useRoom(typ, zoneName, capacityType string, n int) {
	for _, r := range c.capacity {
		if r.matches(typ, zoneName, capacityType) {
			r.Left -= n
		}
	}
}

// OnDemandPrice returns the on-demand price in nano-dollars per hour.
func (c *Cloud) OnDemandPrice(typ string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.onDemandPrice(typ)
}

func (c *Cloud) onDemandPrice(typ string) (int64, bool) {
	if p, ok := c.onDemand[typ]; ok {
		return p, p > 0
	}
	list, _ := c.data.OnDemand(c.opts.Region)
	return list.Price(typ)
}

// SpotPrice returns the spot price in nano-dollars per hour.
func (c *Cloud) SpotPrice(typ, zoneName string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spotPrice(typ, zoneName)
}

// spotPrice is 30 to 45 % of the on-demand price, a fixed share for each type
// and zone, unless moved. It is a multiple of 100 microdollars, as EC2's are.
func (c *Cloud) spotPrice(typ, zoneName string) (int64, bool) {
	if p, ok := c.spot[[2]string{typ, zoneName}]; ok {
		return p, p > 0
	}
	base, ok := c.onDemandPrice(typ)
	if !ok || !c.sellsSpot(typ) || c.local(zoneName) {
		return 0, false
	}
	const step = 100_000
	return max(step, base*spotShare(typ, zoneName)/1000/step*step), true
}

func (c *Cloud) sellsSpot(typ string) bool {
	t, ok := c.data.Type(typ)
	return ok && slices.Contains(t.UsageClasses, "spot")
}

// spotShare is in thousandths of the on-demand price.
func spotShare(typ, zoneName string) int64 {
	raw, err := hex.DecodeString(digest("spot", typ, zoneName)[:4])
	if err != nil {
		return 300
	}
	return 300 + int64(raw[0])*150/255
}

// MoveOnDemandPrice sets the price of a type; 0 takes it off the list and a
// negative price restores the list price.
func (c *Cloud) MoveOnDemandPrice(typ string, nanos int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if nanos < 0 {
		delete(c.onDemand, typ)
		return
	}
	c.onDemand[typ] = nanos
}

// MoveSpotPrice sets the spot price of a type in a zone; 0 takes it off, a
// negative price restores the share.
func (c *Cloud) MoveSpotPrice(typ, zoneName string, nanos int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{typ, zoneName}
	if nanos < 0 {
		delete(c.spot, key)
		return
	}
	c.spot[key] = nanos
}
