// Package docs checks the documents that follow from code. go test ./docs -update writes them.
package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/belljar/belljar"
)

var update = flag.Bool("update", false, "write the documents instead of checking them")

func TestErrors(t *testing.T) {
	const name = "errors.md"
	want := errorsPage()
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from belljar.Table; run go test ./docs -update", name)
	}
}

func errorsPage() []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Errors

<!-- Made from belljar.Table by go test ./docs -update. -->

An error is a fault of the caller or of Belljar. A program that fails in a sandbox is not an error: it is the outcome of its run, with a
`+"`reason_code`"+` ([cli.md](cli.md#json)). Some JSON-RPC codes of resources of [MCP](mcp.md#tools) differ from this table.

| code | what to do | HTTP | JSON-RPC | exit status | SDK exception |
|---|---|---:|---:|---:|---|
`)
	for _, row := range belljar.Table() {
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %d | `%s` |\n", row.Code, row.Advice, row.HTTP, row.JSONRPC, row.Exit, row.SDK)
	}
	return b.Bytes()
}
