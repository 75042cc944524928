// Package rbac holds no code: its tests hold the manifests against the program and against a real API server.
package rbac
