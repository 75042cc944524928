// Package kube is the edge to the Kubernetes API: it turns API objects into the values of package cluster, and commands into writes.
//
// Reading goes one way for all callers. A State takes API objects in and out and yields cluster snapshots. Load fills it once from a
// live API server, ReadFiles from a directory of YAML, and a Feed keeps it current from the informers of a controller-runtime cache. So
// the agent, the plugin and an offline answer all see the same cluster for the same objects.
//
// Writing is done by a Writer. Every write carries the precondition that makes it safe to send: a UID on a delete, UID and resource
// version on an eviction, the resource version on whatever rests on an object's content. The API server decides, not our cache.
package kube
