package pack

import (
	"cmp"
	"math"
	"slices"
)

// column is one way to fill a node: how many of each item, at which price.
type column struct {
	items  []int32
	counts []int32
	price  float64
	market int
	bin    int // index in the market's bins
}

// master is the linear program of column generation: choose non-negative numbers of columns that cover the demand of every item at the
// lowest price. It is solved by the revised simplex method with an explicit inverse of the basis; the basis starts with one column an item. Items
// without demand take no part. A master can be used again; its memory stays.
//
// Products are converted explicitly before they are added, so that no architecture fuses them and results are the same everywhere.
type master struct {
	m       int     // rows
	rows    []int32 // item of each row
	rowOf   []int32 // row of each item, -1 if it has no demand
	columns []column
	basis   []int // by row: index in columns, or -1-r for the surplus of row r
	inverse []float64
	x       []float64 // values of the basic columns
	duals   []float64 // by item
	pivots  int
	dir     []float64
	able    []candidate
}

// candidate is a column that may enter the basis, with its gain when it was last looked at.
type candidate struct {
	column int
	gain   float64
}

const (
	tiny = 1e-9
	// enough is the least relative gain for which a column enters.
	enough = 1e-6
	// able is how many columns are looked at again before all of them are.
	able = 24
)

// reset starts with columns[i] covering item i alone.
func (m *master) reset(demand []float64, first []column) {
	m.rows, m.rowOf, m.columns, m.pivots, m.able = m.rows[:0], m.rowOf[:0], m.columns[:0], 0, m.able[:0]
	for i, d := range demand {
		if d <= 0 {
			m.rowOf = append(m.rowOf, -1)
			continue
		}
		m.rowOf = append(m.rowOf, int32(len(m.rows)))
		m.rows = append(m.rows, int32(i))
		m.columns = append(m.columns, first[i])
	}
	m.m = len(m.rows)
	m.basis = slices.Grow(m.basis[:0], m.m)[:m.m]
	m.inverse, m.x, m.dir, m.duals = cleared(m.inverse, m.m*m.m), cleared(m.x, m.m), cleared(m.dir, m.m), cleared(m.duals, len(demand))
	for r, i := range m.rows {
		k := float64(first[i].counts[0])
		m.basis[r] = r
		m.inverse[r*m.m+r] = 1 / k
		m.x[r] = demand[i] / k
		m.duals[i] = first[i].price / k
	}
}

// cleared returns n zeros, in the memory of list if that is large enough.
func cleared(list []float64, n int) []float64 {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// value returns the value of a column's items at the current duals.
func (m *master) value(c *column) float64 {
	v := 0.0
	for k, i := range c.items {
		v += float64(m.duals[i] * float64(c.counts[k]))
	}
	return v
}

// solve pivots until no column at hand improves.
func (m *master) solve(maxPivots int) {
	for n := 0; n < maxPivots; n++ {
		enter, ok := m.entering()
		if !ok || !m.pivot(enter) {
			return
		}
	}
}

func (m *master) gain(j int) float64 {
	c := &m.columns[j]
	return (m.value(c) - c.price) / c.price
}

// entering returns the column of the greatest relative gain among the candidates, or, when none of them has any, a surplus.
func (m *master) entering() (int, bool) {
	if best := m.bestAble(); best >= 0 {
		return best, true
	}
	m.nominate()
	if best := m.bestAble(); best >= 0 {
		return best, true
	}
	for r, i := range m.rows {
		if m.duals[i] < -1e-9 {
			return -1 - r, true
		}
	}
	return 0, false
}

// bestAble looks at the candidates again and forgets those that have become worthless.
func (m *master) bestAble() int {
	best, gain, w := -1, enough, 0
	for _, c := range m.able {
		g := m.gain(c.column)
		if g <= enough {
			continue
		}
		m.able[w] = candidate{c.column, g}
		w++
		if g > gain || best >= 0 && g == gain && c.column < best {
			best, gain = c.column, g
		}
	}
	m.able = m.able[:w]
	return best
}

// nominate makes the columns of the greatest gain candidates.
func (m *master) nominate() {
	m.able = m.able[:0]
	for j := range m.columns {
		if g := m.gain(j); g > enough {
			m.able = append(m.able, candidate{j, g})
		}
	}
	if len(m.able) > able {
		slices.SortFunc(m.able, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.column, b.column)) })
		m.able = m.able[:able]
	}
}

// pivot brings a column into the basis. It returns false when numbers have become too small to go on.
func (m *master) pivot(enter int) bool {
	n, gain := m.m, 0.0
	for r := range m.dir {
		m.dir[r] = 0
	}
	if enter >= 0 {
		c := &m.columns[enter]
		gain = c.price - m.value(c)
		for k, i := range c.items {
			a, at := float64(c.counts[k]), int(m.rowOf[i])
			for r := range n {
				m.dir[r] += float64(m.inverse[r*n+at] * a)
			}
		}
	} else {
		at := -1 - enter
		gain = m.duals[m.rows[at]]
		for r := range n {
			m.dir[r] = -m.inverse[r*n+at]
		}
	}
	row, theta := -1, math.Inf(1)
	for r, d := range m.dir {
		if d > 1e-7 {
			if t := m.x[r] / d; t < theta-tiny || t < theta+tiny && row >= 0 && m.dir[row] < d {
				row, theta = r, t
			}
		}
	}
	if row < 0 {
		return false
	}
	m.exchange(row, enter, math.Max(theta, 0))
	m.reprice(row, gain)
	m.pivots++
	return true
}

func (m *master) exchange(row, enter int, theta float64) {
	n := m.m
	inv := 1 / m.dir[row]
	pivotRow := m.inverse[row*n : row*n+n]
	for k := range pivotRow {
		pivotRow[k] = float64(pivotRow[k] * inv)
	}
	for r, d := range m.dir {
		if r == row || math.Abs(d) < 1e-13 {
			continue
		}
		m.x[r] -= float64(theta * d)
		if m.x[r] < 0 && m.x[r] > -1e-7 {
			m.x[r] = 0
		}
		other := m.inverse[r*n : r*n+n]
		for k, p := range pivotRow {
			other[k] -= float64(d * p)
		}
	}
	m.x[row], m.basis[row] = theta, enter
}

// reprice updates the duals after a pivot: they move along the new pivot row by the reduced cost of the column that came in.
func (m *master) reprice(row int, gain float64) {
	for i, v := range m.inverse[row*m.m : row*m.m+m.m] {
		m.duals[m.rows[i]] += float64(gain * v)
	}
}
