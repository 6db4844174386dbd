package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds of what a reader can keep in mind.
const (
	mostMethods  = 40   // of a type
	mostLines    = 5000 // of a package, without tests
	mostContract = 8    // methods of an interface
)

// undivided are what is larger yet, with how large it may be: a number here only goes down.
func undivided() map[string]int {
	return map[string]int{
		"..Files contract":                        11,
		"..Service contract":                      9,
		"internal/agent/guest lines":              7600,
		"internal/api/rest.Door methods":          43,
		"internal/cli lines":                      7100,
		"internal/image.Store methods":            65,
		"internal/image lines":                    5500,
		"internal/runtime/docker.Runtime methods": 59,
		"internal/service.Service methods":        119,
		"internal/service lines":                  9200,
		"internal/store.Runs contract":            10,
	}
}

func TestSizes(t *testing.T) {
	larger := undivided()
	for _, p := range tree(t) {
		if under(p.dir, "test") || p.dir == "examples" {
			continue
		}
		for what, n := range sizes(p) {
			most := bound(what)
			allowed, excepted := larger[what]
			delete(larger, what)
			switch {
			case n <= most && excepted:
				t.Errorf("%s: %d is within the bound of %d: take its exception away", what, n, most)
			case n > max(most, allowed):
				t.Errorf("%s: %d, at most %d: divide it by noun", what, n, max(most, allowed))
			}
		}
	}
	for what := range larger {
		t.Errorf("%s is excepted and does not exist", what)
	}
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
	source := "package x\ntype T struct{}\n" + methods.String() + "type I interface {\n" + contract.String() + "}\n" + strings.Repeat("\n", mostLines)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "x", "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	got := sizes(parseTree(t, root)[0])
	for _, what := range []string{"x.T methods", "x.I contract", "x lines"} {
		if got[what] <= bound(what) {
			t.Errorf("%s: %d passes", what, got[what])
		}
	}
}

// bound is the most that a size may be.
func bound(what string) int {
	switch {
	case strings.HasSuffix(what, " methods"):
		return mostMethods
	case strings.HasSuffix(what, " lines"):
		return mostLines
	}
	return mostContract
}

// sizes are those of a package and of its types, by what they are.
func sizes(p *pkg) map[string]int {
	found := map[string]int{}
	for _, f := range p.production() {
		if ast.IsGenerated(f.syntax) {
			continue
		}
		found[p.dir+" lines"] += f.lines
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					found[p.dir+"."+name+" methods"]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if contract, ok := s.Type.(*ast.InterfaceType); ok {
						found[p.dir+"."+s.Name.Name+" contract"] = declaredMethods(contract)
					}
				}
			}
		}
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

// receiver is the name of the type that a method belongs to, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	of := d.Recv.List[0].Type
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
