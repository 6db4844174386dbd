package sqlite

import (
	"context"
	"fmt"

	"github.com/belljar/belljar/internal/store"
)

type templates struct{ s *Store }

func scanTemplate(row scanner) (x store.Template, err error) {
	var name, detail string
	if err := row.Scan(&name, &detail); err != nil {
		return x, scanFailed("template", name, err)
	}
	if err := unmarshal("template "+name, detail, &x); err != nil {
		return store.Template{}, err
	}
	return x, nil
}

// Put stores a template. It is durable, because snapshots are removed according to the record.
func (q templates) Put(ctx context.Context, x store.Template) error {
	x.BuiltAt = x.BuiltAt.UTC()
	detail, err := marshal(x)
	if err != nil {
		return err
	}
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		_, err := t.exec("INSERT INTO sandbox_templates (user_id, name, detail) VALUES (?,?,?) ON CONFLICT (user_id, name) DO UPDATE SET detail = excluded.detail",
			x.Owner, x.Name, detail)
		return err
	}})
}

// Get returns a template.
func (q templates) Get(ctx context.Context, owner, name string) (store.Template, error) {
	x, err := scanTemplate(q.s.readDB.QueryRowContext(ctx, "SELECT name, detail FROM sandbox_templates WHERE user_id = ? AND name = ?", owner, name))
	if err != nil {
		return store.Template{}, q.s.failed(ctx, err)
	}
	return x, nil
}

// List returns an owner's templates.
func (q templates) List(ctx context.Context, owner string, shared bool) ([]store.Template, error) {
	return list(ctx, q.s, owner, scanTemplate, "SELECT name, detail FROM sandbox_templates"+ofOwner, owner, shared)
}

// ofOwner selects the rows of an owner, and those that are shared if the second argument is true.
const ofOwner = " WHERE user_id IN (?1, iif(?2, '', ?1)) ORDER BY name, user_id DESC"

// Dropping returns the names of the templates with snapshots to remove.
func (q templates) Dropping(ctx context.Context) ([]store.Template, error) {
	rows, err := q.s.readDB.QueryContext(ctx, "SELECT user_id, name FROM sandbox_templates "+
		"WHERE iif(json_valid(detail), json_array_length(detail, '$.Drop'), 0) > 0 ORDER BY name, user_id DESC")
	return collect(ctx, q.s, rows, err, func(row scanner) (x store.Template, err error) {
		return x, row.Scan(&x.Owner, &x.Name)
	})
}

// Delete deletes a template.
func (q templates) Delete(ctx context.Context, owner, name string) error {
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		n, err := t.exec("DELETE FROM sandbox_templates WHERE user_id = ? AND name = ?", owner, name)
		if err == nil && n == 0 {
			return fmt.Errorf("template %s: %w", name, store.ErrNotFound)
		}
		return err
	}})
}
