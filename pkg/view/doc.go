// Package view renders what the engine found for people and for programs: the same facts as text, table or JSON.
//
// A report for people is a Doc: one sentence that answers, the facts behind it, sections with the evidence, fixes, and where the facts came
// from. Width, colour and symbols are decided once, in a Style, by the program; a Doc knows nothing of them. The rules are those of the plugin's
// documentation (conventions shared by all commands).
package view

// Doc is one answer for people.
type Doc struct {
	// Answer is the one sentence that says it all.
	Answer string
	// Facts stand on one line below the answer, e.g. "pending 14m", "code TooBig".
	Facts    []string
	Sections []Section
	// Sources say where the facts came from and how old they are.
	Sources []string
}

// Section is a titled block. It has any of notes, sums, a table and fixes, in this order.
type Section struct {
	// Title in capitals; Subject follows it on the same line.
	Title, Subject string
	Notes          []string
	Sums           []Sum
	Table          *Table
	Fixes          []Fix
}

// Sum is one line of a calculation: a label, an amount that is right-aligned with the others, and a remark.
type Sum struct {
	Label, Amount, Remark string
	// Result marks the line that the ones above lead to, Bad the shortage.
	Result, Bad bool
}

// Table has aligned columns. The last column takes what is left of the width and wraps.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Column is a header with its alignment.
type Column struct {
	Title string
	Right bool
}

// Row is a line of a table. A marked row carries a sign and is emphasised.
type Row struct {
	Cells  []string
	Marked bool
}

// Fix is one thing that somebody can do.
type Fix struct {
	// Owner is who can do it: pod owner, pool owner, cluster, cloud, wait, accept.
	Owner, Summary string
	// Command can be copied as it stands; lines are kept.
	Command []string
	// Effect is what was simulated: what would be launched and what would drift.
	Effect string
	// Untested marks a fix that lies outside of the simulation.
	Untested bool
}
