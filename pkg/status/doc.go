// Package status is the agent's status endpoint: what it serves, the server, and the client that the kubectl plugin uses.
//
// The endpoint is read-only and only an aid: every answer of the plugin must also be possible without it. All paths are below
// /status/v1alpha1/; fields are only ever added within a version. The server speaks TLS with a certificate of its own, whose authority it
// publishes in an annotation of the leader election's Lease. A caller proves who it is by a token of the ServiceAccount karp-reader with
// the audience karp-agent, in the header X-Karp-Authorization: the API server's proxy removes the usual header, and the user's own
// credential should never reach a pod. Only the leader answers; others say 421.
package status
