package instance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range from which systems usually take the ports of outgoing connections (32768 and up),
// so that the port of a component that is stopped for a while is not taken by somebody's connection.
const (
	firstPort = 21000
	portCount = 9000
)

// Ports reserves TCP ports on 127.0.0.1 among all sandboxes of this machine for as long as it is open.
type Ports struct{ guards []net.Listener }

// Take reserves a free port.
func (p *Ports) Take() (int, error) {
	start := rand.IntN(portCount)
	for i := range portCount {
		port := firstPort + (start+i)%portCount
		guard, err := guardPort(port)
		if err != nil {
			continue
		}
		if free(port) {
			p.guards = append(p.guards, guard)
			return port, nil
		}
		guard.Close()
	}
	return 0, fmt.Errorf("no free TCP port from %d to %d on 127.0.0.1", firstPort, firstPort+portCount-1)
}

// Close gives all ports back.
func (p *Ports) Close() error {
	var errs []error
	for _, g := range p.guards {
		errs = append(errs, g.Close())
	}
	p.guards = nil
	return errors.Join(errs...)
}

func free(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
