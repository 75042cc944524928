package disrupt

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// Limits of the search, which keep a pass over thousands of nodes below a second. Work is counted in targets looked at by simulations.
const (
	// largestMove is how many nodes one command takes at most, so that it does not hinge on too many.
	largestMove = 30
	// hopelessAfter is after how many sets in a row without a command no more are tried.
	hopelessAfter = 2
	// retries is how often a set of nodes is tried again without those that spoil it.
	retries = 5
	// singlesWork bounds trying nodes one by one, smallCluster is up to how much of it that is done for the reasons alone.
	singlesWork  = 24_000
	smallCluster = 4_096
	// worthTrying is the part of its price that a node in a large cluster must cost beyond the worth of its pods to be tried by itself.
	worthTrying = 0.05
	// nearOptimum is the distance from the lower bound within which a cluster is left alone.
	nearOptimum = 0.01
	// leastMargin stands for the minimum saving when that is set to less.
	leastMargin = 0.005
)

// search is one look for the cheapest cluster that the candidates' pods can be moved into.
type search struct {
	*decision
	*values
	purse  purse
	held   bool // a node was left out because its pool's budget is used up
	margin float64
	nodes  []*node        // candidates within budget, best first
	frozen map[*node]bool // gone, or taking pods of a command of this pass
	timers []string       // nodes that take no moved pods
	work   int
	// rejected is the last move of several nodes that a score has refused.
	rejected []plan.Move
	// separable allows simulations on a part of the cluster, see lean.
	separable bool
}

// consolidate finds nodes whose pods run cheaper elsewhere (rules 14). Sets of nodes are chosen by what their pods are worth, and each is then
// simulated exactly as it will be validated; commands of one pass are simulated one upon the other.
func (d *decision) consolidate(eligible []*node, single bool) {
	s := &search{decision: d, purse: d.purse(plan.MultiNode.Reason()), frozen: map[*node]bool{}, timers: d.closed(), separable: separable(d.s),
		margin: max(float64(d.s.Settings.MinimumSaving)/1e6, leastMargin)}
	before := d.s
	for _, n := range eligible {
		if s.purse[n.pool.Name] == 0 {
			s.held = true
			continue
		}
		s.nodes = append(s.nodes, n)
	}
	if len(s.nodes) > 0 {
		s.values = d.appraise(eligible)
		slices.SortFunc(s.nodes, s.byWaste)
		d.out.NearOptimal = s.nearOptimal(eligible)
		if !single && !d.out.NearOptimal {
			s.sets()
			if len(d.out.Commands) == 0 {
				d.out.Scored = append(d.out.Scored, s.rejected...)
			}
		}
		if len(d.out.Commands) == 0 {
			s.singles()
		}
	}
	d.s = before
	if len(d.out.Commands) == 0 && !s.held && !d.spent() {
		d.exhausted()
	}
}

// byWaste orders nodes by what they cost beyond the worth of their pods, for each bit of disruption.
func (s *search) byWaste(a, b *node) int {
	return cmp.Or(cmp.Compare(s.excess(b)/b.cost, s.excess(a)/a.cost), byRatio(a, b))
}

// nearOptimal compares what all candidates cost with what their pods are worth, less what the room on other nodes would be worth.
func (s *search) nearOptimal(eligible []*node) bool {
	cost, worth := 0.0, 0.0
	ours := make(map[string]bool, len(eligible))
	open := map[int]bool{}
	for _, n := range eligible {
		ours[n.Name] = true
		cost += n.price.Dollars()
		worth += s.worth[n]
		open[s.regions[n]] = true
	}
	for _, t := range s.s.Targets() {
		if ours[t.Name] || t.Leaving || !t.Initialized {
			continue
		}
		most := 0.0
		for r := range open {
			most = max(most, s.free(r, t))
		}
		worth -= most
	}
	return cost <= worth*(1+nearOptimum)
}

// sets looks for moves of several nodes, region by region. Where budgets let all nodes go that are worth it, they go the shortest way: into the room
// of good nodes and into new ones. Where budgets are short, nodes whose pods fit on any others go first, because that saves most for the pods
// that are moved.
func (s *search) sets() {
	byRegion := map[int][]*node{}
	for _, n := range s.nodes {
		byRegion[s.regions[n]] = append(byRegion[s.regions[n]], n)
	}
	for _, r := range slices.Sorted(maps.Keys(byRegion)) {
		list, short := s.choose(r, byRegion[r], true)
		if short {
			spare, _ := s.choose(r, slices.SortedFunc(slices.Values(byRegion[r]), byRatio), false) // a deletion saves the whole price
			before := len(s.out.Commands)
			s.inTurn(spare, s.tryDeleting)
			if len(s.out.Commands) > before {
				continue
			}
		}
		s.inTurn(list, s.try)
	}
}

// inTurn tries sets of a list until some in a row have brought nothing.
func (s *search) inTurn(list []*node, try func([]*node)) {
	for failed := 0; len(list) > 0 && failed < hopelessAfter && !s.spent(); failed++ {
		n, before := min(len(list), largestMove), len(s.out.Commands)
		try(list[:n])
		if list = list[n:]; len(s.out.Commands) > before {
			failed = -1
		}
	}
}

// choose picks the nodes of a region that are worth removing, as if pods were fluid: first their pods fill the room that is left on others, then new
// nodes are paid for at the best prices. A node is worth it while what it costs is more than what is paid for in its place. With buy set, poor nodes
// take no pods; without it there are no new nodes. Short tells that budgets have kept some nodes out.
func (s *search) choose(region int, nodes []*node, buy bool) (out []*node, short bool) {
	room := 0.0
	closed, roomOn := s.closedNames(nil, buy), s.usable
	if !buy {
		roomOn = s.free // simulations will tell which pods it is too small for
	}
	for _, t := range s.s.Targets() {
		if !closed[t.Name] && !t.Leaving && t.Initialized {
			room += roomOn(region, t)
		}
	}
	purse := maps.Clone(s.purse)
	need, paid := 0.0, 0.0
	for _, n := range nodes {
		price := n.price.Dollars()
		left := room
		if !closed[n.Name] {
			left -= roomOn(region, n.Target)
		}
		pay := max(0, need+s.worth[n]-left)
		if price-(pay-paid) < s.margin*price || !buy && pay > 0 {
			continue
		}
		if !purse.spend(n.pool.Name) {
			short = true
			continue
		}
		out = append(out, n)
		need, room, paid = need+s.worth[n], left, pay
	}
	return out, short
}

// tryDeleting deletes the nodes of a set whose pods all fit on others.
func (s *search) tryDeleting(set []*node) {
	rest := slices.DeleteFunc(slices.Clone(set), func(n *node) bool { return s.frozen[n] || s.purse[n.pool.Name] == 0 })
	for range retries {
		if len(rest) == 0 || s.spent() {
			return
		}
		o := s.run(rest, s.timers)
		spoilers := s.stuck(o)
		if o.ok() {
			spoilers = s.buyers(o)
		}
		if len(spoilers) == 0 {
			if _, no := s.dealOf(o); no.code != "" {
				spoilers = s.refused(o, o, no)
			} else {
				s.accept([]outcome{o}, s.timers)
				return
			}
		}
		rest = slices.DeleteFunc(rest, func(n *node) bool { return slices.Contains(spoilers, n) })
	}
}

// buyers are the nodes with pods that new nodes would be needed for.
func (s *search) buyers(o outcome) []*node {
	bought := map[string]bool{}
	for i := range o.claims {
		for _, uid := range o.claims[i].Pods {
			bought[uid] = true
		}
	}
	out := slices.DeleteFunc(slices.Clone(o.set), func(n *node) bool {
		return !slices.ContainsFunc(n.moving, func(p *cluster.Pod) bool { return bought[p.UID] })
	})
	if len(out) == 0 && len(o.claims) > 0 {
		return o.set // they are for pods that wait anyway
	}
	return out
}

// closedNames are the targets that take no moved pods: those inside consolidateAfter and, if poor nodes are to be avoided, those that are better
// removed than filled, beside the ones of the set.
func (s *search) closedNames(set []*node, avoidPoor bool) map[string]bool {
	out := map[string]bool{}
	for _, name := range s.timers {
		out[name] = true
	}
	if avoidPoor {
		for _, n := range s.survey.nodes {
			if _, known := s.regions[n]; known && !s.frozen[n] && s.poor(n, s.margin) {
				out[n.Name] = true
			}
		}
	}
	for _, n := range set {
		delete(out, n.Name)
	}
	return out
}

// try makes commands of a set of nodes, or of what is left of it without the nodes that spoil it: first without use of poor nodes, then with
// them.
func (s *search) try(set []*node) {
	for _, avoidPoor := range []bool{true, false} {
		rest := slices.DeleteFunc(slices.Clone(set), func(n *node) bool { return s.frozen[n] || s.purse[n.pool.Name] == 0 })
		if len(rest) == 0 {
			return
		}
		closed := slices.Sorted(maps.Keys(s.closedNames(rest, avoidPoor)))
		if !avoidPoor && len(closed) == len(s.timers) && s.nothingPoor() {
			return // the same again
		}
		for range retries {
			if len(rest) == 0 || s.spent() {
				break
			}
			spoilers, moves := s.spoilers(s.run(rest, closed))
			if len(spoilers) == 0 {
				s.accept(moves, closed)
				break
			}
			rest = slices.DeleteFunc(rest, func(n *node) bool { return slices.Contains(spoilers, n) })
		}
	}
}

func (s *search) nothingPoor() bool {
	return !slices.ContainsFunc(s.survey.nodes, func(n *node) bool {
		_, known := s.regions[n]
		return known && !s.frozen[n] && s.poor(n, s.margin)
	})
}

func (s *search) run(set []*node, closed []string) outcome {
	lean := s.lean(set, closed)
	s.work += len(lean.Targets())
	return s.simulate(lean, set, closed)
}

// spoilers returns the nodes of a set because of which its outcome is no good, or not as good as it could be: those with pods that have no
// place, those whose pods need more new nodes than they save, those that a rule objects to. If there are none, moves are what the outcome comes
// to: its parts, each a command of its own, or the whole where only that keeps the rules.
func (s *search) spoilers(o outcome) (spoil []*node, moves []outcome) {
	if !o.ok() {
		return s.stuck(o), nil
	}
	if costly := s.costly(o); len(costly) > 0 {
		return costly, nil
	}
	moves = s.parts(o)
	for _, part := range moves {
		_, no := s.dealOf(part)
		if no.code == "" {
			continue
		}
		if _, all := s.dealOf(o); all.code != "" {
			return s.refused(o, part, no), nil
		}
		return nil, []outcome{o}
	}
	return nil, moves
}

// dealOf is deal with the judgement of Balanced pools.
func (s *search) dealOf(o outcome) (plan.Command, verdict) {
	c, no := s.deal(o)
	if no.code != "" {
		return c, no
	}
	scores, approved := s.judge(o.set, c.Saving)
	c.Scores = scores
	if !approved {
		if len(o.set) > 1 {
			s.rejected = []plan.Move{moveOf(c, false)}
		}
		return c, verdict{code: reason.ScoreTooLow}
	}
	return c, verdict{}
}

// stuck are the nodes with pods that found no place; all of them if none can be blamed.
func (s *search) stuck(o outcome) []*node {
	failed := map[string]bool{}
	for _, x := range o.failed {
		failed[x.Pod.UID] = true
	}
	var out []*node
	for _, n := range o.set {
		for _, p := range n.moving {
			if failed[p.UID] {
				out = append(out, n)
				break
			}
		}
	}
	if len(out) == 0 {
		return o.set
	}
	return out
}

// shares splits the price of the new nodes among the nodes whose pods they are for, by the worth of the pods.
func (s *search) shares(o outcome) map[*node]float64 {
	from := map[string]*node{}
	for _, n := range o.set {
		for _, p := range n.moving {
			from[p.UID] = n
		}
	}
	out := map[*node]float64{}
	for i := range o.claims {
		c := &o.claims[i]
		parts, total := map[*node]float64{}, 0.0
		for _, uid := range c.Pods {
			n := from[uid]
			if n == nil {
				continue // a pod that waits anyway
			}
			p := podByUID(s.s, uid)
			w := at(s.rates[s.regions[n]], p.Shape.Requests) + 1e-9
			parts[n] += w
			total += w
		}
		for n, w := range parts {
			out[n] += float64(c.Price.Dollars() * (w / total))
		}
	}
	return out
}

// costly are nodes that do not save what a replacement has to, as their part of the new nodes costs too much. At most a third of the set is taken
// out at once, the worst first: without them the others look different.
func (s *search) costly(o outcome) []*node {
	if len(o.claims) == 0 {
		return nil
	}
	shares := s.shares(o)
	gain := func(n *node) float64 { return (n.price.Dollars() - shares[n]) / max(n.price.Dollars(), 1e-9) }
	bad := slices.DeleteFunc(slices.Clone(o.set), func(n *node) bool { return gain(n) >= s.margin-1e-9 })
	slices.SortFunc(bad, func(a, b *node) int { return cmp.Or(cmp.Compare(gain(a), gain(b)), byRatio(b, a)) })
	return bad[:min(len(bad), (len(o.set)+2)/3)]
}

// refused are the nodes to leave out where a rule objects to a part of a set.
func (s *search) refused(o, part outcome, no verdict) []*node {
	switch no.code {
	case reason.SameType:
		// One of the node's type stays, the others can move onto it.
		var same []*node
		for _, n := range part.set {
			for i := range part.claims {
				if slices.Contains(part.claims[i].Types, n.typeName) {
					same = append(same, n)
					break
				}
			}
		}
		if len(same) > 0 && len(same) < len(part.set) {
			return same
		}
		return []*node{slices.MaxFunc(part.set, s.byWaste)}
	case reason.SpotToSpotOff:
		if spot := slices.DeleteFunc(slices.Clone(o.set), func(n *node) bool { return n.buyAs != catalog.Spot }); len(spot) < len(o.set) {
			return spot
		}
		return []*node{slices.MaxFunc(o.set, s.byWaste)}
	default:
		return []*node{slices.MaxFunc(part.set, s.byWaste)}
	}
}

// parts splits an outcome into moves that have nothing to do with each other: nodes whose pods share a new node belong together, and those whose
// pods all go onto existing nodes are one more part.
func (s *search) parts(o outcome) []outcome {
	owner := map[string]int{}
	for i, n := range o.set {
		for _, p := range n.moving {
			owner[p.UID] = i
		}
	}
	root := make([]int, len(o.set))
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			i = root[i]
		}
		return i
	}
	home := make([]int, len(o.claims)) // a node of each claim
	buys := make([]bool, len(o.set))
	for j := range o.claims {
		home[j] = -1
		for _, uid := range o.claims[j].Pods {
			i, mine := owner[uid]
			if !mine {
				continue
			}
			if buys[i] = true; home[j] < 0 {
				home[j] = i
			}
			a, b := find(home[j]), find(i)
			root[max(a, b)] = min(a, b)
		}
	}
	at := map[int]int{} // part by root; -1 is that of deletions
	var out []outcome
	partOf := func(i int) *outcome {
		key := find(i)
		if !buys[i] {
			key = -1
		}
		k, ok := at[key]
		if !ok {
			k = len(out)
			at[key] = k
			out = append(out, outcome{})
		}
		return &out[k]
	}
	for i, n := range o.set {
		p := partOf(i)
		p.set = append(p.set, n)
	}
	for j, c := range o.claims {
		// One for pods that wait anyway counts with the first node that needs another (rules 13).
		p := partOf(max(home[j], 0))
		p.claims = append(p.claims, c)
	}
	for _, x := range o.placements {
		p := partOf(owner[x.Pod])
		p.placements = append(p.placements, x)
	}
	return out
}

// accept turns moves into commands. Where there are several, each is simulated by itself upon those before it, since that is how it will be
// validated: without the nodes of the others, which go, too. One that does not hold then is left for a later pass.
func (s *search) accept(moves []outcome, closed []string) {
	slices.SortStableFunc(moves, func(a, b outcome) int { return cmp.Compare(len(a.claims), len(b.claims)) })
	for i, o := range moves {
		shut := slices.Clone(closed)
		if len(moves) > 1 {
			for j, other := range moves {
				for _, n := range other.set {
					if j != i {
						shut = append(shut, n.Name)
					}
				}
			}
			o = s.run(o.set, shut)
		}
		if c, no := s.dealOf(o); no.code == "" && len(s.costly(o)) == 0 {
			c.Avoided = s.avoided(shut)
			s.commit(o, c)
		}
	}
}

// avoided are the closed targets that are not so by a rule.
func (s *search) avoided(closed []string) []string {
	return slices.DeleteFunc(closed, func(name string) bool { return slices.Contains(s.timers, name) })
}

func (s *search) commit(o outcome, c plan.Command) {
	s.out.Scored = append(s.out.Scored, moveOf(c, true))
	taking := map[string]bool{}
	for _, x := range o.placements {
		taking[cmp.Or(x.Node, x.Claim)] = true
	}
	for _, n := range s.survey.nodes {
		if taking[n.Name] {
			s.frozen[n] = true
		}
	}
	for _, n := range o.set {
		s.frozen[n] = true
		s.purse.spend(n.pool.Name)
	}
	s.out.Commands = append(s.out.Commands, c)
	s.apply(o.set, o)
}

func moveOf(c plan.Command, approved bool) plan.Move {
	m := plan.Move{Method: c.Method, Pools: c.Pools(), Approved: approved, Scores: c.Scores}
	for i := range c.Candidates {
		m.Nodes = append(m.Nodes, c.Candidates[i].Node)
	}
	return m
}

// singles tries nodes one by one, best first, and reports why each must stay. In large clusters only those are tried that could save enough, as
// many as the work allows, and each turn begins elsewhere.
func (s *search) singles() {
	list := s.nodes
	small := len(list)*len(s.s.Targets()) <= smallCluster
	if !small {
		if s.out.NearOptimal {
			return
		}
		list = slices.DeleteFunc(slices.Clone(list), func(n *node) bool { return s.excess(n) < float64(worthTrying*n.price.Dollars()) })
		list = s.turned(list)
	}
	limit := s.work + singlesWork
	for _, n := range list {
		if s.spent() || !small && s.work >= limit {
			return
		}
		if s.frozen[n] || s.purse[n.pool.Name] == 0 || s.hopeless(n) {
			continue
		}
		o := s.run([]*node{n}, s.timers)
		c, no := s.dealOf(o)
		if no.code == "" {
			s.commit(o, c)
			continue
		}
		if no.code == reason.ScoreTooLow {
			s.out.Scored = append(s.out.Scored, moveOf(c, false))
		}
		s.objectTo(n, o, no)
	}
}

// turned begins the list at another place each turn, as far apart as the work of one turn goes.
func (s *search) turned(list []*node) []*node {
	if len(list) == 0 {
		return nil
	}
	stride := max(singlesWork/max(len(s.s.Targets()), 1), 1)
	from := s.opts.Turn * stride % len(list)
	return slices.Concat(list[from:], list[:from])
}

// objectTo reports why a node can be neither deleted nor replaced.
func (s *search) objectTo(n *node, o outcome, no verdict) {
	x := objection{code: no.code}
	switch no.code {
	case reason.PodsWouldNotFit, reason.UninitializedTarget:
		x.objects = missed(o.failed)
	case reason.SpotFlexibility:
		x.detail = counts(no.wanted, no.found)
	case reason.NoCheaperReplacement:
		if len(o.claims) > 1 {
			x.code, x.detail = reason.NeedsMoreThanOneNode, counts(len(o.claims), 1)
		}
	case reason.ScoreTooLow:
		return // recorded by singles
	default: // the code says it all
	}
	s.report(n, "Unconsolidatable", plan.SingleNode, x)
}

func counts(a, b int) string { return strconv.Itoa(a) + " " + strconv.Itoa(b) }
