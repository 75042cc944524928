// Package arch holds no code: its tests enforce the layers, the dependency budgets and the house rules of the repository.
package arch
