package show

import (
	"time"

	"github.com/belljar/belljar"
)

// TokenState is the state of an API key, in words.
func TokenState(k belljar.Token, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt == nil:
		return "good"
	case k.ExpiresAt.Before(now):
		return "expired"
	}
	return "good for " + RoughDuration(k.ExpiresAt.Sub(now))
}
