// Package service is the rules between the doors and the runtimes: who may run what, with which limits, in which
// sandbox, and what became of it. A run goes straight down (validate, policy, runtime, image, sandbox, command) and
// straight back (output, artifacts, outcome, usage), and is answered before its sandbox is torn down behind it.
//
// The pieces, each in a file of its own: admit turns a request into a plan, carry takes the plan through a sandbox,
// transcript turns output into the frames of a log, judge says what the end of a command means, capture brings its
// files home.
package service
