package cloud

import (
	"slices"
	"time"
)

// Stop is StopInstances: all or nothing. A stopped instance keeps volumes and
// addresses; its kubelet is silent.
func (c *Cloud) Stop(ids []string, dryRun bool) ([]StateChange, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.checkInstances(ids, now); err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch i := c.instances[id]; {
		case i.State == Pending, i.State == ShuttingDown, i.State == Terminated:
			return nil, fail("IncorrectInstanceState", "This instance '%s' is not in a state from which it can be stopped.", id)
		case i.Lifecycle != "":
			return nil, fail("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", id)
		}
	}
	if dryRun {
		return nil, nil
	}
	return c.change(ids, func(i *Instance) {
		if i.State == Running {
			i.StateReason = "Client.UserInitiatedShutdown: User initiated shutdown"
			c.enter(i, Stopping, now)
			i.stoppedAt = now.Add(c.opts.ShutdownDelay)
			c.silence(i)
		}
	}, now), nil
}

// Start is StartInstances.
func (c *Cloud) Start(ids []string, dryRun bool) ([]StateChange, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.checkInstances(ids, now); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if s := c.instances[id].State; s != Stopped && s != Running && s != Pending {
			return nil, fail("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be started.", id)
		}
	}
	if dryRun {
		return nil, nil
	}
	return c.change(ids, func(i *Instance) {
		if i.State == Stopped {
			c.enter(i, Pending, now)
			i.StateReason, i.LaunchedAt, i.stoppedAt = "", now, time.Time{}
			i.runningAt, i.bootAt = now.Add(c.opts.PendingDelay), time.Time{}
			i.Boot = Boot{State: BootWaiting, NodeName: i.Boot.NodeName}
			c.wake = time.Time{}
		}
	}, now), nil
}

// Reboot is RebootInstances; the kubelet is back before anyone notices.
func (c *Cloud) Reboot(ids []string) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	return c.checkInstances(ids, now)
}

// change applies something to instances and tells their states before and
// after.
func (c *Cloud) change(ids []string, do func(*Instance), now time.Time) []StateChange {
	var out []StateChange
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		i := c.instances[id]
		change := StateChange{ID: id, Previous: i.State}
		do(i)
		change.Current = i.State
		out = append(out, change)
	}
	c.settle(now)
	return out
}
