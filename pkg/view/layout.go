package view

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// wrap breaks text at spaces into lines of at most first, then rest columns. A longer word stands alone on its line and is never cut, so that
// names and commands can be copied. It returns at least one line.
func wrap(text string, first, rest int) []string {
	var lines []string
	limit, current := max(first, 1), ""
	for _, word := range strings.Fields(text) {
		switch {
		case current == "":
			current = word
		case lipgloss.Width(current)+1+lipgloss.Width(word) <= limit:
			current += " " + word
		default:
			lines = append(lines, current)
			current, limit = word, max(rest, 1)
		}
	}
	return append(lines, current)
}

// wrapParts joins parts with a middle dot and breaks lines only between them, so that no part is torn apart unless it is wider than a line.
func wrapParts(parts []string, width int) []string {
	var lines []string
	current := ""
	for _, part := range parts {
		part = strings.Join(strings.Fields(part), " ")
		if current != "" && lipgloss.Width(current)+3+lipgloss.Width(part) <= width {
			current += " · " + part
			continue
		}
		if current != "" {
			lines = append(lines, current+" ·")
		}
		pieces := wrap(part, width, width)
		lines, current = append(lines, pieces[:len(pieces)-1]...), pieces[len(pieces)-1]
	}
	if current == "" {
		return lines
	}
	return append(lines, current)
}

// pad fills text with spaces to width columns.
func pad(text string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
	if right {
		return fill + text
	}
	return text + fill
}

// table writes header and rows; the last column wraps in what the width leaves.
func (p *printer) table(t Table) {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = lipgloss.Width(c.Title)
		for _, r := range t.Rows {
			if i < len(r.Cells) {
				widths[i] = max(widths[i], lipgloss.Width(r.Cells[i]))
			}
		}
	}
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Title
	}
	dim := p.style.Theme.paint(p.style.Theme.Dim, false)
	if strings.Join(head, "") != "" {
		p.row(t, widths, Row{Cells: head}, dim)
	}
	for _, r := range t.Rows {
		style := lipgloss.NewStyle()
		if r.Marked {
			style = p.style.Theme.paint(p.style.Theme.Bad, true)
		}
		p.row(t, widths, r, style)
	}
}

func (p *printer) row(t Table, widths []int, r Row, style lipgloss.Style) {
	last := len(t.Columns) - 1
	head := "  "
	for i := 0; i < last; i++ {
		head += pad(cell(r, i), widths[i], t.Columns[i].Right) + "  "
	}
	indent := lipgloss.Width(head)
	room := max(p.width-indent, 12)
	if longest(cell(r, last)) > room {
		// A name that does not fit is never cut: the cell goes below, where there is more room.
		p.line(style.Render(strings.TrimRight(head, " ")))
		indent = min(indent, 6)
		head, room = strings.Repeat(" ", indent), p.width-indent
	}
	for i, l := range wrap(cell(r, last), room, room) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		if t.Columns[last].Right {
			l = pad(l, min(widths[last], room), true)
		}
		p.line(style.Render(strings.TrimRight(head+l, " ")))
	}
}

// longest is the width of the widest word.
func longest(text string) int {
	n := 0
	for _, word := range strings.Fields(text) {
		n = max(n, lipgloss.Width(word))
	}
	return n
}

func cell(r Row, i int) string {
	if i < len(r.Cells) {
		return r.Cells[i]
	}
	return ""
}
