// Package crd tests what the API server makes of the CRDs in manifests/crds: that it takes them, and that it admits,
// defaults and shows objects as the API promises. The cases are in testdata.
package crd
