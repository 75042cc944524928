package aws

import "time"

// Observer is told what is counted (AWS rules 20). Its methods must be safe for concurrent use and quick.
type Observer interface {
	// LaunchFailed tells of one error in the answer to a launch. Reason is that of the claim's condition; what the answer does not tell is "".
	LaunchFailed(zone, zoneID, capacityType, reason string)
	// TerminationFailed tells of a refused or failed call to terminate an instance.
	TerminationFailed(zone, zoneID string)
	// Batched tells that calls were united: by which batcher, how many, and how long the first waited.
	Batched(batcher string, size int, waited time.Duration)
	// UserData tells the size in bytes of the user data of a class; a negative size that the class is gone.
	UserData(class string, bytes int)
	// Called tells of one attempt of an AWS call; code is that of the error, "" for a success.
	Called(service, operation, code string, took time.Duration)
}

// unobserved is the Observer of who wants to know nothing.
type unobserved struct{}

var _ Observer = unobserved{}

func (unobserved) LaunchFailed(_, _, _, _ string)         {}
func (unobserved) TerminationFailed(_, _ string)          {}
func (unobserved) Batched(string, int, time.Duration)     {}
func (unobserved) UserData(string, int)                   {}
func (unobserved) Called(_, _, _ string, _ time.Duration) {}
