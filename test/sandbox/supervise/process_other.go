//go:build !linux

package supervise

import (
	"os"
	"syscall"
)

// attributes of a child: a process group of its own, so that Ctrl-C reaches only the supervisor. Without Linux' parent
// death signal a child notices by its lifeline that the supervisor is gone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func program() (string, error) { return os.Executable() }

func ownMemory(int) int64 { return 0 }
