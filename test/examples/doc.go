// Package examples runs what the READMEs of the examples show, as a stranger would who follows them, and compares what comes.
package examples
