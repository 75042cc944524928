package instance

import (
	"fmt"
	"net"
)

// guardPort takes a name that only one process can have and that vanishes with it: an abstract socket.
func guardPort(port int) (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@karp-sandbox-port-%d", port))
}
