// Package e2e runs belljar as its users do, very often and very much at once, and compares the host before and after.
package e2e
