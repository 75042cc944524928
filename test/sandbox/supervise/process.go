package supervise

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// lifelineVariable names the file descriptor by which a child sees that its supervisor is gone.
const lifelineVariable = "KARP_SANDBOX_LIFELINE"

// FollowSupervisor ends this process when the supervisor that started it is gone. It does nothing in a process that no
// supervisor started. It is called first thing in a child.
func FollowSupervisor() {
	fd, err := strconv.Atoi(os.Getenv(lifelineVariable))
	if err != nil {
		return
	}
	os.Unsetenv(lifelineVariable)
	syscall.CloseOnExec(fd)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		// Nothing is ever written: the read returns when the last writer, the supervisor, is gone.
		_, _ = lifeline.Read(make([]byte, 1))
		os.Exit(3)
	}()
}

func signalGroup(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }

// spawner starts children from one thread that lives as long as the supervisor: Linux sends the parent death signal when
// the *thread* that made the child ends, and Go ends threads as it likes.
type spawner struct{ requests chan spawnRequest }

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawnRequest{cmd: cmd, done: make(chan error)}
	s.requests <- r
	return <-r.done
}

// close ends the thread, and with it every child that is still there.
func (s *spawner) close() { close(s.requests) }
