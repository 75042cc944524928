// Package iam holds no code: its tests hold the policies against AWS's rules for policies, and against what the README says of them.
package iam
