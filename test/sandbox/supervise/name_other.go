//go:build !linux

package supervise

// Rename does nothing on this system.
func Rename(string) {}
