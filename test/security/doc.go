// Package security attacks belljar from inside a sandbox, as a hostile program would, and checks from outside that
// nothing went through and nothing was left behind.
//
// scripts/ holds one script per attack; its header says what is attacked, why it matters and what must hold, and how
// to run it:
//
//	# Needs: probe             upload the probe, and allow execution in the workspace
//	# Agent: forged            the agent inside obeys programs: package forger
//	# Leaves: nothing          the sandbox is afterwards as it was, so that other scripts may share it (together_test.go)
//	# Run: --memory 64m        more flags of belljar run
//	# Image: set-user-id       a hostile image (image_test.go)
//	# Host: listener           what the host prepares and verifies (hook_test.go)
//	# Limits: memory           where the limit is not enforced a server must refuse to start
//	# Not on: gvisor (why)     where there is nothing to attack
//	# Expect: phase failed     phase, reason, exit, warning or truncated; completed with exit 0 by default; a last
//	                           "if FACT" is for the lanes of which that is true (lane.is)
//
// Every script runs on every lane (lane_test.go), with a shell and the usual small programs of busybox; what needs more is in
// the probe. LANE_RUNTIME and LANE_IMAGE tell it where it is, for the few things that are otherwise there, and LANE_TIER whether
// make test or make soak runs it. What comes of each is
// in the table of docs/security.md, which -update writes.
//
// A script prints BREACH and fails when an attack works, and also when a control does not: an attack that could not
// have worked proves nothing. The scripts and the probe must never run outside a sandbox.
package security
