// Package e2e runs belljar as its users do, very often and with much concurrency, and compares the host before and
// after.
package e2e
