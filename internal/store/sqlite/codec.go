package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/store"
)

// timeLayout is ISO 8601 in UTC with a fixed width: its text sorts by time.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// dayLayout is the format of sandbox_usage_daily.day.
const dayLayout = "2006-01-02"

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// timeOrNull returns NULL for a nil time.
func timeOrNull(t *time.Time) any {
	if t == nil {
		return nil
	}
	return timeText(*t)
}

// textOrNull returns NULL for an empty text.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: time %q", store.ErrCorrupt, s)
	}
	return t, nil
}

func parseTimeOrNull(s sql.NullString) (*time.Time, error) {
	if !s.Valid {
		return nil, nil
	}
	t, err := parseTime(s.String)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// marshal encodes the value of a JSON column. Invalid UTF-8 becomes the replacement character.
func marshal(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return string(raw), nil
}

func unmarshal(column, text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrCorrupt, column, err)
	}
	return nil
}

// numberOrNull returns NULL for a nil number.
func numberOrNull(n *int) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}
