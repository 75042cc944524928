package view

import (
	"fmt"
	"image/color"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
)

// Style is everything about a rendering that is not content.
type Style struct {
	// Width in columns; 0 means 100.
	Width int
	// Profile is what the output can show; colorprofile.NoTTY shows neither colour nor weight.
	Profile colorprofile.Profile
	// Theme colours the text.
	Theme Theme
	// ASCII replaces symbols and box drawing.
	ASCII bool
	// Quiet prints only the answer.
	Quiet bool
}

// Theme is a set of colours. The zero Theme has none.
type Theme struct {
	Good, Bad, Accent, Dim color.Color
}

// ThemeNames lists the themes besides auto.
func ThemeNames() []string { return []string{"dark", "light", "deuteranopia", "mono"} }

// NamedTheme returns the theme of that name; ok is false if there is none.
func NamedTheme(name string) (Theme, bool) {
	switch name {
	case "dark":
		return Theme{Good: lipgloss.Color("#7ee787"), Bad: lipgloss.Color("#ff7b72"), Accent: lipgloss.Color("#79c0ff"), Dim: lipgloss.Color("#8b949e")}, true
	case "light":
		return Theme{Good: lipgloss.Color("#116329"), Bad: lipgloss.Color("#a40e26"), Accent: lipgloss.Color("#0550ae"), Dim: lipgloss.Color("#57606a")}, true
	case "deuteranopia":
		return Theme{Good: lipgloss.Color("#56b4e9"), Bad: lipgloss.Color("#e69f00"), Accent: lipgloss.Color("#0072b2"), Dim: lipgloss.Color("#8b949e")}, true
	case "mono":
		return Theme{}, true
	}
	return Theme{}, false
}

func (t Theme) paint(c color.Color, bold bool) lipgloss.Style {
	s := lipgloss.NewStyle().Bold(bold)
	if c != nil {
		s = s.Foreground(c)
	}
	return s
}

// Print writes the document.
func Print(w io.Writer, d Doc, s Style) error {
	return s.write(w, Text(d, s))
}

// write reduces the escape sequences in text to what the output can show.
func (s Style) write(w io.Writer, text string) error {
	cw := &colorprofile.Writer{Forward: w, Profile: s.Profile}
	if _, err := io.WriteString(cw, text); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Text lays the document out at the style's width, with escape sequences for all that the theme can show.
func Text(d Doc, s Style) string {
	p := &printer{style: s, width: s.width()}
	p.wrapped(p.style.Theme.paint(nil, true), d.Answer, 0, 0)
	if !s.Quiet {
		p.facts(d.Facts)
		for _, sec := range d.Sections {
			p.section(sec)
		}
		if len(d.Sources) > 0 {
			p.line("")
			p.parts(d.Sources, "SOURCES  ")
		}
	}
	if s.ASCII {
		return ascii(p.b.String())
	}
	return p.b.String()
}

func (s Style) width() int {
	if s.Width <= 0 {
		return 100
	}
	return max(s.Width, 40)
}

// ascii spells the symbols of reports in ASCII.
func ascii(text string) string {
	return strings.NewReplacer("→", "->", "←", "<-", "−", "-", "·", "|", "×", "x", "✗", "x", "✓", "ok", "≤", "<=", "≥", ">=", "…", "...", "–", "-", "█", "#", "░", ".").Replace(text)
}

type printer struct {
	b     strings.Builder
	style Style
	width int
}

func (p *printer) line(text string) {
	p.b.WriteString(strings.TrimRight(text, " "))
	p.b.WriteByte('\n')
}

// wrapped writes text in words: the first line after first spaces, the others after rest.
func (p *printer) wrapped(style lipgloss.Style, text string, first, rest int) {
	for i, l := range wrap(text, p.width-first, p.width-rest) {
		indent := first
		if i > 0 {
			indent = rest
		}
		p.line(strings.Repeat(" ", indent) + style.Render(l))
	}
}

func (p *printer) facts(facts []string) {
	if len(facts) == 0 {
		return
	}
	p.line("")
	p.parts(facts, "  ")
}

// parts writes dim facts in a row, with head before the first line and as much space before the others.
func (p *printer) parts(parts []string, head string) {
	dim := p.style.Theme.paint(p.style.Theme.Dim, false)
	for _, l := range wrapParts(parts, p.width-len(head)-2) {
		p.line(dim.Render(head + l))
		head = strings.Repeat(" ", len(head))
	}
}

func (p *printer) section(sec Section) {
	p.line("")
	if sec.Title != "" {
		head := p.style.Theme.paint(p.style.Theme.Accent, true).Render(sec.Title)
		if sec.Subject == "" {
			p.line(head)
		} else {
			for i, l := range wrap(sec.Subject, p.width-lipgloss.Width(sec.Title)-3, p.width-lipgloss.Width(sec.Title)-3) {
				if i > 0 {
					head = strings.Repeat(" ", lipgloss.Width(sec.Title))
				}
				p.line(head + "   " + l)
			}
		}
	}
	for _, n := range sec.Notes {
		p.wrapped(lipgloss.NewStyle(), n, 2, 4)
	}
	p.sums(sec.Sums)
	if sec.Table != nil {
		p.table(*sec.Table)
	}
	p.fixes(sec.Fixes)
}

// sums aligns labels left and amounts right.
func (p *printer) sums(sums []Sum) {
	label, amount := 0, 0
	for _, s := range sums {
		label = max(label, lipgloss.Width(s.Label))
		amount = max(amount, lipgloss.Width(s.Amount))
	}
	for _, s := range sums {
		style := lipgloss.NewStyle()
		if s.Bad {
			style = p.style.Theme.paint(p.style.Theme.Bad, true)
		} else if s.Result {
			style = style.Bold(true)
		}
		head := "  " + pad(s.Label, label, false) + "  " + pad(s.Amount, amount, true)
		indent := lipgloss.Width(head) + 3
		for i, l := range wrap(s.Remark, p.width-indent, p.width-indent) {
			if i > 0 {
				p.line(strings.Repeat(" ", indent) + l)
				continue
			}
			p.line(style.Render(head) + "   " + l)
		}
	}
}

func (p *printer) fixes(fixes []Fix) {
	owner := 0
	for _, f := range fixes {
		owner = max(owner, lipgloss.Width(f.Owner))
	}
	for i, f := range fixes {
		head := fmt.Sprintf("%3d  %s  ", i+1, pad(f.Owner, owner, false))
		indent := lipgloss.Width(head)
		summary := f.Summary
		if f.Untested {
			summary += " (not simulated)"
		}
		for j, l := range wrap(summary, p.width-indent, p.width-indent) {
			if j > 0 {
				head = strings.Repeat(" ", indent)
			}
			p.line(head + l)
		}
		for _, c := range f.Command {
			p.line(strings.Repeat(" ", indent) + p.style.Theme.paint(p.style.Theme.Accent, false).Render(c))
		}
		if f.Effect != "" {
			p.wrapped(p.style.Theme.paint(p.style.Theme.Good, false), "→ "+f.Effect, indent, indent+2)
		}
	}
}
