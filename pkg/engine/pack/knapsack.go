package pack

import (
	"cmp"
	"math"
	"slices"
)

// bin is an instance type as a market sells it: what it holds and its lowest price there.
type bin struct {
	variant int
	free    []int64
	price   float64
}

// market is a set of offerings in which some of the items may be bought together.
type market struct {
	bins  []bin // none is at most as large and at least as dear as another
	items []int32
}

// knapsack finds good fillings of bins for given values of the items.
type knapsack struct {
	dims    int
	size    []int64 // items x dims
	cap     []int32 // most of an item in one bin
	value   []float64
	orders  [][]int32 // of the market at hand
	counts  []int32   // scratch, by item
	best    []int32
	free    []int64
	score   []float64
	live    []int32
	inverse []float64
	rate    []float64 // price of a unit of each resource
	bulk    []float64 // preference of large items
}

func newKnapsack(size []int64, dims int, caps []int32) *knapsack {
	n := len(caps)
	return &knapsack{dims: dims, size: size, cap: caps, counts: make([]int32, n), best: make([]int32, n), free: make([]int64, dims), score: make([]float64, n),
		inverse: make([]float64, dims), rate: make([]float64, dims), bulk: make([]float64, n)}
}

// prepare sorts a market's items by value for several shapes of bins: relative to what each resource costs in the first, the middle and the last
// kind of bin, and to single resources.
func (k *knapsack) prepare(m *market, weights [][]float64) {
	for len(k.orders) < len(weights) {
		k.orders = append(k.orders, nil)
	}
	k.orders = k.orders[:len(weights)]
	for _, i := range m.items {
		k.best[i], k.counts[i] = 0, 0
	}
	for o, w := range weights {
		list := k.orders[o][:0]
		for _, i := range m.items {
			if k.cap[i] == 0 || k.value[i] <= 1e-12 {
				continue
			}
			share := 1e-12
			for d := range k.dims {
				share += float64(w[d] * float64(k.size[int(i)*k.dims+d]))
			}
			k.score[i] = k.value[i] / share
			list = append(list, i)
		}
		slices.SortFunc(list, func(a, b int32) int { return cmp.Or(cmp.Compare(k.score[b], k.score[a]), cmp.Compare(a, b)) })
		k.orders[o] = list
	}
}

// fill packs a bin with the best of the prepared orders; the result stays in k.best until the next call.
func (k *knapsack) fill(b *bin) float64 {
	bestValue := -1.0
	for _, order := range k.orders {
		for _, i := range order {
			k.counts[i] = 0
		}
		copy(k.free, b.free)
		v := k.greedy(order)
		if v > bestValue {
			bestValue = v
			for _, i := range order {
				k.best[i] = k.counts[i]
			}
		}
	}
	return bestValue
}

// greedy adds items in order, each as often as it fits, to what k.counts and k.free hold.
func (k *knapsack) greedy(order []int32) float64 {
	v := 0.0
	for _, i := range order {
		n := int64(k.cap[i] - k.counts[i])
		size := k.size[int(i)*k.dims : int(i)*k.dims+k.dims]
		for d, s := range size {
			f := k.free[d]
			if s > f {
				n = 0
				break
			}
			if s > 0 && s*n > f {
				n = f / s
			}
		}
		if n <= 0 {
			continue
		}
		for d, s := range size {
			k.free[d] -= s * n
		}
		k.counts[i] += int32(n)
		v += float64(k.value[i] * float64(n))
	}
	return v
}

// balance packs a bin anew, choosing at every step the item with the most value for what it takes: resources are weighed by their price (rate) and
// by how scarce they have become in the bin, so that none runs out long before the others. Items are added in chunks; large ones get a
// small preference, because small ones fill gaps later. If the result is better than v it replaces k.best; the better value is returned.
func (k *knapsack) balance(b *bin, v float64, sharpness int) float64 {
	order := k.orders[0]
	for _, i := range order {
		k.counts[i] = 0
	}
	copy(k.free, b.free)
	got := 0.0
	k.live = append(k.live[:0], order...)
	for {
		k.scarcity(b, sharpness)
		pick, best := int32(-1), 0.0
		w := 0
	items:
		for _, i := range k.live {
			size := k.size[int(i)*k.dims : int(i)*k.dims+k.dims]
			share := 1e-15
			for d, s := range size {
				if s > k.free[d] {
					continue items // never fits again
				}
				share += float64(float64(s) * k.inverse[d])
			}
			k.live[w] = i
			w++
			if score := float64(k.value[i]/share) * k.bulk[i]; score > best {
				pick, best = i, score
			}
		}
		k.live = k.live[:w]
		if pick < 0 {
			break
		}
		got += float64(k.value[pick] * float64(k.chunk(pick)))
	}
	if got <= v {
		return v
	}
	for _, i := range order {
		k.best[i] = k.counts[i]
	}
	return got
}

// setBulk computes the preference of large items from the rates: the 32nd root of what their resources cost. Square roots are exact everywhere.
func (k *knapsack) setBulk() {
	for i := range k.bulk {
		size := 0.0
		for d := range k.dims {
			size += float64(k.rate[d] * float64(k.size[i*k.dims+d]))
		}
		for range 5 {
			size = math.Sqrt(size)
		}
		k.bulk[i] = math.Max(size, 1e-6)
	}
}

// scarcity sets the weight of every resource from its rate and the part of the bin that is still free.
func (k *knapsack) scarcity(b *bin, sharpness int) {
	for d, f := range k.free {
		k.inverse[d] = 0
		if f <= 0 {
			continue
		}
		used := float64(b.free[d]) / float64(f)
		w := k.rate[d]
		for range sharpness {
			w = float64(w * used)
		}
		k.inverse[d] = w
	}
}

// chunk adds an eighth of what fits of an item, at least one, and returns how many that was. An item at its cap leaves the list.
func (k *knapsack) chunk(i int32) int32 {
	n := int64(k.cap[i] - k.counts[i])
	size := k.size[int(i)*k.dims : int(i)*k.dims+k.dims]
	for d, s := range size {
		if s > 0 && s*n > k.free[d] {
			n = k.free[d] / s
		}
	}
	n = (n + 7) / 8
	for d, s := range size {
		k.free[d] -= s * n
	}
	k.counts[i] += int32(n)
	if k.counts[i] >= k.cap[i] {
		if at := slices.Index(k.live, i); at >= 0 {
			k.live = slices.Delete(k.live, at, at+1)
		}
	}
	return int32(n)
}

// polish tries to better k.best by taking out one unit of an item and refilling; it returns the value reached from the one given.
func (k *knapsack) polish(b *bin, v float64) float64 {
	order := k.orders[0]
	for again := true; again; {
		again = false
		for _, out := range order {
			if k.best[out] == 0 {
				continue
			}
			if w, ok := k.without(b, order, out, v); ok {
				v, again = w, true
			}
		}
	}
	return v
}

// without refills the bin after one unit of an item was taken out, the item itself excluded.
func (k *knapsack) without(b *bin, order []int32, out int32, v float64) (float64, bool) {
	copy(k.free, b.free)
	for _, i := range order {
		k.counts[i] = k.best[i]
		for d := range k.dims {
			k.free[d] -= k.size[int(i)*k.dims+d] * int64(k.best[i])
		}
	}
	k.counts[out]--
	for d := range k.dims {
		k.free[d] += k.size[int(out)*k.dims+d]
	}
	capOut := k.cap[out]
	k.cap[out] = k.counts[out]
	w := v - k.value[out]
	best, bestOrder := w, -1
	for o := range k.orders {
		free := slices.Clone(k.free)
		counts := slices.Clone(k.counts)
		if got := w + k.greedy(k.orders[o]); got > best {
			best, bestOrder = got, o
		}
		copy(k.free, free)
		copy(k.counts, counts)
	}
	if bestOrder >= 0 && best > v*(1+1e-9) {
		k.greedy(k.orders[bestOrder])
		for _, i := range order {
			k.best[i] = k.counts[i]
		}
		k.cap[out] = capOut
		return best, true
	}
	k.cap[out] = capOut
	return v, false
}

// column returns k.best as a column.
func (k *knapsack) column(items []int32, market, bin int, price float64) column {
	c := column{price: price, market: market, bin: bin}
	for _, i := range items {
		if k.best[i] > 0 {
			c.items, c.counts = append(c.items, i), append(c.counts, k.best[i])
		}
	}
	return c
}
