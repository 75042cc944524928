// Package device simulates dynamic resource allocation: which devices a node, or nodes of an instance type, would give to the claims of a pod
// (scheduling rules 22).
//
// An Inventory holds what the cluster has: pools of devices, claims, classes, what is in use. A Need is what the claims of one pod ask for. Search looks for
// devices at a Site, depth first over claims, requests and devices, with a counted number of steps. Usage is what has been given away; callers keep one for
// every node and instance type they plan with.
package device
