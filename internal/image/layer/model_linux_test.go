package layer_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/image/layer"
)

// node is a file, folder or link in a model of a file system.
type node struct {
	kind    byte // tar's
	mode    int64
	body    *string // shared by hard links
	link    string
	kids    map[string]*node // of a folder
	implied bool
	gone    map[string]bool // names of lower layers that a folder hides
	opaque  bool
}

func newFolder() *node {
	return &node{kind: tar.TypeDir, kids: map[string]*node{}, gone: map[string]bool{}, implied: true, mode: 0o755}
}

// model is one layer in memory, written from the documentation and not from the code: a tree that entries are added to.
type model struct{ root *node }

// find returns the folder of a name, with those above it, following links inside the root; nil if it is missing and
// create is false.
func (m *model) find(at []*node, name string, create bool, hops *int) []*node {
	if strings.HasPrefix(name, "/") {
		at = []*node{m.root}
	}
	at = slices.Clone(at)
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "", ".":
			continue
		case "..":
			at = at[:max(1, len(at)-1)]
			continue
		}
		here := at[len(at)-1]
		kid := here.kids[element]
		switch {
		case kid != nil && kid.kind == tar.TypeSymlink:
			if *hops++; *hops > 40 {
				return nil
			}
			if at = m.find(at, kid.link, create, hops); at == nil {
				return nil
			}
			continue
		case kid != nil && kid.kind == tar.TypeDir:
		case !create:
			return nil
		default:
			kid = newFolder()
			here.kids[element] = kid
		}
		at = append(at, kid)
	}
	return at
}

// put adds an entry. It reports whether the layer is still valid.
func (m *model) put(e entry) bool {
	h := e.header()
	hops := 0
	at := m.find([]*node{m.root}, path.Dir(path.Clean(h.Name)), true, &hops)
	if at == nil {
		return false
	}
	here, name := at[len(at)-1], path.Base(h.Name)
	if name == ".wh..wh..opq" {
		here.opaque = true
		return true
	}
	if hidden, ok := strings.CutPrefix(name, ".wh."); ok {
		here.gone[hidden] = true
		return true
	}
	switch h.Typeflag {
	case tar.TypeReg:
		here.kids[name] = &node{kind: h.Typeflag, mode: h.Mode, body: &e.body}
	case tar.TypeSymlink:
		here.kids[name] = &node{kind: h.Typeflag, link: h.Linkname}
	case tar.TypeDir:
		kid := here.kids[name]
		if kid == nil || kid.kind != tar.TypeDir {
			kid = newFolder()
			here.kids[name] = kid
		}
		kid.implied, kid.mode = false, h.Mode|0o700
	case tar.TypeChar:
		delete(here.kids, name)
		here.gone[name] = true
	case tar.TypeLink:
		hops := 0
		from := m.find([]*node{m.root}, path.Dir(h.Linkname), false, &hops)
		if from == nil {
			return false
		}
		target := from[len(from)-1].kids[path.Base(h.Linkname)]
		if target == nil || target.kind == tar.TypeDir || from[len(from)-1] == here && path.Base(h.Linkname) == name {
			return target != nil && target.kind != tar.TypeDir
		}
		if replaced := here.kids[name]; replaced != nil && slices.Contains(from, replaced) {
			return false
		}
		here.kids[name] = target
	}
	return true
}

// over puts a layer over the lower one.
func (n *node) over(lower *node) *node {
	if n.kind != tar.TypeDir {
		return n
	}
	out := newFolder()
	out.mode = n.mode
	if lower != nil && lower.kind == tar.TypeDir {
		if n.implied {
			out.mode = lower.mode
		}
		if !n.opaque {
			maps.Copy(out.kids, lower.kids)
			for name := range n.gone {
				delete(out.kids, name)
			}
		}
	}
	for name, kid := range n.kids {
		out.kids[name] = kid.over(out.kids[name])
	}
	return out
}

// list lists a model in the format of look.
func (n *node) list(at string, out map[string]string) {
	for name, kid := range n.kids {
		p := path.Join(at, name)
		switch kid.kind {
		case tar.TypeDir:
			out[p] = fmt.Sprintf("/ %o", kid.mode)
			kid.list(p, out)
		case tar.TypeSymlink:
			out[p] = "-> " + kid.link
		default:
			out[p] = fmt.Sprintf("%o %s", kid.mode, *kid.body)
		}
	}
}

// groups groups names by their file.
func (n *node) groups(at string, out map[*node][]string) {
	for name, kid := range n.kids {
		p := path.Join(at, name)
		if kid.kind == tar.TypeDir {
			kid.groups(p, out)
		} else {
			out[kid] = append(out[kid], p)
		}
	}
}

func sorted[K comparable](groups map[K][]string) (list []string) {
	for _, names := range groups {
		slices.Sort(names)
		list = append(list, strings.Join(names, " = "))
	}
	slices.Sort(list)
	return list
}

// drawEntry draws from few names, so that entries collide.
func drawEntry(t *rapid.T, i int) entry {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	parts := rapid.SliceOfN(name, 1, 3).Draw(t, "name")
	dirs := strings.Join(parts[:len(parts)-1], "/")
	full := strings.Join(parts, "/")
	target := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "..", "", "."}), 1, 3).Draw(t, "target"), "/")
	switch rapid.IntRange(0, 10).Draw(t, "kind") {
	case 0, 1:
		return entry{name: full + "/", mode: rapid.SampledFrom([]int64{0o755, 0o311}).Draw(t, "mode")}
	case 2:
		return sym(full, cmpOr(target, "."))
	case 3:
		return sym(full, "/"+target)
	case 4, 5:
		return hard(full, strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "to"), "/"))
	case 6:
		return file(path.Join(dirs, ".wh."+parts[len(parts)-1]), "")
	case 7:
		return file(path.Join(dirs, ".wh..wh..opq"), "")
	case 8:
		return overlayGone(full)
	}
	return entry{name: full, body: fmt.Sprint(i), mode: rapid.SampledFrom([]int64{0o644, 0o755, 0o444}).Draw(t, "mode")}
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// TestModel tests that the result of any layers matches the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		top, err := os.MkdirTemp("", "model")
		if err != nil {
			rt.Fatal(err)
		}
		defer layer.Remove(top)
		whole, dirs := newFolder(), []string{}
		for n := range rapid.IntRange(1, 4).Draw(rt, "layers") {
			m, list, fine := model{newFolder()}, []entry{}, true
			for i := range rapid.IntRange(0, 12).Draw(rt, "entries") {
				e := drawEntry(rt, n*100+i)
				fine = m.put(e)
				if !fine && !rapid.SampledFrom([]bool{false, false, false, true}).Draw(rt, "keep what is refused") {
					// Unpack would refuse most layers. The model must drop the entry's partial effects.
					m = model{newFolder()}
					for _, e := range list {
						m.put(e)
					}
					fine = true
					continue
				}
				list = append(list, e)
				if !fine {
					break
				}
			}
			d := filepath.Join(top, fmt.Sprint("layer", n))
			if err := os.Mkdir(d, 0o700); err != nil {
				rt.Fatal(err)
			}
			_, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), d, layer.Options{})
			if (err == nil) != fine {
				rt.Fatalf("the model says %v, Unpack %v", fine, err)
			}
			if err != nil {
				return
			}
			dirs = append(dirs, d)
			whole = m.root.over(whole)
		}
		root := filepath.Join(top, "root")
		if err := os.Mkdir(root, 0o700); err != nil {
			rt.Fatal(err)
		}
		if _, err := layer.Merge(t.Context(), root, dirs); err != nil {
			rt.Fatal(err)
		}
		want := map[string]string{}
		whole.list("", want)
		wantSame := map[*node][]string{}
		whole.groups("", wantSame)
		got, gotSame := disk(rt, root)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
		if diff := cmp.Diff(sorted(wantSame), sorted(gotSame)); diff != "" {
			rt.Fatalf("other files are one:\n%s", diff)
		}
		if err := layer.Remove(top); err != nil {
			rt.Fatal(err)
		}
	})
}

// disk returns the model's view of the files on disk.
func disk(t *rapid.T, root string) (got map[string]string, same map[uint64][]string) {
	got, same = map[string]string{}, map[uint64][]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, root+"/")
		switch {
		case d.IsDir():
			got[name] = fmt.Sprintf("/ %o", info.Mode().Perm())
			return nil
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			got[name] = "-> " + target
			if err != nil {
				return err
			}
		default:
			body, err := os.ReadFile(p)
			got[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), body)
			if err != nil {
				return err
			}
		}
		ino := info.Sys().(*syscall.Stat_t).Ino
		same[ino] = append(same[ino], name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, same
}
