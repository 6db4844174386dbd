package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/store"
)

// timeLayout is ISO-8601 in UTC, of one width: as text it sorts by time.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// dayLayout is a day of sandbox_usage_daily.
const dayLayout = "2006-01-02"

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// timeOrNull is NULL for a time that has not come.
func timeOrNull(t *time.Time) any {
	if t == nil {
		return nil
	}
	return timeText(*t)
}

// textOrNull is NULL for no text.
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

// marshal is for JSON columns. They are text: what is no UTF-8 becomes the replacement character.
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

// numberOrNull is NULL for no number.
func numberOrNull(n *int) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}
