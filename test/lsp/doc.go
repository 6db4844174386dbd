// Package lsp tests belljar lsp from outside, with the sandboxes of the native runtime: transcripts in testdata, and one scenario with
// the official client library for JavaScript (check.mjs), without a server and with one. The Go tests start the programs.
package lsp
