// Package examples runs the commands in the READMEs of the examples, like a new user who follows them, and compares the
// output.
package examples
