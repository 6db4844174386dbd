package service

import (
	"context"

	"github.com/belljar/belljar"
)

// volumes is the volumes as one caller sees them. It records refusals in the audit trail.
type volumes struct {
	belljar.Volumes
	view
}

// Create makes a volume.
func (v volumes) Create(ctx context.Context, spec belljar.VolumeSpec) (belljar.Volume, error) {
	made, err := v.Volumes.Create(ctx, spec)
	return orRefused(v.view, "make a volume", made, err)
}
