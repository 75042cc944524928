package bootstrap

import (
	"fmt"
	"strings"
)

// shellWords splits a script into commands of words as a POSIX shell does, as
// far as bootstrap calls need it: quotes, backslashes, continued lines and
// comments. Expansions are left as they are written.
func shellWords(script string) ([][]string, error) {
	l := &lexer{text: strings.ReplaceAll(script, "\r\n", "\n"), escape: '\\', quoteEscape: `"\$` + "`"}
	return l.commands()
}

// powershellWords does the same for PowerShell, whose escape is the backtick
// and whose quotes are escaped by doubling them.
func powershellWords(script string) ([][]string, error) {
	l := &lexer{text: strings.ReplaceAll(script, "\r\n", "\n"), escape: '`', doubled: true}
	return l.commands()
}

type lexer struct {
	text        string
	pos         int
	escape      byte
	quoteEscape string // what the escape escapes within double quotes; empty: anything
	doubled     bool   // '' within quotes is a quote

	out    [][]string
	words  []string
	word   strings.Builder
	inWord bool
}

func (l *lexer) commands() ([][]string, error) {
	for l.pos < len(l.text) {
		if err := l.step(); err != nil {
			return nil, err
		}
	}
	l.endCommand()
	return l.out, nil
}

func (l *lexer) step() error {
	c := l.text[l.pos]
	l.pos++
	switch {
	case c == l.escape && l.pos < len(l.text):
		next := l.text[l.pos]
		l.pos++
		if next != '\n' {
			l.add(next)
		}
	case c == '\'' || c == '"':
		return l.quoted(c)
	case c == '#' && !l.inWord:
		for l.pos < len(l.text) && l.text[l.pos] != '\n' {
			l.pos++
		}
	case c == ' ' || c == '\t':
		l.endWord()
	case c == '\n' || c == ';':
		l.endCommand()
	default:
		l.add(c)
	}
	return nil
}

func (l *lexer) add(c byte) {
	l.inWord = true
	l.word.WriteByte(c)
}

func (l *lexer) quoted(quote byte) error {
	l.inWord = true
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		l.pos++
		switch {
		case c == quote && l.doubled && l.pos < len(l.text) && l.text[l.pos] == quote:
			l.pos++
			l.word.WriteByte(quote)
		case c == quote:
			return nil
		case c == l.escape && quote == '"' && l.pos < len(l.text) && (l.quoteEscape == "" || strings.IndexByte(l.quoteEscape, l.text[l.pos]) >= 0):
			l.word.WriteByte(l.text[l.pos])
			l.pos++
		default:
			l.word.WriteByte(c)
		}
	}
	return fmt.Errorf("unexpected end of the script while looking for a matching %c", quote)
}

func (l *lexer) endWord() {
	if l.inWord {
		l.words = append(l.words, l.word.String())
	}
	l.word.Reset()
	l.inWord = false
}

func (l *lexer) endCommand() {
	l.endWord()
	if len(l.words) > 0 {
		l.out = append(l.out, l.words)
	}
	l.words = nil
}
