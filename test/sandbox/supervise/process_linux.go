package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// attributes of a child: a process group of its own, so that Ctrl-C reaches only the supervisor, and SIGKILL from the
// kernel when the supervisor is gone, which ends even a child that is suspended.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// program is this very binary, also when the file was replaced since.
func program() (string, error) { return "/proc/self/exe", nil }

// ownMemory is the resident memory of a process without what is mapped from files: the children run the same
// binary, its pages are in memory once. It is 0 when the process is gone.
func ownMemory(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw)
	if len(fields) < 3 {
		return 0
	}
	resident, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	shared, err := strconv.ParseInt(string(fields[2]), 10, 64)
	if err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
