//go:build linux

package guest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A cell prints and displays errors without the kernel's own frames.
func TestNodeStacks(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	for code, want := range map[string]string{
		"try { null.x } catch (e) { console.error(e); console.log(e.stack) }":                               "    at <cell-",
		"console.log([new Error('first'), Object.assign(new Error('second'), { code: 7 })])":                "  code: 7\n",
		"console.error('%s', new Error('outer', { cause: new Error('inner') }))":                            "[cause]: Error: inner\n",
		"const deep = () => console.error('%s', new Error('outer', { cause: new Error('inner') })); deep()": "[cause]: Error: inner\n",
		"[new Error('shown'), { e: new Error('too') }]":                                                     "e: Error: too\n",
		"Promise.reject(new Error('rejected'))":                                                             "<rejected> Error: rejected\n",
		"const at = (n) => n ? at(n - 1) : new Error('deep'); [at(7), at(8), at(9), at(99)]":                "    at at (<cell-",
		"new Map([[1, new Error('in a map')]])":                                                             "Error: in a map\n",
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

// A line may have several imports.
func TestNodeImportsOfALine(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	n.wants("import fs from 'fs'; import p from 'path'; [typeof fs.readFileSync, typeof p.join]", "[ 'function', 'function' ]")
	n.wants("const one = 1;import { join as j } from 'path';import * as all from 'path'\nj === all.join", "true")
	n.wants("`; import a from 'a'` + \"; import b from 'b'\" // ; import c from 'c'", `"; import a from 'a'; import b from 'b'"`)
}

// An object or array has a JSON form only if that is the same value.
func TestNodeJSON(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	for code, want := range map[string]bool{
		"({ a: 1 })": true, "[1, null, [true, 'x', {}]]": true,
		"({ a: NaN })": false, "[new Set([1])]": false, "[undefined]": false, "({ a: undefined })": false, "[new Date(0)]": true, "[-Infinity]": false, "({ toJSON: () => 1 })": true, "[() => 1]": false, "[new (class A { a = 1 })]": false, "[new Error('x')]": false,
		"({ get a() { return 1 } })": true, "({ get a() { throw 1 } })": false,
	} {
		if c := n.run(code); len(c.results) != 1 || (c.results[0].Data["application/json"] != nil) != want || c.exit.Code != 0 {
			t.Errorf("%q: %+v", code, c)
		}
	}
}

// Bytes of text formats are text, and those of JSON are its value.
func TestNodeBytes(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	c := n.run(`const bytes = (text) => Buffer.from(text);
display({ 'image/svg+xml': bytes('<svg/>'), 'application/javascript': bytes('1'), 'application/json': bytes('{"a": [null]}'), 'a/b+json': bytes('{'), 'image/png': bytes('png') })`)
	want := map[string]any{
		"image/svg+xml": "<svg/>", "application/javascript": "1", "application/json": map[string]any{"a": []any{nil}}, "a/b+json": "{", "image/png": "cG5n",
	}
	if len(c.results) != 1 || !reflect.DeepEqual(c.results[0].Data, want) {
		t.Errorf("%+v", c)
	}
}

// File work that a cell leaves running may take the numbers of the streams, or all numbers. The interpreter waits for it.
func TestNodeForeignFiles(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	// The work takes the number between this program's close and open, as another thread would.
	n.wants(`const fs = require('fs'), { openSync, closeSync } = fs, kept = 41;
let file;
const take = (number, ends) => {
  fs.closeSync = (fd) => {
    closeSync(fd);
    if (fd !== number) return;
    fs.closeSync = closeSync;
    file = openSync('/etc/hostname');
    if (ends) setImmediate(() => setImmediate(() => closeSync(file)));
    else display('taken');
  };
};
const full = () => { fs.openSync = () => { fs.openSync = openSync; throw Object.assign(new Error('full'), { code: 'EMFILE' }); } };`, "")
	for _, code := range []string{"take(0, true)", "take(1, true)", "take(2, true)", "full()", "take(1, true); full()"} {
		n.wants(code, "")
		if c := n.run("console.log('out'); console.error('err'); require('child_process').execSync('echo child', { stdio: 'inherit' }); kept"); c.out != "out\nchild\n" || c.errs != "err\n" || c.plain() != "41" || c.exit.Shell.Replaced {
			t.Errorf("after %q: %+v", code, c)
		}
	}
	n.wants("for (let i = 0; i < 500; i++) fs.promises.readFile('/etc/hostname').catch(() => {});", "")
	n.wants("kept", "41")
	// A cell that ends is interrupted while it waits for the number.
	l := n.exec(n.cell("const { write } = process.stderr; process.stderr.write = (...all) => { closeSync(file); return write(...all) }; take(1, false)"))
	n.follow(l, "taken")
	l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
	if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Code != 130 || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.wants("process.stderr.write = write; kept", "41")
}
