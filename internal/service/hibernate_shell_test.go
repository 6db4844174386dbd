//go:build linux

package service_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// A copy, or a resumed session, has functions that only a shell with the original's options can read.
func TestShellOptionsAtWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.open()
	b.run(shellIn(x.ID, "shopt -s extglob; my-own() { echo \"it's $1\"; }; one=1"))
	b.run(shellIn(x.ID, "list() { echo !(a|b); }; POSIXLY_CORRECT=y"))
	probe := "echo $one; type -t list; my-own x; shopt -q extglob || echo off; set -o | grep -c 'posix.*on'"
	const want = "1\nfunction\nit's x\noff\n1\n"
	wantShellKept(b, x.ID, probe, want)
}

// A function named like a builtin is restored in a copy, and does not prevent a session from waking.
func TestShellFunctionsAtWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.open()
	b.run(shellIn(x.ID, "IFS=:; declare() { exit 3; }"))
	probe := `builtin printf '%q\n' "$IFS"; type -t declare`
	const want = ":\nfunction\n"
	wantShellKept(b, x.ID, probe, want)
}

// Restored values are those of the original: bash evaluates and converts them only when a command of the session assigns one.
func TestShellVariablesAtWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.open()
	b.run(shellIn(x.ID, `month=08; declare -i month; list=(08 1.5); declare -i list; declare -A map=([k]=08); declare -irx map
low=ab; declare -u low; high=AB; declare -lx high; cap=ab; declare -c cap; odd=08; declare -n ref=odd; declare -i ref
JAVA_TOOL_OPTIONS=-Xmx1g; export SSL_CERT_FILE=own.pem BELLJAR_TEAM=a; after=1`))
	b.run(shellIn(x.ID, `eval $'lines() { printf %s "a\r\nit\'s"; }'; IFS=$'\r\n'`))
	probe := `declare -p month list map low high cap odd ref JAVA_TOOL_OPTIONS SSL_CERT_FILE BELLJAR_TEAM after IFS; lines | od -c; echo $BELLJAR_PROXY`
	want := b.run(shellIn(x.ID, probe)).stdout
	if strings.Count(want, "08") != 4 || !strings.Contains(want, `\r  \n`) {
		t.Fatal(want)
	}
	wantShellKept(b, x.ID, probe, want)
}

// wantShellKept checks that a probe prints the same in the shell of a session's copy, and in the session's own after hibernation.
func wantShellKept(b *bench, id, probe, want string) {
	b.t.Helper()
	made, err := b.snapshots().Fork(b.context(), id, belljar.ForkSpec{})
	if err != nil || !made.Shell {
		b.t.Fatalf("%+v, %v", made, err)
	}
	wantText(b.t, b.run(shellIn(made.Sessions[0].ID, probe)).stdout, want)
	b.sleeping(id)
	wantText(b.t, b.run(shellIn(id, probe)).stdout, want)
}
