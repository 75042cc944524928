package cli

import (
	"io"
	"os"
	"time"

	"charm.land/lipgloss/v2"
)

// darkBackground asks the terminal for its background, for at most 50 ms; a terminal that does not answer is taken for dark.
func darkBackground(in io.Reader, out *os.File) bool {
	stdin, ok := in.(*os.File)
	if !ok || out == nil {
		return true
	}
	answer := make(chan bool, 1)
	go func() { answer <- lipgloss.HasDarkBackground(stdin, out) }()
	select {
	case dark := <-answer:
		return dark
	case <-time.After(50 * time.Millisecond):
		return true
	}
}
