package cluster

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// AddPod adds a pod while a whole cluster is read at once. It does what SetPod does and costs less: nothing is looked up by UID until a pod
// changes. After the first snapshot, and after SetPod and DeletePod, it is the same as SetPod.
func (b *Builder) AddPod(p *Pod) {
	if b.podList != nil || b.pods.byKey != nil || len(b.pods.keys) > 0 {
		b.SetPod(p)
		return
	}
	if len(b.spare) == 0 {
		b.spare = make([]podEntry, 64)
	}
	entry := &b.spare[0]
	b.spare = b.spare[1:]
	b.fill(entry, p)
	b.loading = append(b.loading, entry)
}

// GrowPods makes room for so many pods to be added.
func (b *Builder) GrowPods(n int) {
	b.loading = slices.Grow(b.loading, n)
	b.spare = make([]podEntry, n)
}

// load lists the pods that AddPod collected; of several with one UID the last counts.
func (b *Builder) load() {
	if len(b.loading) == 0 {
		return
	}
	entries := b.latest()
	b.loading, b.spare = nil, nil
	keys := make([]string, len(entries))
	b.podList = make([]*Pod, len(entries))
	for i, e := range entries {
		keys[i], b.podList[i] = e.UID, e.Pod
		b.enlist(e)
	}
	b.pods.fill(keys, entries)
}

// latest sorts the added pods by UID and keeps the last of those with the same one. UIDs differ early, so a radix sort of their beginnings
// does most of it.
func (b *Builder) latest() []*podEntry {
	added := b.loading
	order := make([]head, len(added))
	for i, e := range added {
		order[i] = head{begin: beginning(e.UID), at: int32(i)}
	}
	order = radixSort(order)
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && order[to].begin == order[from].begin {
			to++
		}
		if to > from+1 {
			slices.SortFunc(order[from:to], func(x, y head) int {
				return cmp.Or(cmp.Compare(added[x.at].UID, added[y.at].UID), cmp.Compare(x.at, y.at))
			})
		}
		from = to
	}
	out := make([]*podEntry, 0, len(added))
	for _, h := range order {
		e := added[h.at]
		if n := len(out); n > 0 && out[n-1].UID == e.UID {
			b.release(out[n-1])
			out[n-1] = e
			continue
		}
		out = append(out, e)
	}
	return out
}

// head is the beginning of a string and the place of the string in a list.
type head struct {
	begin uint64
	at    int32
}

// beginning is the first eight bytes as a number that compares like the string.
func beginning(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}

// radixSort sorts by the beginnings and keeps the order of equal ones; the result is in list or in memory of its own.
func radixSort(list []head) []head {
	other := make([]head, len(list))
	for shift := 0; shift < 64; shift += 8 {
		var count [256]int
		for i := range list {
			count[byte(list[i].begin>>shift)]++
		}
		if len(list) > 0 && count[byte(list[0].begin>>shift)] == len(list) {
			continue // all are the same here
		}
		at := 0
		for i, n := range count {
			count[i], at = at, at+n
		}
		for i := range list {
			c := &count[byte(list[i].begin>>shift)]
			other[*c] = list[i]
			*c++
		}
		list, other = other, list
	}
	return list
}
