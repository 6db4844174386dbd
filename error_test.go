package belljar_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// codes returns every constant of type Code, from the source.
func codes(t *testing.T) []belljar.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []belljar.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		for _, v := range spec.Values {
			code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, belljar.Code(code))
		}
		return true
	})
	if len(list) < 10 {
		t.Fatalf("only %d codes found in the source", len(list))
	}
	return list
}

// TestTableIsComplete: every code has one row, every cell is filled.
func TestTableIsComplete(t *testing.T) {
	rows := map[belljar.Code]belljar.CodeInfo{}
	for _, row := range belljar.Table() {
		if _, twice := rows[row.Code]; twice {
			t.Errorf("%s has two rows", row.Code)
		}
		rows[row.Code] = row
	}
	names := map[string]bool{}
	for _, code := range codes(t) {
		row, ok := rows[code]
		if !ok {
			t.Errorf("%s has no row", code)
			continue
		}
		if row.HTTP < 400 || row.HTTP > 599 || row.JSONRPC >= 0 || row.Exit < 1 || row.Exit > 125 {
			t.Errorf("%s: HTTP %d, JSON-RPC %d, exit %d", code, row.HTTP, row.JSONRPC, row.Exit)
		}
		if !strings.HasSuffix(row.SDK, "Error") || names[row.SDK] || row.Advice == "" {
			t.Errorf("%s: exception %q, advice %q", code, row.SDK, row.Advice)
		}
		names[row.SDK] = true
		if code.Info() != row {
			t.Errorf("Info of %s is the row of %s", code, code.Info().Code)
		}
		delete(rows, code)
	}
	for code := range rows {
		t.Errorf("row of %s, which is no code", code)
	}
	if got := belljar.Code("no such").Info().Code; got != belljar.CodeInternal {
		t.Errorf("an unknown code is treated as %s", got)
	}
}

func TestErrorChain(t *testing.T) {
	cause := errors.New("cause")
	inner := &belljar.Error{Code: belljar.CodeDiskFull, Message: "inner", Hint: "free space", Err: cause}
	outer := fmt.Errorf("while running: %w", &belljar.Error{Code: belljar.CodeNotFound, Message: "outer", Err: inner})
	if got := belljar.CodeOf(outer); got != belljar.CodeNotFound {
		t.Errorf("CodeOf = %s, want the outermost", got)
	}
	if got := belljar.HintOf(outer); got != "free space" {
		t.Errorf("HintOf = %q", got)
	}
	if got := outer.Error(); got != "while running: outer: inner: cause" {
		t.Errorf("Error = %q", got)
	}
	if !errors.Is(outer, cause) {
		t.Error("the cause is not in the chain")
	}
	if belljar.CodeOf(nil) != "" || belljar.CodeOf(cause) != belljar.CodeInternal {
		t.Errorf("CodeOf(nil) = %q, of a foreign error %q", belljar.CodeOf(nil), belljar.CodeOf(cause))
	}
	if belljar.HintOf(nil) != "" || belljar.HintOf(cause) != "" {
		t.Error("a hint out of nothing")
	}
}
