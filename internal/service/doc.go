// Package service is the rules between the doors and the runtimes: who may run what, with which limits, in which
// sandbox, and what became of it. A run goes straight down (key, validation, policy, quota, a row on record, a place in
// the queue, a sandbox, the command) and straight back (output, artifacts, outcome, usage, the last row), and is answered
// before its sandbox is torn down behind it.
//
// The parts with a package of their own: admission decides what a request may have, as a placement; box makes the sandbox;
// image, file and stdin are what callers do with those. A part imports lower parts only, and takes what it needs as fields
// and functions.
//
// Runs and sessions are here: start takes a request in, admit turns it into a plan, carry takes the plan through a sandbox,
// transcript turns output into the frames of a log, judge says what the end of a command means, capture brings its files
// home, the recorder keeps what must not be lost, recover reattaches to what a former process left, sweep removes what has
// been kept for its time.
package service
