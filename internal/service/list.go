package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// sorts are the valid sort orders of a list.
func sorts() []string {
	var all []string
	for _, by := range []string{"created_at", "started_at", "finished_at"} {
		all = append(all, by, by+":desc", by+":asc")
	}
	return all
}

// list returns one page of runs. Live runs have their current state.
func (s *Service) list(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	page := belljar.RunPage{Items: []belljar.Run{}}
	if err := checkQuery(&q); err != nil {
		return page, err
	}
	s.runs.Flush(ctx)
	rows, total, err := s.opts.Store.Runs().List(ctx, q)
	if err != nil {
		return page, fault.Record("list runs", err)
	}
	for _, row := range rows {
		run := row.Run
		if r := s.runs.Get(row.ID); r != nil {
			run = r.Snapshot()
		}
		if run.Build != nil {
			short := *run.Build
			short.Output = ""
			run.Build = &short
		}
		page.Items = append(page.Items, run)
	}
	page.Total, page.Limit, page.Offset = total, q.Limit, q.Offset
	page.HasMore = q.Offset < total-q.Limit
	return page, nil
}

// checkQuery checks a query and fills in defaults.
func checkQuery(q *belljar.RunQuery) error {
	if err := checkPage(&q.Limit, q.Offset); err != nil {
		return err
	}
	q.Sort = cmp.Or(q.Sort, "created_at:desc")
	if !slices.Contains(sorts(), q.Sort) {
		return fault.Refuse("sort", q.Sort, "sort must be created_at, started_at or finished_at, with :asc or :desc")
	}
	if q.Phase != "" && !q.Phase.Terminal() && !slices.Contains([]belljar.Phase{
		belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning,
	}, q.Phase) {
		return fault.Refuse("phase", string(q.Phase), fmt.Sprintf("phase %q does not exist", q.Phase))
	}
	return nil
}

// checkPage checks the bounds of a page. Limit 0 becomes the default.
func checkPage(limit *int, offset int) error {
	switch {
	case *limit < 0 || *limit > belljar.MaxPage:
		return fault.Refuse("limit", *limit, fmt.Sprintf("limit must be 1 to %d", belljar.MaxPage))
	case offset < 0:
		return fault.Refuse("offset", offset, "offset must not be negative")
	}
	*limit = cmp.Or(*limit, store.DefaultPage)
	return nil
}
