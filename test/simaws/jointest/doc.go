// Package jointest tests that simulated instances join a real API server as
// nodes, and leave it. It needs the program karp-sandbox (make sandbox).
package jointest
