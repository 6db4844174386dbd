package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/belljar/belljar/internal/store"
)

type templates struct{ s *Store }

// Put stores a template.
func (q templates) Put(ctx context.Context, x store.Template) error {
	x.BuiltAt = x.BuiltAt.UTC()
	kept, err := deepCopy(x)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		q.s.built[secretName{x.Owner, x.Name}] = kept
		return nil
	})
}

// Get returns a template.
func (q templates) Get(ctx context.Context, owner, name string) (got store.Template, err error) {
	list, err := q.list(ctx, func(x store.Template) bool { return x.Owner == owner && x.Name == name })
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("template %s: %w", name, store.ErrNotFound)
	}
	if err != nil {
		return got, err
	}
	return list[0], nil
}

// List returns an owner's templates.
func (q templates) List(ctx context.Context, owner string, shared bool) ([]store.Template, error) {
	return q.list(ctx, func(x store.Template) bool { return x.Owner == owner || shared && x.Owner == "" })
}

// Dropping returns the names of the templates with snapshots to remove.
func (q templates) Dropping(ctx context.Context) ([]store.Template, error) {
	list, err := q.list(ctx, func(x store.Template) bool { return len(x.Drop) > 0 })
	for i, x := range list {
		list[i] = store.Template{Owner: x.Owner}
		list[i].Name = x.Name
	}
	return list, err
}

func (q templates) list(ctx context.Context, wanted func(store.Template) bool) (list []store.Template, err error) {
	err = q.s.read(ctx, func() error {
		for _, x := range q.s.built {
			if !wanted(x) {
				continue
			}
			got, err := deepCopy(x)
			if err != nil {
				return err
			}
			list = append(list, got)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b store.Template) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Owner, a.Owner))
	})
	return list, err
}

// Delete deletes a template.
func (q templates) Delete(ctx context.Context, owner, name string) error {
	return q.s.write(ctx, func() error {
		key := secretName{owner, name}
		if _, ok := q.s.built[key]; !ok {
			return fmt.Errorf("template %s: %w", name, store.ErrNotFound)
		}
		delete(q.s.built, key)
		return nil
	})
}
