//go:build !linux

package instance

import "net"

// guardPort has nothing to guard with on this system: two sandboxes that start in the same instant may, rarely, take the
// same port, and the second one says so.
func guardPort(int) (net.Listener, error) { return net.Listen("tcp4", "127.0.0.1:0") }
