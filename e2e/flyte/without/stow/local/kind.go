// Package local names a kind of store that is not here.
package local

const Kind = "local"
