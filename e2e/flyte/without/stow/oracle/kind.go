// Package oracle names a kind of store that is not here.
package oracle

const Kind = "oracle"
