// Package telemetry is what the agent tells operators: log lines, log attributes and metrics, under the names that Karpenter's users know.
//
// The keys of log attributes come from this package only, and so do the names of metrics, so that an alert or a dashboard written for Karpenter
// keeps working. Nothing here is global: a program makes a logger and a set of metrics and hands them on.
package telemetry
