package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// habit checks one package and returns its violations, one line each.
type habit struct {
	name   string
	reason string
	check  func(p *pkg) []string
}

func habits() []habit {
	return []habit{
		{"package names say what is in them", "what goes into util belongs somewhere", vagueNames},
		{"every package has one package comment", "it is the first thing a reader sees", packageComments},
		{"exported names are documented", "a name without a sentence is half an interface", undocumented},
		{"no init functions", "importing a package must not do anything", initFunctions},
		{"no regular expressions compiled at start", "a short command would compile them without need; use sync.OnceValue", earlyExpressions},
		{"no package variables that change", "two daemons in one process must not share state", mutableVariables},
		{"one word per thing", "docs/glossary.md has the list", synonyms},
	}
}

func TestHabits(t *testing.T) {
	packages := tree(t)
	for _, h := range habits() {
		t.Run(h.name, func(t *testing.T) {
			for _, p := range packages {
				for _, line := range h.check(p) {
					t.Errorf("%s\nhabit: %s, because %s", line, h.name, h.reason)
				}
			}
		})
	}
}

// TestHabitsCatch proves that each habit can be broken.
func TestHabitsCatch(t *testing.T) {
	bad := map[string]string{
		"package names say what is in them":        "package util\n",
		"every package has one package comment":    "package x\n",
		"exported names are documented":            "package x\n\nfunc Naked() {}\n",
		"no init functions":                        "package x\n\nfunc init() {}\n",
		"no regular expressions compiled at start": "package x\n\nvar x = regexp.MustCompile(`a`)\n",
		"no package variables that change":         "package x\n\nvar n int\n\nfunc f() { n++ }\n",
		"one word per thing":                       "package x\n\n// Container is a sandbox.\ntype Container struct{}\n",
	}
	for _, h := range habits() {
		source, ok := bad[h.name]
		if !ok {
			t.Errorf("habit %q has no example of what breaks it", h.name)
			continue
		}
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "x", "x.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := h.check(parseTree(t, root)[0]); len(got) == 0 {
			t.Errorf("habit %q lets this pass:\n%.100s", h.name, source)
		}
	}
}

func generated(f *file) bool { return ast.IsGenerated(f.syntax) }

func vagueNames(p *pkg) (broken []string) {
	vague := []string{"pkg", "util", "utils", "common", "helper", "helpers", "models", "types", "base", "misc", "shared", "lib"}
	for _, f := range p.production() {
		name := f.syntax.Name.Name
		if slices.Contains(vague, name) || slices.Contains(vague, path.Base(p.dir)) || strings.Contains(name, "_") {
			return []string{fmt.Sprintf("package %s in %s", name, p.dir)}
		}
	}
	return nil
}

func packageComments(p *pkg) []string {
	files := p.production()
	if len(files) == 0 {
		return nil
	}
	var with []string
	for _, f := range files {
		if f.syntax.Doc != nil {
			with = append(with, f.name)
		}
	}
	if len(with) == 1 {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d package comments %v", p.dir, len(with), with)}
}

func undocumented(p *pkg) (broken []string) {
	for _, f := range p.production() {
		if f.syntax.Name.Name == "main" || generated(f) {
			continue
		}
		miss := func(name *ast.Ident) { broken = append(broken, f.at(name.Pos())+": "+name.Name) }
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && !standardMethod(d) && (d.Recv == nil || exportedReceiver(d)) {
					miss(d.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumentedSpecs(d) {
					miss(name)
				}
			}
		}
	}
	return broken
}

func undocumentedSpecs(d *ast.GenDecl) (names []*ast.Ident) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
				names = append(names, s.Names[0])
			}
		}
	}
	return names
}

// standardMethod reports whether a method is one that every Go programmer knows by name.
func standardMethod(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Is", "Len", "Less", "Swap", "Read", "Write", "Close",
		"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "LocalAddr", "RemoteAddr", "Network",
		"SetDeadline", "SetReadDeadline", "SetWriteDeadline", "ID", "Name"}, d.Name.Name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}

func initFunctions(p *pkg) (broken []string) {
	for _, f := range p.files {
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				broken = append(broken, f.at(d.Pos()))
			}
		}
	}
	return broken
}

// earlyExpressions finds regular expressions that package variables compile before main.
func earlyExpressions(p *pkg) (broken []string) {
	for _, f := range p.production() {
		if f.syntax.Name.Name == "main" {
			continue
		}
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if _, ok := n.(*ast.FuncLit); ok {
					return false // it runs only when it is called
				}
				if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "MustCompile") {
					broken = append(broken, f.at(s.Pos()))
				}
				return true
			})
		}
	}
	return broken
}

// mutableVariables finds package variables that are assigned to, or whose type is meant to change.
func mutableVariables(p *pkg) (broken []string) {
	if under(p.dir, "test") {
		return nil // programs that attack from inside a sandbox: one process, one purpose
	}
	variables := map[string]*ast.ValueSpec{}
	for _, f := range p.production() {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				for _, name := range s.Names {
					if name.Name != "_" {
						variables[name.Name] = s
					}
				}
				if sel, ok := s.Type.(*ast.SelectorExpr); ok {
					if from, ok := sel.X.(*ast.Ident); ok && (from.Name == "sync" || from.Name == "atomic") {
						broken = append(broken, fmt.Sprintf("%s: a package variable of type %s.%s", f.at(s.Pos()), from.Name, sel.Sel.Name))
					}
				}
			}
		}
	}
	for _, f := range p.production() {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			for _, name := range assigned(n) {
				spec, ok := variables[name.Name]
				// The parser resolves names within a file: an unresolved name is the package's, declared in
				// another file.
				if ok && (name.Obj == nil || name.Obj.Decl == spec) {
					broken = append(broken, fmt.Sprintf("%s: package variable %s is changed", f.at(name.Pos()), name.Name))
				}
			}
			return true
		})
	}
	return broken
}

// assigned returns the variables that a statement changes: x = …, x++, x[i] = …, x.f = …
func assigned(n ast.Node) (names []*ast.Ident) {
	var targets []ast.Expr
	switch s := n.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			targets = s.Lhs
		}
	case *ast.IncDecStmt:
		targets = []ast.Expr{s.X}
	}
	for _, target := range targets {
		for target != nil {
			switch t := target.(type) {
			case *ast.Ident:
				names, target = append(names, t), nil
			case *ast.IndexExpr:
				target = t.X
			case *ast.SelectorExpr:
				target = t.X
			case *ast.StarExpr:
				target = t.X
			case *ast.ParenExpr:
				target = t.X
			default:
				target = nil
			}
		}
	}
	return names
}

// synonyms finds exported names that use another word than the glossary's.
func synonyms(p *pkg) (broken []string) {
	if strings.HasPrefix(p.dir, "internal/api") || p.dir == "internal/runtime/docker" {
		return nil // other people's APIs have their own words; a container is Docker's
	}
	for _, f := range p.production() {
		for _, decl := range f.syntax.Decls {
			for _, name := range declared(decl) {
				if !name.IsExported() {
					continue
				}
				for wrong, right := range banned() {
					if wrong.MatchString(name.Name) {
						broken = append(broken, fmt.Sprintf("%s: %s, say %s", f.at(name.Pos()), name.Name, right))
					}
				}
			}
		}
	}
	return broken
}

func banned() map[*regexp.Regexp]string {
	return map[*regexp.Regexp]string{
		regexp.MustCompile(`Container`):        "sandbox (a container is Docker's)",
		regexp.MustCompile(`Jail|Cell`):        "sandbox",
		regexp.MustCompile(`Provider|Backend`): "runtime",
		regexp.MustCompile(`^Job`):             "run",
		regexp.MustCompile(`RootFS|Rootfs`):    "image or root",
	}
}

func declared(decl ast.Decl) (names []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name)
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			}
		}
	}
	return names
}
