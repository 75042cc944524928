// Package kube is the edge to the Kubernetes API: it turns API objects into the values of package cluster, and values back into API objects.
//
// Reading goes one way for all callers. A State takes API objects in and out and yields cluster snapshots. Load fills it once from a
// live API server, ReadFiles from a directory of YAML, and a Feed keeps it current from the informers of a controller-runtime cache. So
// the agent, the plugin and an offline answer all see the same cluster for the same objects. What could not be read is a value too
// (cluster.Unknown), never silently nothing.
package kube
