package trace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/golden")

// TestCorpus parses the output of real programs, and resolves the places to the programs. The programs are testdata/program,
// their output testdata/output; test/e2e regenerates it in sandboxes.
func TestCorpus(t *testing.T) {
	languages, err := os.ReadDir("testdata/output")
	if err != nil || len(languages) < 9 {
		t.Fatal(err, len(languages))
	}
	for _, language := range languages {
		t.Run(language.Name(), func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("testdata/output", language.Name(), "*.txt"))
			if err != nil || len(files) == 0 {
				t.Fatal(err, files)
			}
			var b strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "# %s\n", strings.TrimSuffix(filepath.Base(file), ".txt"))
				b.WriteString(render(Parse(string(text)), Options{}, filepath.Join("testdata/program", language.Name())))
			}
			golden := filepath.Join("testdata/golden", language.Name()+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != string(want) {
				t.Errorf("-update writes %s; got\n%s\nwant\n%s", golden, got, want)
			}
		})
	}
}

// render prints traces with one line for each frame, with its place below the root and the source text.
func render(traces []Trace, o Options, root string) string {
	var b strings.Builder
	for _, t := range traces {
		for i, one := range t.All() {
			how := ""
			if i > 0 {
				how = "related "
			}
			if one.Warning {
				how += "warning "
			}
			fmt.Fprintf(&b, "%s%s %s %s: %q\n", how, one.Language, one.Kind, one.Type, one.Message)
			for n, l := range NewResolver(os.DirFS(root), o).Places(one) {
				if n == 8 {
					fmt.Fprintf(&b, "  and %d more\n", len(one.Frames)-n)
					break
				}
				f := l.Frame
				fmt.Fprintf(&b, "  %s:%d:%d-%d %s", f.File, f.Line, f.Column, f.EndColumn, f.Function)
				if l.File == "" {
					fmt.Fprintf(&b, " [%s]\n", f.Skipped)
					continue
				}
				marked := l.Text
				if l.EndColumn > 0 {
					marked = l.Text[:l.EndColumn-1] + "»" + l.Text[l.EndColumn-1:]
				}
				if l.Column > 0 {
					marked = marked[:l.Column-1] + "«" + marked[l.Column-1:]
				}
				fmt.Fprintf(&b, " -> %s:%d %s\n", l.File, l.Line, strings.TrimSpace(marked))
			}
		}
		if l := NewResolver(os.DirFS(root), o).First(t); l.File != "" {
			fmt.Fprintf(&b, "= %s:%d:%d\n", l.File, l.Line, l.Column)
		} else {
			fmt.Fprintf(&b, "= none, %s\n", l.Frame.File)
		}
	}
	return b.String()
}
