// Package service implements the rules between the APIs and the runtimes: which caller may run a command, with which limits, in
// which sandbox, and with which result.
//
// Each noun is a package of its own, from the bottom up:
//
//   - all packages use fault, clock, lifecycle, queue and recovery; idempotency and retry handle records;
//   - placement describes where a sandbox is made, admission decides that, box makes it;
//   - image, file, stdin and terminal are the operations of callers on images and in sandboxes;
//   - session keeps a sandbox, run executes a command in one.
//
// A package imports only lower packages, and receives functions for what it needs from a higher one.
//
// This package assembles the others (service.go), decides what each caller may see (guard.go; view.go and the types in runs.go,
// sessions.go, artifacts.go, admin.go, token.go are the service as one caller sees it), and orders operations across packages:
// recovery (recover.go, orphan.go), maintenance (sweep.go) and shutdown (drain.go).
package service
