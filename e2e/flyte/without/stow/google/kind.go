// Package google names a kind of store that is not here.
package google

const Kind = "google"
