package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/belljar/belljar"

// file is one Go file of the tree, parsed.
type file struct {
	name    string // relative to the module
	lines   int
	test    bool
	syntax  *ast.File
	imports []string // of this module: "." for the root package, else the folder
	foreign []string // every other import path
	fset    *token.FileSet
}

// pkg is one folder with Go files in it.
type pkg struct {
	dir   string // "." for the root package
	files []*file
}

// whole is the module, which is parsed once for all tests.
var whole = sync.OnceValues(func() ([]*pkg, error) { return readTree(filepath.Join("..", "..")) })

// tree parses every Go file of the module, for all platforms: it ignores build constraints.
func tree(t *testing.T) []*pkg {
	t.Helper()
	all, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parseTree(t *testing.T, root string) []*pkg {
	t.Helper()
	all, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readTree(root string) ([]*pkg, error) {
	found := map[string]*pkg{}
	var order []*pkg
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != root {
			return nil // other tests create and remove files
		}
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			skip := base == "testdata" || base == "node_modules" || base == "vendor" || base == "bin" || base == "examples" ||
				name != root && strings.HasPrefix(base, ".")
			if skip {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := parseFile(name, filepath.ToSlash(rel))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if f == nil {
			return nil
		}
		dir := path.Dir(f.name)
		if found[dir] == nil {
			found[dir] = &pkg{dir: dir}
			order = append(order, found[dir])
		}
		found[dir].files = append(found[dir].files, f)
		return nil
	})
	if err == nil && len(order) == 0 {
		err = fmt.Errorf("no Go files under %s", root)
	}
	return order, err
}

func parseFile(name, rel string) (*file, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(text, []byte("//go:build ignore\n")) || bytes.Contains(text, []byte("\n//go:build ignore\n")) {
		return nil, nil // a program that go generate runs, not part of its package
	}
	f := &file{name: rel, test: strings.HasSuffix(rel, "_test.go"), lines: strings.Count(string(text), "\n"), fset: token.NewFileSet()}
	if f.syntax, err = parser.ParseFile(f.fset, rel, text, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, spec := range f.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rel, err)
		}
		switch inside, ok := strings.CutPrefix(imported, module+"/"); {
		case imported == module:
			f.imports = append(f.imports, ".")
		case ok:
			f.imports = append(f.imports, inside)
		default:
			f.foreign = append(f.foreign, imported)
		}
	}
	return f, nil
}

// production returns the files that are not tests.
func (p *pkg) production() []*file {
	var files []*file
	for _, f := range p.files {
		if !f.test {
			files = append(files, f)
		}
	}
	return files
}

// at formats a position for a failure message.
func (f *file) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.fset.Position(pos).Line)
}

// under reports whether a folder is dir or below it.
func under(folder, dir string) bool { return folder == dir || strings.HasPrefix(folder, dir+"/") }

// standard reports whether an import path is the standard library's: its first element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
