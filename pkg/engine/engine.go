// Package engine decides. Decide, Explain and WhatIf are its only entry points, and all of them are pure: values in, values out.
//
// The same snapshot and policy give the same answer, byte for byte: there is no clock, randomness, I/O or dependence on the order of maps or
// goroutines in here, and search effort is counted in steps, never in seconds.
package engine
