// Package security attacks belljar from inside a sandbox, as a hostile program would, and checks from outside that no attack
// succeeded and nothing was left behind.
//
// scripts/ holds one script per attack. Its header explains what is attacked, why it matters, what must hold, and how to run it:
//
//	# Needs: probe             upload the probe, and allow execution in the workspace
//	# Agent: forged            the agent inside obeys programs: package forger
//	# Leaves: nothing          the script leaves its sandbox unchanged, so that other scripts may share it (together_test.go)
//	# Run: --memory 64m        more flags of belljar run
//	# Image: set-user-id       a hostile image (image_test.go)
//	# Host: listener           what the host prepares and verifies (hook_test.go)
//	# Limits: memory           if the limit cannot be enforced, a server must refuse to start
//	# Not on: gvisor (why)     lanes on which there is nothing to attack
//	# Expect: phase failed     phase, reason, exit, warning or truncated; completed with exit 0 by default; a final
//	                           "if FACT" restricts it to the lanes for which that is true (lane.is)
//
// Every script runs on every lane (lane_test.go), with a shell and the common small programs of busybox; the probe has
// everything else. LANE_RUNTIME and LANE_IMAGE name the lane, for the few things that differ, and LANE_TIER whether make test or
// make soak runs it. The table of docs/security.md has the results, which -update writes.
//
// A script prints BREACH and fails when an attack works, and also when a control does not: an attack that could not have worked
// proves nothing. The scripts and the probe must never run outside a sandbox.
package security
