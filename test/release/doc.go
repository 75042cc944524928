// Command release builds what a release ships, offline and the same on every machine: archives of the plugin for six platforms, their
// checksums and krew manifest, the agent's image as an OCI layout, software bills of materials (SPDX), provenance (SLSA) and a signature that
// `cosign verify-blob --key` accepts.
//
//	release [flags] archives|image|all
package main
