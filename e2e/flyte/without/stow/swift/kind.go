// Package swift names a kind of store that is not here.
package swift

const Kind = "swift"
