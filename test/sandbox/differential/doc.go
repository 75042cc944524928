// Package differential compares karp's judgement whether a pod may go on an existing node with that of kube-scheduler.
//
// A Case is a small random cluster with one pod that waits. The Scheduler runs the filter plugins of the released kube-scheduler in
// process; Karp runs the engine through the same conversion from API objects as the agent. Where the two disagree, the disagreement has
// to follow from a Rule: a rule of karp that is different on purpose, written down here as a change to the scheduler's question. What no
// rule explains is a failure, which Shrink makes small enough to read.
//
// The seed and the number of a case are all that it takes to see it again:
//
//	go test ./differential -v -args -cases 100000          # the long run
//	go test ./differential -v -args -seed 1 -first 67 -cases 1
//
// Not covered: volumes that are not bound yet, attach limits, DaemonSets, nodes of karp that are still starting, and labels under their old
// names.
package differential
