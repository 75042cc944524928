package aws

import (
	"context"
	"errors"
	"sync"
	"time"
)

// batchLimits say how long calls wait for others to join them (AWS rules 10.6).
type batchLimits struct {
	// idle is the pause after the last caller, wait the longest time of the first one.
	idle, wait time.Duration
	// items is how many callers one call takes.
	items int
	// parallel is how many merged calls may be under way.
	parallel int
	// timeout ends a merged call: no caller's context may end that of the others.
	timeout time.Duration
}

func defaultBatch() batchLimits {
	return batchLimits{idle: 100 * time.Millisecond, wait: time.Second, items: 500, parallel: 100, timeout: 5 * time.Minute}
}

// batcher unites calls about single instances that are made at about the same time into one.
type batcher[T any] struct {
	limits batchLimits
	// merged is the call for several ids. An id that the answer lacks is asked for again by itself.
	merged func(ctx context.Context, ids []string) (map[string]T, error)
	// single is the call for one id; its answer is final.
	single func(ctx context.Context, id string) (T, error)
	// report is told of every call: how many it is for, and how long the first one waited for the others; nil is nobody.
	report func(size int, waited time.Duration)

	slots chan struct{}
	mu    sync.Mutex
	open  *batch[T]
}

// batch is one call in the making.
type batch[T any] struct {
	ids     []string
	callers int
	opened  time.Time
	started bool
	timers  [2]*time.Timer
	done    chan struct{}
	answers map[string]answer[T]
}

type answer[T any] struct {
	value T
	err   error
}

func newBatcher[T any](l batchLimits, merged func(context.Context, []string) (map[string]T, error), single func(context.Context, string) (T, error)) *batcher[T] {
	return &batcher[T]{limits: l, merged: merged, single: single, slots: make(chan struct{}, l.parallel)}
}

// do asks about one id and waits for the answer. Callers that ask about the same id share it.
func (b *batcher[T]) do(ctx context.Context, id string) (T, error) {
	mine := b.join(ctx, id)
	select {
	case <-mine.done:
		a := mine.answers[id]
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// join adds the id to the open batch, or opens one.
func (b *batcher[T]) join(ctx context.Context, id string) *batch[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.open
	shared := context.WithoutCancel(ctx) // the values of one caller, and the end of none
	if mine == nil {
		mine = &batch[T]{opened: time.Now(), done: make(chan struct{}), answers: map[string]answer[T]{}}
		start := func() { b.close(shared, mine) }
		mine.timers = [2]*time.Timer{time.AfterFunc(b.limits.idle, start), time.AfterFunc(b.limits.wait, start)}
		b.open = mine
	} else {
		mine.timers[0].Reset(b.limits.idle)
	}
	if _, has := mine.answers[id]; !has {
		mine.answers[id] = answer[T]{}
		mine.ids = append(mine.ids, id)
	}
	if mine.callers++; mine.callers >= b.limits.items {
		b.open = nil
		go b.close(shared, mine) // everybody who joined waits for it
	}
	return mine
}

// close makes the call of a batch. Only the first of those who want to close it does.
func (b *batcher[T]) close(ctx context.Context, mine *batch[T]) {
	b.mu.Lock()
	started := mine.started
	mine.started = true
	if b.open == mine {
		b.open = nil
	}
	b.mu.Unlock()
	if started {
		return
	}
	for _, t := range mine.timers {
		t.Stop()
	}
	b.slots <- struct{}{}
	defer func() { <-b.slots }()
	ctx, cancel := context.WithTimeout(ctx, b.limits.timeout)
	defer cancel()
	if b.report != nil {
		b.report(len(mine.ids), time.Since(mine.opened))
	}
	b.run(ctx, mine)
	close(mine.done)
}

// run asks for all, and again for each that the answer lacks. A throttled call is not split: that would be many calls instead of one.
func (b *batcher[T]) run(ctx context.Context, mine *batch[T]) {
	if len(mine.ids) == 1 {
		value, err := b.single(ctx, mine.ids[0])
		mine.answers[mine.ids[0]] = answer[T]{value, err}
		return
	}
	found, err := b.merged(ctx, mine.ids)
	if err != nil && (throttled(err) || errors.Is(err, context.DeadlineExceeded)) {
		for _, id := range mine.ids {
			mine.answers[id] = answer[T]{err: err}
		}
		return
	}
	var again []string
	for _, id := range mine.ids {
		if value, ok := found[id]; ok && err == nil {
			mine.answers[id] = answer[T]{value: value}
			continue
		}
		again = append(again, id)
	}
	b.each(ctx, again, mine.answers)
}

// each asks for every id by itself, all at a time.
func (b *batcher[T]) each(ctx context.Context, ids []string, into map[string]answer[T]) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			value, err := b.single(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			into[id] = answer[T]{value, err}
		})
	}
	group.Wait()
}
