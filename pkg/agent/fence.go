package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// Times of leader election (lifecycle rules 24).
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// errFenced says that no new effect may be started, because the lease is nearly lost.
var errFenced = errors.New("not starting: the lease was not renewed lately, another leader may take over")

// fence is the leader election's lock, watched: it knows when the lease was last renewed and how often it changed hands.
type fence struct {
	resourcelock.Interface
	clock clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time
	epoch   int64
	holder  string
}

// newFence wraps a lock. A nil lock (leader election is off) never stops anything.
func newFence(lock resourcelock.Interface, c clock.PassiveClock) *fence {
	return &fence{Interface: lock, clock: c}
}

// Get implements resourcelock.Interface.
func (f *fence) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := f.Interface.Get(ctx)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (f *fence) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.note(record, f.clock.Now(), f.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (f *fence) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.note(record, f.clock.Now(), f.Interface.Update(ctx, record))
}

// note remembers a renewal by the time it was begun, which is the earliest moment from which others count.
func (f *fence) note(record resourcelock.LeaderElectionRecord, begun time.Time, err error) error {
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch, f.holder = int64(record.LeaderTransitions), record.HolderIdentity
	if record.HolderIdentity == f.Identity() {
		f.renewed = begun
	} else {
		f.renewed = time.Time{}
	}
	return nil
}

// Check returns errFenced unless the lease is ours for at least another renewDeadline (reliability rule 9).
func (f *fence) Check() error {
	if f.Interface == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(f.renewed) > leaseDuration-renewDeadline {
		return errFenced
	}
	return nil
}

// Leading tells whether this process leads, and else who does, as far as it knows. Without leader election it always leads.
func (f *fence) Leading() (leads bool, leader string) {
	if f.Interface == nil {
		return true, ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder == f.Identity() && f.clock.Since(f.renewed) < leaseDuration, f.holder
}

// Epoch is the number of times the lease changed hands.
func (f *fence) Epoch() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch
}
