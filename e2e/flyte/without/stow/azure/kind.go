// Package azure names a kind of store that is not here.
package azure

const Kind = "azure"
