package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of what a reader can remember.
const (
	mostMethods = 40   // of a type
	mostLines   = 5000 // of a package, without tests
	mostFile    = 500  // lines of a file, tests included
	// mostContract bounds the methods that an interface declares. A caller may see more: embedded interfaces count for themselves.
	mostContract = 8
	// mostNames is the maximum number of names that the root package exports, without methods
	// (docs/decisions/0024-names-of-the-root.md).
	mostNames = 300
)

func TestSizes(t *testing.T) {
	for _, p := range tree(t) {
		for what, n := range sizes(p) {
			if most := bound(what); n > most && !(under(p.dir, "test") && !strings.HasSuffix(what, " file")) {
				t.Errorf("%s: %d, at most %d: divide it by noun", what, n, most)
			}
		}
	}
}

// The root package is the public API: a name in it stays.
func TestRootNames(t *testing.T) {
	for _, p := range tree(t) {
		if p.dir != "." {
			continue
		}
		if n := len(exportedNames(p)); n > mostNames {
			t.Errorf("the root package exports %d names, at most %d: what only we use belongs under internal", n, mostNames)
		}
		return
	}
	t.Error("there is no root package")
}

func TestRootNamesCatch(t *testing.T) {
	root := t.TempDir()
	source := "package x\nconst (\nA, b = 1, 2\nC = 3\n)\nvar D int\ntype (\nE int\nf int\n)\nfunc (E) G() {}\nfunc H() {}\n"
	if err := os.WriteFile(filepath.Join(root, "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(exportedNames(parseTree(t, root)[0]), " "); got != "A C D E H" {
		t.Errorf("counted %s", got)
	}
}

// exportedNames returns the constants, variables, types and functions that a package exports.
func exportedNames(p *pkg) (names []string) {
	add := func(name string) {
		if ast.IsExported(name) {
			names = append(names, name)
		}
	}
	for _, f := range p.production() {
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(name.Name)
						}
					}
				}
			}
		}
	}
	return names
}

// TestSizesCatch proves that each bound can be broken.
func TestSizesCatch(t *testing.T) {
	methods, contract := strings.Builder{}, strings.Builder{}
	for i := range mostMethods + 1 {
		fmt.Fprintf(&methods, "func (T) M%d() {}\n", i)
	}
	for i := range mostContract + 1 {
		fmt.Fprintf(&contract, "M%d()\n", i)
	}
	source := "package x\ntype T struct{}\ntype E struct { *D }\ntype D struct { T }\n" + methods.String() + "type I interface {\n" + contract.String() + "}\n" + strings.Repeat("\n", mostLines)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "x", "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	got := sizes(parseTree(t, root)[0])
	for _, what := range []string{"x.T methods", "x.E methods", "x.I contract", "x lines", "x/x.go file"} {
		if got[what] <= bound(what) {
			t.Errorf("%s: %d passes", what, got[what])
		}
	}
}

// bound returns the maximum of a size.
func bound(what string) int {
	switch {
	case strings.HasSuffix(what, " methods"):
		return mostMethods
	case strings.HasSuffix(what, " lines"):
		return mostLines
	case strings.HasSuffix(what, " file"):
		return mostFile
	}
	return mostContract
}

// sizes returns the sizes of a package and of its types, by kind. The methods of a type are those that a reader of it must know: its own,
// and those of the types of its package that it embeds.
func sizes(p *pkg) map[string]int {
	found, embeds := map[string]int{}, map[string][]string{}
	for _, f := range p.files {
		if ast.IsGenerated(f.syntax) {
			continue
		}
		if found[f.name+" file"] = f.lines; f.test {
			continue
		}
		found[p.dir+" lines"] += f.lines
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && len(d.Recv.List) > 0 {
					found[p.dir+"."+typeName(d.Recv.List[0].Type)+" methods"]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					switch t := s.Type.(type) {
					case *ast.InterfaceType:
						found[p.dir+"."+s.Name.Name+" contract"] = declaredMethods(t)
					case *ast.StructType:
						for _, field := range t.Fields.List {
							if len(field.Names) == 0 {
								embeds[s.Name.Name] = append(embeds[s.Name.Name], typeName(field.Type))
							}
						}
					}
				}
			}
		}
	}
	own := maps.Clone(found)
	var promoted func(of string) int
	promoted = func(of string) (n int) {
		for _, name := range embeds[of] {
			n += own[p.dir+"."+name+" methods"] + promoted(name)
		}
		return n
	}
	for name := range embeds {
		found[p.dir+"."+name+" methods"] += promoted(name)
	}
	return found
}

// declaredMethods counts the methods that an interface itself declares.
func declaredMethods(i *ast.InterfaceType) (n int) {
	for _, m := range i.Methods.List {
		if _, ok := m.Type.(*ast.FuncType); ok {
			n += len(m.Names)
		}
	}
	return n
}

// typeName returns the name of a type of this package that is a receiver or embedded, "" for others.
func typeName(of ast.Expr) string {
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
