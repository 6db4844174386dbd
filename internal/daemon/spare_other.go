//go:build !linux

package daemon

import "log/slog"

// spare does nothing: only Linux has an out-of-memory killer.
func spare(*slog.Logger) {}
