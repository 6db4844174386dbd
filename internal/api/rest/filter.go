package rest

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// RunFilter selects runs (docs/compatibility.md#administration).
type RunFilter struct {
	Phase       string `query:"phase" enum:"queued,starting,running,completed,failed,killed,timed_out"`
	Runtime     string `query:"runtime" doc:"Exact name of the runtime"`
	BaseImage   string `query:"base_image" doc:"Exact name of the image" example:"python:3.11-slim"`
	ImageDigest string `query:"image_digest" doc:"Exact digest of the image" example:"sha256:…"`
	SessionID   string `query:"session_id" doc:"Runs in this session"`
	Q           string `query:"q" doc:"Part of the image's name or of the message"`

	StartedFrom  string `query:"started_at_from" doc:"RFC 3339, inclusive; without an offset it is UTC" example:"2025-10-28T00:00:00Z"`
	StartedTo    string `query:"started_at_to" doc:"RFC 3339, inclusive"`
	FinishedFrom string `query:"finished_at_from" doc:"RFC 3339, inclusive"`
	FinishedTo   string `query:"finished_at_to" doc:"RFC 3339, inclusive"`

	Sort string `query:"sort" pattern:"^(created|started|finished)_at(:(asc|desc))?$" patternDescription:"created_at, started_at or finished_at, with :asc or :desc" doc:"created_at, started_at or finished_at, with :asc or :desc; default: created_at:desc" example:"started_at:desc"`
	Page
}

func (p *RunFilter) query() (belljar.RunQuery, error) {
	q := belljar.RunQuery{
		Phase: belljar.Phase(p.Phase), Runtime: p.Runtime, BaseImage: p.BaseImage, ImageDigest: p.ImageDigest,
		SessionID: p.SessionID, Q: p.Q, Sort: p.Sort, Limit: p.Limit, Offset: p.Offset,
	}
	for _, bound := range []struct {
		name, given string
		to          *time.Time
	}{
		{"started_at_from", p.StartedFrom, &q.StartedFrom},
		{"started_at_to", p.StartedTo, &q.StartedTo},
		{"finished_at_from", p.FinishedFrom, &q.FinishedFrom},
		{"finished_at_to", p.FinishedTo, &q.FinishedTo},
	} {
		if bound.given == "" {
			continue
		}
		t, ok := parseTime(bound.given)
		if !ok {
			e := api.Refuse(bound.name, "%s must be a time such as 2025-10-28T12:00:00Z, got %.40q", bound.name, bound.given)
			e.Hint = "a + in a query is a space, write %2B"
			return belljar.RunQuery{}, e
		}
		*bound.to = t
	}
	return q, nil
}

// parseTime parses the common forms of ISO 8601. A time without an offset is UTC.
func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
