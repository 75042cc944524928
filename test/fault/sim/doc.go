// Package sim runs the agent's loops, one step at a time and in virtual time, against an API server in memory and a small cloud.
//
// A World is a cluster with its cloud and one agent process, which can be killed and started anew. Everything runs in one goroutine and in a
// testing/synctest bubble, so that a day takes seconds and a seed decides the order of things. Scripts are conversations with a world in text
// files; see Script.
package sim
