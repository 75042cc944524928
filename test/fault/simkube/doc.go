// Package simkube is a small API server in memory for simulations in virtual time.
//
// A Server holds the objects and decides about writes as a real one does where controllers depend on it: resource versions and
// preconditions, generations, the status subresource, finalizers, grace periods of pods, evictions under PodDisruptionBudgets, and the
// collection of objects whose owners are gone. A Client is one process's connection: it reads from a cache of its own, which may lag, and its
// writes can be made to fail. A client that was killed can do nothing any more, which is what a crash looks like from outside.
package simkube
