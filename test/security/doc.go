// Package security attacks belljar from inside a sandbox, as a hostile program would, and checks from outside that
// nothing went through and nothing was left behind.
//
// scripts/ holds one script per attack; its header says what is attacked, why it matters and what must hold, and how
// to run it:
//
//	# Needs: probe             upload the probe, and allow execution in the workspace
//	# Run: --memory 64m        more flags of belljar run
//	# Host: listener           what the host prepares and verifies (hook_test.go)
//	# Limits: memory           only where the limit is enforced here
//	# Expect: phase failed     phase, reason, exit, warning or truncated; completed with exit 0 by default
//
// Every script runs on every lane (lane_test.go).
//
// A script prints BREACH and fails when an attack works, and also when a control does not: an attack that could not
// have worked proves nothing. The scripts and the probe must never run outside a sandbox.
package security
