package pack

import "math"

// column is one way to fill a node: how many of each item, at which price.
type column struct {
	items  []int32
	counts []int32
	price  float64
	market int
	bin    int // index in the market's bins
}

// master is the linear program of column generation: choose non-negative numbers of columns that cover the demand of every item at the
// lowest price. It is solved by the revised simplex method with an explicit inverse of the basis; the basis starts with one column an item.
//
// Products are converted explicitly before they are added, so that no architecture fuses them and results are the same everywhere.
type master struct {
	m       int
	demand  []float64
	columns []column
	basis   []int // by row: index in columns, or -1-i for the surplus of item i
	inverse []float64
	x       []float64 // values of the basic columns
	duals   []float64
	pivots  int
	dir     []float64
}

const tiny = 1e-9

// newMaster starts with columns[i] covering item i alone.
func newMaster(demand []float64, first []column) *master {
	m := &master{m: len(demand), demand: demand, columns: first, basis: make([]int, len(demand)), inverse: make([]float64, len(demand)*len(demand)),
		x: make([]float64, len(demand)), duals: make([]float64, len(demand)), dir: make([]float64, len(demand))}
	for i := range first {
		k := float64(first[i].counts[0])
		m.basis[i] = i
		m.inverse[i*m.m+i] = 1 / k
		m.x[i] = demand[i] / k
		m.duals[i] = first[i].price / k
	}
	return m
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

// entering returns the column (or surplus) of the greatest relative gain.
func (m *master) entering() (int, bool) {
	best, gain := 0, 1e-6
	for j := range m.columns {
		c := &m.columns[j]
		if g := (m.value(c) - c.price) / c.price; g > gain {
			best, gain = j, g
		}
	}
	if gain > 1e-6 {
		return best, true
	}
	for i, y := range m.duals {
		if y < -1e-9 {
			return -1 - i, true
		}
	}
	return 0, false
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
			a := float64(c.counts[k])
			for r := range n {
				m.dir[r] += float64(m.inverse[r*n+int(i)] * a)
			}
		}
	} else {
		i := -1 - enter
		gain = m.duals[i]
		for r := range n {
			m.dir[r] = -m.inverse[r*n+i]
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
		m.duals[i] += float64(gain * v)
	}
}

// total is the price of the current solution.
func (m *master) total() float64 {
	sum := 0.0
	for r, j := range m.basis {
		if j >= 0 {
			sum += float64(m.columns[j].price * m.x[r])
		}
	}
	return sum
}
