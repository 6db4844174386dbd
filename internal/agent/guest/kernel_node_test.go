//go:build linux

package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A cell prints and displays errors without the kernel's own frames.
func TestNodeStacks(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	for code, want := range map[string]string{
		"try { null.x } catch (e) { console.error(e); console.log(e.stack) }":                "    at <cell-",
		"console.log([new Error('first'), Object.assign(new Error('second'), { code: 7 })])": "  code: 7\n",
		"console.error('%s', new Error('outer', { cause: new Error('inner') }))":             "[cause]: Error: inner\n",
		"[new Error('shown'), { e: new Error('too') }]":                                      "e: Error: too\n",
		"Promise.reject(new Error('rejected'))":                                              "<rejected> Error: rejected\n",
		"const at = (n) => n ? at(n - 1) : new Error('deep'); [at(7), at(8), at(9), at(99)]": "    at at (<cell-",
		"new Map([[1, new Error('in a map')]])":                                              "Error: in a map\n",
	} {
		c := n.run(code)
		all := c.out + c.errs + c.plain()
		if c.exit.Code != 0 || !strings.Contains(all, want) || strings.Contains(all, "kernel") || strings.Contains(all, "node:") {
			t.Errorf("%q: %s", code, all)
		}
	}
	n.wants("[new Error('a'), 1].concat(new Error('b')).map((e) => require('util').inspect(e).split('\\n')[0])", "[ 'Error: a', '1', 'Error: b' ]")
	n.wants("`\n    at Session.post (node:inspector:1:2)\n    at mine (/a:1:2)`", `'\n    at Session.post (node:inspector:1:2)\n    at mine (/a:1:2)'`)
}

// Interrupted code reports the interrupt once.
func TestNodeInterruptedOnce(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	for _, code := range []string{"while (true) {}", "await new Promise(() => {})", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
		"require('child_process').execSync('sleep 1000', { stdio: 'ignore' })"} {
		l := n.exec(n.cell("console.log('up'); " + code))
		n.follow(l, "up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		c := n.follow(l, "")
		if c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced || len(c.results) != 1 || strings.Count(c.errs, "KeyboardInterrupt") > 1 {
			t.Errorf("%q: %+v", code, c)
		}
	}
	n.wants("1", "1")
}

// If a child makes the shared output non-blocking, no output of the cell is lost.
func TestNodeSharedOutput(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	c := n.run(`const child = require('child_process').spawn(process.execPath, ['-e', 'process.stdout; console.error(1); setInterval(() => {}, 1e6)'], { stdio: ['ignore', 'inherit', 'pipe'] });
await new Promise((ok) => child.stderr.once('data', ok));
console.log('x'.repeat(1 << 20)); child.kill();`)
	if len(c.out) != 1<<20+1 || c.exit.Code != 0 {
		t.Errorf("%d bytes: %s %+v", len(c.out), c.errs, c.exit)
	}
}

// The kernel's functions, and the last value, do not replace variables of the program.
func TestNodeNames(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	n.wants("function display(x) { return `mine ${x}` }; var prompt = 'mine', _ = { twice: (x) => 2 * x }", "")
	n.wants("display(prompt)", "'mine mine'")
	n.wants("_.twice(2)", "4")
	n.wants("_.twice(4)", "8")
}

// Imports have attributes.
func TestNodeAttributes(t *testing.T) {
	h := begin(t, guest.Config{})
	if err := os.WriteFile(filepath.Join(h.dir, "data.json"), []byte(`{"a": 5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n := h.notebook(wire.KernelNode)
	n.wants("import data from './data.json' with { type: 'json' };\nimport * as all from \"./data.json\" with { type: 'json' }\n[data.a, all.default.a]", "[ 5, 5 ]")
	n.wants("(await import('./data.json', { with: { type: 'json' } })).default.a", "5")
	// An import's name may be a URL with a query.
	n.wants("require('fs').writeFileSync('twice.mjs', 'export const at = import.meta.url.slice(-3)'); (await import('./twice.mjs?v1')).at + (await import('./twice.mjs?v2')).at", "'?v1?v2'")
	n.wants("(await import(require('url').pathToFileURL('twice.mjs'))).at", "'mjs'")
	n.wants("(await import(require('path').resolve('twice.mjs'))).at", "'mjs'")
}
