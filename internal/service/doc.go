// Package service is the rules between the doors and the runtimes: who may run what, with which limits, in which sandbox, and what
// became of it.
//
// Each noun is a package of its own, from the bottom up:
//
//   - fault, clock, lifecycle, queue and recovery are what all others use; idempotency and retry are about records;
//   - placement says where a sandbox is made, admission decides that, box makes it;
//   - image, file, stdin and terminal are what callers do with images and in sandboxes;
//   - session keeps a sandbox, run executes a command in one.
//
// A part imports lower parts only, and gets what it needs from a higher one as functions.
//
// This package puts the parts together (service.go), decides who sees what (guard.go; view.go and the types in runs.go, sessions.go,
// artifacts.go, admin.go, token.go are the service as one caller sees it), and orders what several parts do: recovery (recover.go,
// orphan.go), upkeep (sweep.go) and the end (drain.go).
package service
