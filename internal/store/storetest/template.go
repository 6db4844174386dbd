package storetest

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func templateLife(t *testing.T, s store.Store) {
	ctx, all := t.Context(), s.Templates()
	var full store.Template
	fill(&full)
	full.Owner, full.Name, full.BuiltAt = "ann", "b", start()
	of := func(owner, name string) store.Template {
		return store.Template{Owner: owner, Template: belljar.Template{TemplateSpec: belljar.TemplateSpec{Name: name}}, Drop: []string{"x"}}
	}
	a, shared, bens := of("ann", "a"), of("", "b"), of("ben", "b")
	for _, each := range []store.Template{of("ann", "b"), full, a, shared, bens} {
		ok(t, all.Put(ctx, each))
	}
	got, err := all.Get(ctx, "ann", "b")
	ok(t, err)
	same(t, "every field, replaced", got, full)
	settled := of("ben", "a")
	settled.Drop = nil
	ok(t, all.Put(ctx, settled))
	list, err := all.List(ctx, "ann", false)
	ok(t, err)
	same(t, "one owner's", list, []store.Template{a, full})
	list, err = all.List(ctx, "ann", true)
	ok(t, err)
	same(t, "one owner's and the shared one", list, []store.Template{a, full, shared})
	list, err = all.List(ctx, "", true)
	ok(t, err)
	same(t, "the shared one", list, []store.Template{shared})
	list, err = all.Dropping(ctx)
	ok(t, err)
	named := func(owner, name string) (x store.Template) {
		x.Owner, x.Name = owner, name
		return x
	}
	same(t, "those with snapshots to remove", list, []store.Template{named("ann", "a"), named("ben", "b"), named("ann", "b"), named("", "b")})
	for _, who := range [][2]string{{"ann", "c"}, {"ben", "c"}, {"", "a"}, {"' OR 1=1 --", "b"}} {
		_, err := all.Get(ctx, who[0], who[1])
		wantErr(t, "get", err, store.ErrNotFound)
		wantErr(t, "delete", all.Delete(ctx, who[0], who[1]), store.ErrNotFound)
	}
	ok(t, all.Delete(ctx, "ann", "b"))
	list, err = all.List(ctx, "ann", false)
	ok(t, err)
	same(t, "left", list, []store.Template{a})
}
