// Package ec2data holds facts about EC2 as values: instance types, where they
// are offered, their network limits and their on-demand list prices.
//
// The facts are embedded in a compact form of our own (ec2data.bin) and decoded
// by [Load]; nothing is decoded before that and no state is kept, so a program
// loads once and passes the *Data on. Decoding is deterministic: the same file
// always gives deeply equal Data, with every list in the order documented.
//
// All numbers are integers in the unit their field name says. A fact that AWS
// does not publish is zero, empty or marked by a Known flag.
//
// The file is written by ./gen from JSON tables (see gen's comment); the tables
// themselves are not part of this repository.
package ec2data
