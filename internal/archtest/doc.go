// Package archtest holds the tests of the architecture: the directions of imports, and the few habits that keep
// the tree readable. It has no code of its own.
package archtest
