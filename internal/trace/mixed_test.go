package trace

import (
	"go/ast"
	syntax "go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/tier"
)

// TestMixedLines parses lines of real outputs, and texts that this package looks for, whole and cut off, in any order. Each run has the
// same texts.
func TestMixedLines(t *testing.T) {
	kinds := [][]string{{"", " ", "\t", "    ", "x", "a:1", "^", "]", "'", ": ", "{", "}", "1", "x:1:1"}, literals(t), nil}
	for _, text := range corpus(t) {
		kinds[2] = append(kinds[2], strings.Split(text, "\n")...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%v\n%q\n%s", r, text.String(), debug.Stack())
		}
	}()
	for range tier.Pick(300_000, 20_000_000) {
		text.Reset()
		for range 1 + random.IntN(12) {
			for range 1 + random.IntN(3)*random.IntN(2) {
				words := kinds[random.IntN(len(kinds))]
				part := words[random.IntN(len(words))]
				if random.IntN(3) == 0 {
					part = part[:random.IntN(len(part)+1)]
				}
				text.WriteString(part)
			}
			text.WriteByte('\n')
		}
		parse(text.String())
	}
}

// literals returns the strings in this package's code.
func literals(t *testing.T) (found []string) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := syntax.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, text)
			}
			return true
		})
	}
	return found
}
