package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/template"
)

// buildTTL is how long the session of a killed build lives, unless MaxSessionTTL is shorter.
const buildTTL = 5 * time.Minute

func newTemplates(s *Service) *template.Templates {
	version := belljar.SpecVersion
	if all := s.opts.Policy.SupportedSpecVersions; len(all) > 0 {
		version = slices.MaxFunc(all, strings.Compare)
	}
	return template.New(template.Options{
		Store: s.opts.Store.Templates(), Snapshots: s.snapshots, As: s.As, SpecVersion: version, TTL: min(buildTTL, s.opts.MaxSessionTTL),
		Record: s.emit, Now: s.now, Log: s.log,
	})
}

// templates is the templates as one caller sees them. It records refusals in the audit trail.
type templates struct {
	belljar.Templates
	view
}

// Build makes a template.
func (v templates) Build(ctx context.Context, spec belljar.TemplateSpec) (belljar.Template, error) {
	made, err := v.Templates.Build(ctx, spec)
	if err != nil {
		return belljar.Template{}, v.service.refused(v.caller, "build a template", err)
	}
	return made, nil
}
